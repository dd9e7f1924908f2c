"""Pages and fragments: Jinja2 with autoescaping, and the filters and functions of the templates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import iso, storable
from recollect.model.audience import is_human_only
from recollect.model.sources import source_label
from recollect.serve import links
from recollect.serve.console.attachments import describe, describe_all, file_size
from recollect.serve.console.markup import rendering
from recollect.serve.console.tabs import CONVERSATIONS, TABS, Tab
from recollect.serve.http import assets
from recollect.serve.identity.principal import KNOWLEDGE, WRITE, Principal

FRAGMENT_HEADER = "x-recollect-fragment"
"""The page's script sends this header with `main` to get a page without its frame."""

# Browsers imitate each other, so the order matters.
_BROWSERS = {
    "Edg/": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
    "curl/": "curl",
}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(assets.FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters.update(
        iso=iso,
        browser=browser_name,
        exact_time=exact_time,
        short_time=short_time,
        number=lambda value: f"{value:,}",
        plural=plural,
        file_size=file_size,
        source_label=source_label,
        project_name=project_name,
        url_quote=links.quote_segment,
        host=links.host,
    )
    environment.globals.update(
        static=assets.url,
        conversation_url=links.conversation_url,
        open_in=links.open_in,
        highlight=rendering.highlight,
        query_string=links.query,
        item_url=links.item_url,
        is_human_only=is_human_only,
        describe=describe,
        describe_all=describe_all,
        ROLES=ROLES,
        TABS=TABS,
    )
    return environment


def render(name: str, **values: Any) -> str:
    return _ENVIRONMENT.get_template(name).render(**values)


def page(
    request: Request,
    name: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    is_framed: bool = True,
    **values: Any,
) -> Response:
    """A page. The page's own script gets only the main part of it."""
    principal = getattr(request.state, "principal", None)
    values.setdefault("signed_in", principal is not None and principal.credential != "local")
    values.setdefault("read_only", principal is not None and WRITE not in principal.scopes)
    values.setdefault("tabs", tabs(principal))
    values.setdefault("kind", CONVERSATIONS)
    layout = "_layout.html"
    if request.headers.get(FRAGMENT_HEADER) == "main":
        layout = "_main_only.html"
    elif not is_framed:
        layout = "_alone.html"
    return html(render(name, layout=layout, **values), status, headers)


def tabs(principal: Principal | None) -> list[Tab]:
    """No tabs at all if the key may read conversations only."""
    if principal is None or principal.has_toolset(KNOWLEDGE):
        return list(TABS.values())
    return []


def fragment(name: str, headers: Mapping[str, str] | None = None, **values: Any) -> Response:
    return html(render(name, **values), 200, headers)


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(storable(text).encode(), status, dict(headers or {}), "text/html")


# -- filters ---


def short_time(value: datetime | None, now: datetime | None = None) -> str:
    """A time for lists: the time of today, or else the date."""
    if value is None:
        return ""
    now = now or datetime.now(UTC)
    if value.astimezone(UTC).date() == now.astimezone(UTC).date():
        return f"{value.astimezone(UTC):%H:%M}"
    return f"{value.day} {value:%b} {value.year}"


def exact_time(value: datetime | None) -> str:
    if value is None:
        return "time unknown"
    return f"{value.day} {value:%b} {value.year}, {value:%H:%M} UTC"


def plural(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: "1 file", "2 files"."""
    if number == 1:
        return f"1 {singular}"
    return f"{number:,} {plural or singular + 's'}"


def browser_name(user_agent: str) -> str:
    """A browser and its system as people call them: "Firefox on Linux"."""
    found = (
        next((name for mark, name in names.items() if mark in user_agent), "")
        for names in (_BROWSERS, _SYSTEMS)
    )
    return " on ".join(filter(None, found)) or "Unknown browser"


def project_name(project: str) -> str:
    """A short name for a project; the last folder if the project is a path."""
    return project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or project


_ENVIRONMENT = _environment()
