"""What a server writes down: one line an event, of facts that we chose. Never contents, titles, addresses or secrets.

Requests are logged by the template of their route. An exception is logged by
its kind and where it happened: its message may quote what somebody stored,
unless it is one of our own about the store, which says what to do.
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
from recollect.text import iso, printable, truncate

FORMATS = ("json", "text")
LONGEST = 500
_EXTRA = "facts"
_TRUSTED = ("recollect", "uvicorn", "psycopg.pool")  # whose messages hold nothing that somebody wrote

log = logging.getLogger("recollect.serve")


def start_logging(kind: str = "json", stream: TextIO | None = None) -> logging.Handler:
    """Write the log of this process to a stream (standard error), as JSON or for people."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if kind == "json" else PlainLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what it says of requests we say ourselves
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return handler


def event(name: str, level: int = logging.INFO, **facts: object) -> None:
    """Write one event with its facts."""
    log.log(level, name, extra={_EXTRA: facts})


def failed(error: BaseException, name: str = "failed", **facts: object) -> None:
    event(name, logging.ERROR, **facts, **_told(error))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # ASCII: control characters, ANSI's too, are escaped, and no line can be broken.
        return json.dumps(_facts(record), ensure_ascii=True, default=str)


class PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        head = f"{facts.pop('time')} {facts.pop('level')} {json.dumps(facts.pop('event'))[1:-1]}"
        return printable(" ".join([head, *(f"{name}={_plain(value)}" for name, value in facts.items())]))


def _plain(value: object) -> str:
    """A value that cannot be taken for two, nor for two lines."""
    text = str(value)
    return text if re.fullmatch(r"[\w./:{}+-]+", text, re.ASCII) else json.dumps(text)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "time": iso(datetime.fromtimestamp(record.created, UTC)),
        "level": record.levelname.lower(),
        "event": truncate(record.getMessage(), LONGEST) if record.name.startswith(_TRUSTED) else "reported",
    }
    given: dict[str, object] = getattr(record, _EXTRA, {"logger": record.name})
    facts |= {name: truncate(v, LONGEST) if isinstance(v, str) else v for name, v in given.items()}
    if record.exc_info and record.exc_info[1] is not None:
        facts |= _told(record.exc_info[1])
    return facts


def _told(error: BaseException) -> dict[str, Any]:
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(kinds) < 10:
        kinds.append(f"{type(cause).__module__}.{type(cause).__qualname__}")
        cause = cause.__cause__ or cause.__context__
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    said = {"said": str(error)} if isinstance(error, RecollectError) else {}
    return {**said, "error": kinds, "at": [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]}
