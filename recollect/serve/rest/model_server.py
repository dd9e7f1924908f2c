"""What `/chat` and the OpenAI proxy share: asking the model server, and saving in a thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from starlette.concurrency import run_in_threadpool

from recollect.capture.upstream import SETTING, Headers, NoAnswer, Upstream
from recollect.errors import InvalidInput
from recollect.serve.http import logs
from recollect.serve.http.access import Access
from recollect.serve.http.responses import Problem
from recollect.serve.identity.principal import LOCAL

if TYPE_CHECKING:
    import httpx

NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_SESSION_LENGTH = 256

T = TypeVar("T")


def require_upstream(access: Access) -> Upstream:
    """The model server. Raises Problem 503 unless one is configured."""
    try:
        upstream = access.service.upstream
    except InvalidInput as error:
        logs.error(error, request_id=access.request_id, what=SETTING)
        raise Problem(
            503,
            f"The setting {SETTING} or {SETTING}_KEY is invalid. "
            "The server log has the details under this request id.",
        ) from error
    if upstream is None:
        raise Problem(
            503,
            f"No model is configured. Set {SETTING} on the server (https://host/v1#model) and, "
            f"if the model server needs a key, {SETTING}_KEY.",
        )
    return upstream


async def ask(
    access: Access,
    upstream: Upstream,
    path: str,
    client_headers: Headers,
    own_headers: Headers,
    body: bytes,
    query: str = "",
) -> httpx.Response:
    """Send the request on; the response has only begun. Raises Problem."""
    is_local = access.principal.credential == LOCAL
    headers = upstream.request_headers(client_headers, local=is_local) + own_headers
    method = access.request.method
    try:
        response = await upstream.ask(method, path, headers, body, query)
    except NoAnswer as error:
        access.service.metrics.upstream_failures.inc()
        raise no_answer(error) from error
    return response


def no_answer(error: NoAnswer) -> Problem:
    if error.is_timeout:
        return Problem(504, str(error), code="UPSTREAM_TIMEOUT")
    return Problem(502, str(error), code="UPSTREAM_ERROR")


async def save_on_the_side(access: Access, save: Callable[[], T]) -> T | None:
    """Save in a thread. A failure is logged and counted, but does not affect the response."""
    try:
        return await run_in_threadpool(save)
    except Exception as error:  # the reply of the model is worth more than its record
        report_unsaved(access, error)
        return None


def report_unsaved(access: Access, error: BaseException | None = None) -> None:
    """Log and count something that was not saved. Without an error, a response was unreadable."""
    access.service.metrics.not_recorded.inc()
    if error is None:
        logs.event("a response could not be parsed", request_id=access.request_id)
    else:
        logs.error(error, request_id=access.request_id, what="recording")
