"""PDF, page by page. A separate process reads the files; see `pdf_reader`."""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from recollect.importers.documents import pdf_reader
from recollect.importers.documents.extract import (
    Extract,
    join_pages,
    omitted_pages,
    parse_date,
    read_bytes,
    split_keywords,
)
from recollect.importers.documents.optional import require
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

_HYPHEN = re.compile(r"[\x02\ufffe]\s*\n?|\xad\n")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_USELESS_TITLE = re.compile(
    r"untitled|microsoft (?:word|powerpoint)|.*\.(?:docx?|pptx?|tex|dvi|indd|qxd|pdf|ps)$",
    re.IGNORECASE,
)
_LIST_ITEM = re.compile(r"[•▪◦‣·*–—-] |\d+(?:\.\d+)*\.? +\w|\(\w{1,3}\) ")
"""The beginning of a list item or a numbered heading."""
_SENTENCE_ENDS = (".", ":", ";", "!", "?")
_FULL_LINE = 0.8  # of the widest line; the next line then continues a line of this length
_GRACE_SECONDS = 15.0  # on top of the reader's own limit, before it is killed
_FILES_PER_READER = 500


def extract(entry: Entry) -> Extract:
    require("pypdfium2")
    with _on_disk(entry) as path:
        reply = _READER.ask(path)
    if "error" in reply:
        raise Unreadable(_reason(reply["error"]))
    text, pages, omission = join_pages(map(_unwrap_lines, reply["pages"]))
    if not text.strip():
        raise Unreadable(
            "contains no text, as in a scan; make it searchable (OCR) and import it again"
        )
    if not reply["complete"]:
        omission = omitted_pages(len(pages))
    metadata = {name: str(value).strip() for name, value in reply["metadata"].items()}
    title = metadata.get("Title", "")
    if _USELESS_TITLE.match(title):
        title = ""
    return Extract(
        text=text,
        pages=pages,
        omission=omission,
        title=title,
        author=metadata.get("Author", ""),
        created_at=parse_date(metadata.get("CreationDate")),
        tags=split_keywords(metadata.get("Keywords")),
    )


class _Reader:
    """A process that reads many PDFs. It starts with the first, and again after a crash."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = 0

    def ask(self, path: Path) -> dict[str, Any]:
        request = {
            "path": str(path),
            "pages": LIMITS.document_pages,
            "characters": LIMITS.document_characters,
            "seconds": LIMITS.document_seconds,
        }
        with self._lock:
            line = self._exchange(json.dumps(request).encode("ascii") + b"\n")
            if not line.endswith(b"\n"):
                self._stop()
                raise Unreadable("cannot be read: it needs too much time or memory")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _exchange(self, request: bytes) -> bytes:
        """The reply, or nothing if the process ended or had to be killed."""
        process = self._start()
        timer = Timer(LIMITS.document_seconds + _GRACE_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(request)
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return b""
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        self._requests += 1
        has_ended = self._process is not None and self._process.poll() is not None
        if has_ended or self._requests % _FILES_PER_READER == 0:
            self._stop()
        if self._process is None:
            command = [sys.executable, "-P", pdf_reader.__file__, str(LIMITS.document_memory_bytes)]
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            atexit.unregister(self._stop)
            atexit.register(self._stop)
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_READER = _Reader()


@contextmanager
def _on_disk(entry: Entry) -> Iterator[Path]:
    if entry.path is not None:
        yield entry.path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        path = Path(folder, "document.pdf")
        path.write_bytes(read_bytes(entry))
        yield path


def _unwrap_lines(text: str) -> str:
    """Join lines that were broken only because of the width of the page."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _UNPRINTABLE.sub("", _HYPHEN.sub("", text))
    lines = [line.strip() for line in text.split("\n")]
    widest = max(map(len, lines), default=0)
    parts: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        parts.append(line)
        if line and following and _is_continued(line, following, widest):
            parts.append(" ")
        else:
            parts.append("\n")
    return "".join(parts).strip()


def _is_continued(line: str, following: str, widest: int) -> bool:
    if _LIST_ITEM.match(following) and line.endswith(_SENTENCE_ENDS):
        return False
    is_full = len(line) >= _FULL_LINE * widest and widest > 40
    return is_full or following[:1].islower()


def _reason(error: str) -> str:
    if "password" in error.lower():
        return "protected by a password; save it without one and import it again"
    return "damaged, or not a PDF"
