"""The console's pages: whole ones to open and reload, their main part when the page's own script goes on."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from recollect.errors import InvalidInput
from recollect.library import Library
from recollect.model.sources import source_label
from recollect.serve import links
from recollect.serve.console import charts, fragments, knowledge, rendering
from recollect.serve.console.asking import Asked, Filters, Wanted
from recollect.serve.console.kinds import CONVERSATIONS, KINDS, OTHERS, amounts
from recollect.serve.console.problems import PageRoute
from recollect.serve.console.shapes import conversations_in, in_words, opened, tags_of
from recollect.serve.console.templating import html, page, render
from recollect.serve.http import (
    assets,
    routing,  # noqa: F401  which makes `{…:id}` known
)
from recollect.serve.http.access import AccessTo
from recollect.serve.http.auth import COOKIE, Unauthorized
from recollect.serve.http.error_responses import Problem

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_LOGIN_BYTES = 20_000
_YEAR = 31_536_000
_RECEIPTS = 100


# -- pages ---


@router.get("/")
def start(access: AccessTo, asked: Asked, filters: Filters) -> Response:
    """The start page, or what a search finds."""
    with access.read() as library:
        found = fragments.searched(access, library, asked, filters) if asked.q.strip() else None
        beside = (
            found["within"] if found is not None and found["within"] in OTHERS else CONVERSATIONS
        )
        values = knowledge.frame(library, filters, beside) | asked.values()
        others = (
            [(KINDS[name], count) for name, count in amounts(access, library).items()]
            if found is None
            else []
        )
    values |= found or {"conversations": conversations_in(values["facets"]), "others": others}
    return page(access.request, "start.html", **values)


@router.get("/c/")
def conversation_by_query(
    access: AccessTo, filters: Filters, id: str, m: str = "", q: str = ""
) -> Response:
    """A conversation whose id cannot stand in a path."""
    return conversation(access, filters, id, m, q)


@router.get("/c/{conversation_id:id}")
def conversation(
    access: AccessTo, filters: Filters, conversation_id: str, m: str = "", q: str = ""
) -> Response:
    """A conversation: from its start, or around the message `m`."""
    with access.read() as library:
        window = opened(library, access.principal, conversation_id, through=m, around=m)
        values = _frame(library, filters, conversation_id)
    document = window["document"]
    values |= window | {"tags": tags_of(document.metadata), "q": q, "words": rendering.sought(q)}
    return page(access.request, "conversation.html", **values)


@router.get("/activity")
def activity(access: AccessTo, filters: Filters) -> Response:
    with access.read() as library:
        numbers = library.activity()
        values = _frame(library, filters)
    months = charts.months(numbers["months"])
    drawn = [
        charts.columns("Messages over time", months, "Month", broad=True),
        charts.bars(
            "By origin", [(source_label(name), n) for name, n in numbers["sources"]], "Origin"
        ),
        charts.bars("By model", numbers["models"], "Model"),
        charts.bars("By tool", numbers["tools"], "Tool"),
        charts.bars("Busiest projects", numbers["projects"], "Project"),
        charts.columns(
            "By weekday", list(zip(charts.WEEKDAYS, numbers["weekdays"], strict=True)), "Weekday"
        ),
        charts.columns(
            "By hour (UTC)", [(f"{hour:02}", n) for hour, n in enumerate(numbers["hours"])], "Hour"
        ),
    ]
    shown = [chart for chart in drawn if any(number for _, number in chart.rows)]
    total = sum(number for _, number in numbers["sources"])
    first = in_words(months[0][0]) if months else ""
    return page(access.request, "activity.html", charts=shown, total=total, first=first, **values)


@router.get("/imports")
def imports(access: AccessTo, filters: Filters) -> Response:
    with access.read() as library:
        receipts = fragments.receipts_shown(library)
        values = _frame(library, filters)
    shown, older = receipts[:_RECEIPTS], len(receipts[_RECEIPTS:])
    return page(access.request, "imports.html", receipts=shown, older=older, **values)


def _frame(library: Library, filters: Wanted, current: str = "") -> dict[str, Any]:
    """What stands around every page; the page's own script has it already."""
    return knowledge.frame(library, filters, CONVERSATIONS, current)


# -- signing in ---


@router.get("/login")
def login_page(next: Annotated[str, Query(max_length=4000)] = "/") -> Response:
    return html(render("login.html", next=links.local(next), problem=""))


@router.post("/login")
async def login(request: Request) -> Response:
    """Check a key or token, and keep it in a cookie that no script can read."""
    given = await _form(request)
    key, next = given.get("key", "").strip(), links.local(given.get("next"))
    service = request.app.state.service
    try:
        if not key:
            raise Unauthorized("Enter a key.")
        await service.auth.admit(key, request.client.host if request.client else "")
    except Problem as problem:
        return html(render("login.html", next=next, problem=problem.detail), problem.status_code)
    answer = RedirectResponse(next, 303)
    answer.set_cookie(
        COOKIE,
        key,
        max_age=_YEAR,
        path="/",
        httponly=True,
        samesite="strict",
        secure=service.config.secure_cookies,
    )
    return answer


@router.post("/logout")
def logout() -> Response:
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LOGIN_BYTES:
            raise Problem(413, "That is too long for a key.")
    try:
        parsed = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=10)
    except ValueError as error:
        raise InvalidInput("The form cannot be read.") from error
    return {name: values[0] for name, values in parsed.items()}


# -- static files ---


@router.get("/static/{version}/{name}")
def static(request: Request, version: str, name: str) -> Response:
    return assets.serve(request, version, name)
