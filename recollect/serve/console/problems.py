"""Errors for people: a page instead of JSON, where a browser asks in order to show one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from recollect.errors import RecollectError
from recollect.serve.console.templating import FRAGMENT, html, render
from recollect.serve.http.error_responses import is_unexpected, to_problem

_HEADINGS = {
    400: "That cannot be done",
    403: "Not allowed",
    404: "Not found",
    413: "Too large",
    429: "Too many requests",
    503: "Not at the moment",
}


class PageRoute(APIRoute):
    """A route of the console: what goes wrong on a page is shown on a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except (RecollectError, HTTPException, RequestValidationError) as error:
                if is_unexpected(error) or not _wants_page(request):
                    raise
                problem = to_problem(error)
                return error_page(
                    problem.status_code,
                    problem.detail,
                    request.scope["state"].get("request_id", ""),
                )

        return shown


def error_page(status: int, sentence: str, request_id: str = "") -> Response:
    heading = _HEADINGS.get(status, "Something went wrong")
    return html(
        render(
            "error.html", heading=heading, sentence=sentence, status=status, request_id=request_id
        ),
        status,
    )


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and FRAGMENT not in request.headers
