"""One shape for every error of every route, whatever went wrong."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from recollect import errors
from recollect.language.text import iso, truncate
from recollect.serve.http import logs
from recollect.serve.http.access import Forbidden
from recollect.serve.http.answers import answer

CODES = {
    400: "VALIDATION_ERROR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "REQUEST_TIMEOUT",
    409: "CONFLICT",
    413: "PAYLOAD_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    421: "MISDIRECTED_REQUEST",
    429: "RATE_LIMIT_EXCEEDED",
    500: "INTERNAL_ERROR",
    502: "UPSTREAM_ERROR",
    503: "UNAVAILABLE",
    507: "STORAGE_FULL",
}
SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not take that method.",
    500: "Something went wrong here. The server's log says more, under this request id.",
    507: "The disk is full: nothing was written.",
}
_STATUSES: tuple[tuple[type[errors.RecollectError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.InvalidInput, 400),
    (errors.UnknownFormat, 400),
    (errors.UnsafeFile, 400),
    (Forbidden, 403),
    (errors.StoreBusy, 503),
    (errors.StoreUnavailable, 503),
    (errors.SearchTimeout, 503),
)
# What such an error says may name paths and servers, which are for the log.
_UNAVAILABLE: dict[type[Exception], str] = {
    errors.StoreBusy: "The library is busy. Try again.",
    errors.StoreUnavailable: "The database cannot be reached. Try again.",
}
SEARCH_TIMEOUT = "Database operation timeout"
RETRY_SECONDS = 2


class Problem(HTTPException):
    """An answer of this status and sentence, in the one shape. For what no RecollectError says."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        fields: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code
        self.retry_after = retry_after
        self.fields = fields


def add_handlers(app: FastAPI) -> None:
    for kind in (errors.RecollectError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _handle)


async def _handle(request: Request, error: Exception) -> Response:
    if unexpected(error):
        raise error  # the edge logs it and answers
    if isinstance(error, errors.RecollectError) and _status(error) == 503:
        logs.failed(error, "unavailable", request_id=request.state.request_id)
    return answer_to(error, request.scope)


def answer_to(error: Exception, scope: Scope) -> Response:
    """The answer to a request that ended with this error."""
    problem = problem_of(error, scope)
    retry_after = problem.retry_after
    details: dict[str, Any] = {
        "status_code": problem.status_code,
        "path": truncate(scope.get("path", ""), 500),
    }
    if problem.fields:
        details["fields"] = list(problem.fields)
    code = problem.code or CODES.get(problem.status_code) or HTTPStatus(problem.status_code).name
    body = {
        "success": False,
        "detail": problem.detail,
        "error": {
            "code": code,
            "message": problem.detail,
            "details": details,
            "timestamp": iso(datetime.now(UTC)),
            "retry_after": retry_after,
        },
        "request_id": scope.get("state", {}).get("request_id", ""),
    }
    headers = dict(problem.headers or {})
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return answer(body, problem.status_code, headers)


def problem_of(error: Exception, scope: Scope) -> Problem:
    match error:
        case Problem():
            return error
        case HTTPException():
            return _of_http(error)
        case RequestValidationError():
            return _of_request(error)
        case errors.SearchTimeout() if scope.get("path") == "/api/search":
            return Problem(503, SEARCH_TIMEOUT, retry_after=RETRY_SECONDS)
    status = _status(error)
    if status >= 500:
        return Problem(
            status,
            SENTENCES.get(status) or _UNAVAILABLE.get(type(error)) or str(error),
            retry_after=RETRY_SECONDS if status == 503 else None,
        )
    return Problem(status, str(error))


def unexpected(error: Exception) -> bool:
    """Whether nobody meant this error for the caller."""
    return not isinstance(error, (HTTPException, RequestValidationError)) and _status(error) in (
        500,
        507,
    )


def _status(error: Exception) -> int:
    if _disk_full(error):
        return 507
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _disk_full(error: BaseException | None) -> bool:
    """Whether there was no room: the stores say it in words, with what the engine said as the cause."""
    if error is None:
        return False
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or type(error).__name__ in ("FullError", "DiskFull") or _disk_full(error.__cause__)


def _of_http(error: HTTPException) -> Problem:
    said = str(error.detail)
    if said == HTTPStatus(error.status_code).phrase:
        said = SENTENCES.get(error.status_code, f"{said}.")
    return Problem(
        400 if error.status_code == 422 else error.status_code, said, headers=error.headers
    )


def _of_request(error: RequestValidationError) -> Problem:
    """What is wrong with each field. What was sent is not repeated."""
    fields = []
    for problem in error.errors()[:20]:
        where = [str(part) for part in problem["loc"]]
        fields.append(
            {
                "name": truncate(".".join(where[1:] or where), 100),
                "problem": truncate(problem["msg"], 300),
            }
        )
    said = (
        "; ".join(f"{field['name']}: {field['problem']}" for field in fields)
        or "The request cannot be read."
    )
    return Problem(400, truncate(said, 1000), fields=fields)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "What went wrong, the same for every route.",
    "required": ["success", "detail", "error", "request_id"],
    "properties": {
        "success": {"type": "boolean", "const": False},
        "detail": {"type": "string", "description": "What went wrong, as a sentence."},
        "error": {
            "type": "object",
            "required": ["code", "message", "details", "timestamp", "retry_after"],
            "properties": {
                "code": {"type": "string", "examples": sorted(CODES.values())},
                "message": {"type": "string"},
                "details": {
                    "type": "object",
                    "required": ["status_code", "path"],
                    "properties": {
                        "status_code": {"type": "integer"},
                        "path": {"type": "string"},
                        "fields": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["name", "problem"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "problem": {"type": "string"},
                                },
                            },
                        },
                    },
                },
                "timestamp": {"type": "string", "format": "date-time"},
                "retry_after": {
                    "type": ["integer", "null"],
                    "description": "Seconds to wait before trying again.",
                },
            },
        },
        "request_id": {"type": "string"},
    },
}
"""The shape in OpenAPI's words."""
