"""The server's log: one line per event, with fields we choose.

The log never contains contents, titles, addresses or secrets. Requests are logged by the template
of their route. Exceptions are logged by type and location, because their messages may quote stored
text. Our own errors are the exception: their messages quote none and say what to do.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from recollect.errors import RecollectError
from recollect.language.text import printable, truncate

FORMATS = ("json", "text")
MAX_LENGTH = 500
# Only the messages of these loggers are written. Others may quote user data.
_TRUSTED_LOGGERS = ("recollect", "uvicorn", "psycopg.pool")
_FIELDS = "fields"
_SIMPLE_VALUE = re.compile(r"[\w./:{}+-]+", re.ASCII)
_MAX_CAUSES = 10
_MAX_FRAMES = 12

log = logging.getLogger("recollect.serve")


def start_logging(log_format: str = "json", stream: TextIO | None = None) -> logging.Handler:
    """Write the log of this process to a stream (standard error), as JSON or as plain text."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    logging.getLogger("recollect.backup").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # we log requests ourselves
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return handler


def log_jobs() -> None:
    """Also log when jobs begin and end."""
    logging.getLogger("recollect.jobs").setLevel(logging.INFO)


def event(name: str, level: int = logging.INFO, **fields: object) -> None:
    """Log an event with its fields."""
    log.log(level, name, extra={_FIELDS: fields})


def error(exception: BaseException, name: str = "failed", **fields: object) -> None:
    """Log an exception: its type and where it was raised."""
    event(name, logging.ERROR, **fields, **exception_fields(exception))


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # ASCII only: control characters are escaped, so an event is always exactly one line.
        return json.dumps(record_fields(record), ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = record_fields(record)
        name = json.dumps(fields.pop("event"))[1:-1]
        parts = [fields.pop("time"), fields.pop("level"), name]
        for field, value in fields.items():
            # Values with spaces or special characters are quoted, so that fields stay separable.
            text = str(value)
            parts.append(f"{field}={text if _SIMPLE_VALUE.fullmatch(text) else json.dumps(text)}")
        return printable(" ".join(parts))


def record_fields(record: logging.LogRecord) -> dict[str, Any]:
    message = "reported"
    if record.name.startswith(_TRUSTED_LOGGERS):
        message = truncate(record.getMessage(), MAX_LENGTH)
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
        "level": record.levelname.lower(),
        "event": message,
    }
    own_fields: dict[str, object] = getattr(record, _FIELDS, {"logger": record.name})
    for name, value in own_fields.items():
        if isinstance(value, str):
            value = truncate(value, MAX_LENGTH)
        fields[name] = value
    if record.exc_info and record.exc_info[1] is not None:
        fields |= exception_fields(record.exc_info[1])
    return fields


def exception_fields(exception: BaseException) -> dict[str, Any]:
    types: list[str] = []
    cause: BaseException | None = exception
    while cause is not None and len(types) < _MAX_CAUSES:
        types.append(f"{type(cause).__module__}.{type(cause).__qualname__}")
        cause = cause.__cause__ or cause.__context__
    frames = traceback.extract_tb(exception.__traceback__)[-_MAX_FRAMES:]
    fields: dict[str, Any] = {
        "error": types,
        "at": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if isinstance(exception, RecollectError):
        fields["message"] = str(exception)
    return fields
