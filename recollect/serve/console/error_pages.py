"""Error pages: browsers get a page inside the console's frame, other clients get JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from recollect.errors import LIST_ADVICE, RecollectError
from recollect.serve.console.lists import ListFilters
from recollect.serve.console.tabs import CONVERSATIONS, TABS
from recollect.serve.console.templating import FRAGMENT_HEADER, page
from recollect.serve.http.responses import (
    DEFAULT_MESSAGES,
    Problem,
    is_unexpected,
    to_problem,
)
from recollect.serve.http.routes import Route

_HEADINGS = {
    400: "Invalid request",
    403: "Access denied",
    404: "Not found",
    405: "Invalid request",
    408: "Too slow",
    413: "Too large",
    429: "Too many requests",
    503: "Temporarily unavailable",
    507: "The disk is full",
}
_ADVICE = {
    400: "Check the address and the filters, or start a new search.",
    403: "Sign in with an API key that may do this, or ask the administrator of this server.",
    404: "It may have been deleted or renamed. Search for it, or choose it from the list.",
    413: "Send less at once. To import large files, run: recollect import FILE",
    429: "Wait a moment, then try again.",
    500: "Try again. If it fails again, the administrator finds the cause in the server's log, "
    "under the request id below.",
    503: "Try again in a few seconds.",
    507: "Free space on the server's disk, then try again.",
}
_RETRYABLE = frozenset({408, 429, 500, 503, 507})


class PageRoute(Route):
    """A route of the console. Its errors are pages, also for the methods that forms use."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_show_error(request: Request) -> Response:
            try:
                return await handle(request)
            except (RecollectError, HTTPException, RequestValidationError) as error:
                if is_unexpected(error) or not wants_page(request):
                    raise
                return error_page(request, to_problem(error))

        return handle_or_show_error


def respond_with_page(request: Request, problem: Problem) -> Response | None:
    """The page for an error outside the console's routes; None if the client wants JSON.

    Such errors are unknown addresses, and those that the edge reports before any route is called.
    """
    is_api = request.url.path.startswith(("/api/", "/v1/", "/static/"))
    if is_api or request.method not in ("GET", "HEAD") or not wants_page(request):
        return None
    return error_page(request, problem)


def error_page(request: Request, problem: Problem) -> Response:
    """An error as a page. It does not use the library, which may be what failed."""
    status = problem.status_code
    heading = _HEADINGS.get(status) or "Something went wrong"
    message = problem.detail.replace(LIST_ADVICE, "")  # the page has a list
    if status == HTTPStatus.NOT_FOUND and message == DEFAULT_MESSAGES[404]:
        message = "There is no page at this address."
    retry_url = ""
    if status in _RETRYABLE and request.method == "GET":
        retry_url = request.url.path
        if request.url.query:
            retry_url += f"?{request.url.query}"
    headers = dict(problem.headers or {})
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return page(
        request,
        "error.html",
        status,
        headers,
        is_framed=getattr(request.state, "principal", None) is not None,
        heading=heading,
        message=message,
        advice=_ADVICE.get(status, ""),
        code=status,
        retry_url=retry_url,
        request_id=getattr(request.state, "request_id", ""),
        q=request.query_params.get("q", ""),
        filters=ListFilters(),
        facets={"projects": [], "sources": [], "tags": []},
        list_tab=TABS[CONVERSATIONS],
    )


def wants_page(request: Request) -> bool:
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and FRAGMENT_HEADER not in request.headers
