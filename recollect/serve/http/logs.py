"""What a server writes down: one line an event, of facts that we chose. Never contents, titles, addresses or secrets.

Requests are logged by the template of their route. An exception is logged by
its kind and where it happened: its message may quote what somebody stored,
unless it is one of our own about the store, which says what to do.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import traceback
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import orjson

from recollect.errors import RecollectError
from recollect.language.text import printable, truncate

FORMATS = ("json", "text")
LONGEST = 500
_EXTRA = "facts"
_TRUSTED = (
    "recollect",
    "uvicorn",
    "psycopg.pool",
)  # whose messages hold nothing that somebody wrote

log = logging.getLogger("recollect.serve")


def start_logging(kind: str = "json", stream: TextIO | None = None) -> logging.Handler:
    """Write the log of this process to a stream (standard error), as JSON or for people."""
    handler = _Lines(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if kind == "json" else PlainLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = (
        False  # nothing of that is written
    )
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(
        logging.ERROR
    )  # what it says of requests we say ourselves
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return handler


def event(name: str, level: int = logging.INFO, **facts: object) -> None:
    """Write one event with its facts."""
    if log.isEnabledFor(level):  # not log.log, which looks for the line it was called from
        record = logging.LogRecord(log.name, level, "", 0, name, (), None)
        setattr(record, _EXTRA, facts)
        log.handle(record)


def failed(error: BaseException, name: str = "failed", **facts: object) -> None:
    event(name, logging.ERROR, **facts, **_told(error))


class _Lines(logging.Handler):
    """Writes lines to a stream; within an event loop, those of one turn of it together. To write costs more than all
    else that is done for a line: while it lasts, other threads take the interpreter."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one whose turn is waited for."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record))
            loop = _running_loop()
            if loop is None:
                self.flush()
            elif self._loop is not loop:
                self._loop = loop
                loop.call_soon(self.flush)
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        with self.lock or nullcontext():
            lines, self._lines, self._loop = self._lines, [], None
            if lines:
                self._stream.write("\n".join([*lines, ""]))
                self._stream.flush()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # ASCII: control characters, ANSI's too, are escaped, and no line can be broken.
        facts = _facts(record)
        with suppress(orjson.JSONEncodeError):
            line = orjson.dumps(facts, default=str)
            if line.isascii():
                return line.decode()
        return json.dumps(facts, ensure_ascii=True, default=str)


class PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        head = f"{facts.pop('time')} {facts.pop('level')} {json.dumps(facts.pop('event'))[1:-1]}"
        return printable(
            " ".join([head, *(f"{name}={_plain(value)}" for name, value in facts.items())])
        )


def _plain(value: object) -> str:
    """A value that cannot be taken for two, nor for two lines."""
    text = str(value)
    return text if re.fullmatch(r"[\w./:{}+-]+", text, re.ASCII) else json.dumps(text)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
        "level": record.levelname.lower(),
        "event": truncate(record.getMessage(), LONGEST)
        if record.name.startswith(_TRUSTED)
        else "reported",
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
    return {
        **said,
        "error": kinds,
        "at": [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames],
    }
