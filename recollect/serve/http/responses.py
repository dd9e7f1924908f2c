"""JSON responses, and errors: those of all routes have the same body; browsers get a page.

Stored text may contain lone surrogates, which UTF-8 cannot encode. Such a response is written in
ASCII with escapes instead.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from recollect import errors
from recollect.language.text import iso, truncate
from recollect.serve.http import logs
from recollect.serve.identity.principal import Forbidden

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS
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
DEFAULT_MESSAGES = {
    404: "There is no such resource. See /docs for the available routes.",
    405: "This route does not support that method. The Allow header lists the methods it supports.",
    500: "Internal error. The server log has the details under this request id.",
    507: "The server's disk is full. Nothing was written. Searching and reading work.",
}
RETRY_SECONDS = 2
_STATUSES: tuple[tuple[type[errors.RecollectError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.InvalidInput, 400),
    (errors.UnknownFormat, 400),
    (errors.UnsafeFile, 400),
    (errors.ImportUndone, 409),
    (Forbidden, 403),
    (errors.StoreBusy, 503),
    (errors.StoreUnavailable, 503),
    (errors.ReadOnlyLibrary, 503),
    (errors.SearchTimeout, 503),
    (errors.StorageFull, 507),
)
# The messages of these errors may name paths and servers, so only the log has them.
_PUBLIC_MESSAGES: dict[type[Exception], str] = {
    errors.StoreBusy: "The library is busy. Try again in a few seconds.",
    errors.ReadOnlyLibrary: "The library is read-only, so nothing was written. Searching and "
    "reading work.",
    errors.LibraryMoved: "The library is being moved to another place, so nothing was written. "
    "Try again in a few minutes.",
    errors.StoreUnavailable: "The database cannot be reached. Try again in a few seconds.",
}


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A response with a JSON body. Datetimes are written as ISO 8601 in UTC."""
    return Response(encode_json(value), status, dict(headers or {}), "application/json")


def encode_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=to_plain, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=to_plain, ensure_ascii=True, allow_nan=False).encode()


def to_plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


class Problem(HTTPException):
    """An HTTP error with the standard body, for errors that no RecollectError describes."""

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


def add_exception_handlers(app: FastAPI) -> None:
    for kind in (errors.RecollectError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, handle)


async def handle(request: Request, error: Exception) -> Response:
    if is_unexpected(error):
        raise error  # the edge logs it and responds
    if isinstance(error, errors.RecollectError) and _status(error) == 503:
        logs.error(error, "unavailable", request_id=request.state.request_id)
    return error_response(error, request.scope)


def error_response(error: Exception, scope: Scope) -> Response:
    """The response to a request that failed with this error."""
    problem = to_problem(error)
    if scope["type"] == "http":
        page: Response | None = scope["app"].state.error_page(Request(scope), problem)
        if page is not None:
            return page
    status = problem.status_code
    details: dict[str, Any] = {"status_code": status, "path": truncate(scope.get("path", ""), 500)}
    if problem.fields:
        details["fields"] = list(problem.fields)
    body = {
        "success": False,
        "detail": problem.detail,
        "error": {
            "code": problem.code or CODES.get(status) or HTTPStatus(status).name,
            "message": problem.detail,
            "details": details,
            "timestamp": iso(datetime.now(UTC)),
            "retry_after": problem.retry_after,
        },
        "request_id": scope.get("state", {}).get("request_id", ""),
    }
    headers = dict(problem.headers or {})
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return json_response(body, status, headers)


def to_problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
        phrase = HTTPStatus(status).phrase
        if message == phrase:
            message = DEFAULT_MESSAGES.get(status, f"{phrase}.")
        return Problem(400 if status == 422 else status, message, headers=error.headers)
    if isinstance(error, RequestValidationError):
        return from_validation_error(error)
    status = _status(error)
    if status < 500:
        return Problem(status, str(error))
    message = DEFAULT_MESSAGES.get(status) or _PUBLIC_MESSAGES.get(type(error)) or str(error)
    return Problem(status, message, retry_after=RETRY_SECONDS if status == 503 else None)


def is_unexpected(error: Exception) -> bool:
    """Whether the error is a failure of the server, as opposed to one meant for the client."""
    if isinstance(error, (HTTPException, RequestValidationError)):
        return False
    return _status(error) in (500, 507)


def _status(error: Exception) -> int:
    if is_disk_full(error):
        return 507
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return 500


def is_disk_full(error: BaseException | None) -> bool:
    """Whether a file could not be written because its disk is full."""
    while error is not None:
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if is_full or isinstance(error, errors.StorageFull):
            return True
        error = error.__cause__
    return False


def from_validation_error(error: RequestValidationError) -> Problem:
    """Name each invalid field and what is wrong with it, without repeating its value."""
    fields = []
    for detail in error.errors()[:20]:
        location = [str(part) for part in detail["loc"]]
        name = ".".join(location[1:] or location)
        problem = detail["msg"]
        if detail["type"] == "extra_forbidden":
            problem = "there is no such field"
        fields.append({"name": truncate(name, 100), "problem": truncate(problem, 300)})
    message = "; ".join(f"{field['name']}: {field['problem']}" for field in fields)
    if not message:
        message = "The request could not be parsed."
    return Problem(400, truncate(message, 1000), fields=fields)


def _described(type_: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "description": description, **more}


def _object(description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in properties if name != "fields"]
    return _described("object", description, properties=properties, required=required)


ERROR_SCHEMA = _object(
    "An error. All routes return errors with this body.",
    success={"type": "boolean", "const": False},
    detail=_described("string", "What went wrong and what to do."),
    error=_object(
        "The same for programs.",
        code=_described("string", "A stable code.", examples=sorted(CODES.values())),
        message=_described("string", "Same as `detail`."),
        details=_object(
            "Where it went wrong.",
            status_code=_described("integer", "The HTTP status."),
            path=_described("string", "The path of the request."),
            fields=_described(
                "array",
                "The invalid fields, for validation errors.",
                items=_object(
                    "An invalid field.",
                    name=_described("string", "The parameter or body field."),
                    problem=_described("string", "What is wrong with it."),
                ),
            ),
        ),
        timestamp={"type": "string", "format": "date-time"},
        retry_after={
            "type": ["integer", "null"],
            "description": "Seconds to wait before retrying, if retrying can help.",
        },
    ),
    request_id=_described(
        "string", "Identifies the request in the server log (also `X-Request-ID`)."
    ),
)
"""The error body as a JSON schema for OpenAPI."""
