"""Error pages: browsers get a page, the page's script and other clients get JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from recollect.errors import RecollectError
from recollect.serve.console.templating import FRAGMENT_HEADER, html, render
from recollect.serve.http.error_responses import is_unexpected, to_problem
from recollect.serve.http.routing import DeferredRoute

_HEADINGS = {
    400: "Invalid request",
    403: "Access denied",
    404: "Not found",
    413: "Too large",
    429: "Too many requests",
    503: "Temporarily unavailable",
}


class PageRoute(DeferredRoute):
    """A route of the console that reports errors as a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_show_error(request: Request) -> Response:
            try:
                return await handle(request)
            except (RecollectError, HTTPException, RequestValidationError) as error:
                if is_unexpected(error) or not _wants_page(request):
                    raise
                problem = to_problem(error)
                request_id = request.scope["state"].get("request_id", "")
                return error_page(problem.status_code, problem.detail, request_id)

        return handle_or_show_error


def error_page(status: int, message: str, request_id: str = "") -> Response:
    heading = _HEADINGS.get(status, "Something went wrong")
    values = {"heading": heading, "message": message, "status": status, "request_id": request_id}
    return html(render("error.html", **values), status)


def _wants_page(request: Request) -> bool:
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and FRAGMENT_HEADER not in request.headers
