"""Pages and fragments: Jinja2 with escaping on, and what every template may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from recollect.language.query import ROLES
from recollect.language.text import iso, storable
from recollect.model.sources import source_label
from recollect.serve import links
from recollect.serve.console import rendering
from recollect.serve.console.kinds import CONVERSATIONS, KINDS, KNOWLEDGE
from recollect.serve.http import assets
from recollect.serve.http.principal import WRITE

FRAGMENT = "x-recollect-fragment"
"""A header by which the page's own script asks for the main part of a page alone."""


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(assets.FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    made.filters.update(
        iso=iso,
        ago=ago,
        exact=exact,
        number=lambda value: f"{value:,}",
        plural=plural,
        origin=source_label,
        size=size,
        project=project,
        quoted=links.quote_segment,
        host=links.host,
    )
    made.globals.update(
        static=assets.url,
        conversation_url=links.conversation_url,
        open_in=links.open_in,
        marked=rendering.marked,
        query=links.query,
        item_url=links.item_url,
        ROLES=ROLES,
        KINDS=KINDS,
    )
    return made


def render(name: str, **values: Any) -> str:
    return _ENVIRONMENT.get_template(name).render(**values)


def page(
    request: Request,
    name: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> Response:
    """A whole page; to the page's own script only its main part."""
    bare = request.headers.get(FRAGMENT) == "main"
    principal = getattr(request.state, "principal", None)
    values.setdefault("signed_in", principal is not None and principal.credential != "local")
    values.setdefault("reader", principal is not None and WRITE not in principal.scopes)
    allowed = principal.toolsets if principal is not None else None
    values.setdefault(
        "tabs", list(KINDS.values()) if allowed is None or KNOWLEDGE in allowed else []
    )
    values.setdefault("source", CONVERSATIONS)
    return html(
        render(name, layout="_bare.html" if bare else "_layout.html", **values), status, headers
    )


def fragment(name: str, headers: Mapping[str, str] | None = None, **values: Any) -> Response:
    return html(render(name, **values), 200, headers)


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(storable(text).encode(), status, dict(headers or {}), "text/html")


# -- what templates show ---


@dataclass(frozen=True, slots=True)
class _Step:
    seconds: int
    unit: str


_STEPS = (_Step(3600, "h"), _Step(60, "min"))


def ago(value: datetime | None, now: datetime | None = None) -> str:
    """How long ago, short enough for a list: "now", "5 min", "3 h", "Tue", "12 Mar", "12 Mar 2024"."""
    if value is None:
        return ""
    moment = now or datetime.now(UTC)
    passed = moment - value
    if timedelta(0) <= passed < timedelta(minutes=1):
        return "now"
    if timedelta(0) <= passed < timedelta(days=1):
        step = next(s for s in _STEPS if passed.total_seconds() >= s.seconds)
        return f"{int(passed.total_seconds() // step.seconds)} {step.unit}"
    if timedelta(0) <= passed < timedelta(days=7):
        return f"{value:%a}"
    if value.year == moment.year:
        return f"{value.day} {value:%b}"
    return f"{value.day} {value:%b} {value.year}"


def exact(value: datetime | None) -> str:
    return f"{value.day} {value:%b} {value.year}, {value:%H:%M} UTC" if value else "time unknown"


def plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def project(name: str) -> str:
    """A project in few letters: of a folder its own name."""
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or name


def size(number: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


_ENVIRONMENT = _environment()
