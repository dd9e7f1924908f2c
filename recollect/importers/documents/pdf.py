"""PDF, page by page; read by a process of its own (see `pdf_reader`)."""

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
from recollect.importers.documents.extract import Extract, contents, day, listed, paged
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

_HYPHEN = re.compile(r"[\x02\ufffe]\s*\n?|\xad\n")
_UNPRINTED = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_NO_TITLE = re.compile(
    r"untitled|microsoft (?:word|powerpoint)|.*\.(?:docx?|pptx?|tex|dvi|indd|qxd|pdf|ps)$",
    re.IGNORECASE,
)
_OPENS = re.compile(r"[•▪◦‣·*–—-] |\d+(?:\.\d+)*\.? +\w|\(\w{1,3}\) ")
"""How an item of a list or a numbered heading begins."""
_WIDE = 0.8  # of the widest line: then the next one goes on with it
_GRACE = 15.0  # seconds that a reader may take longer than it should before it is ended
_LONGEST_LIFE = 500  # PDFs that one reader reads


def extract(entry: Entry) -> Extract:
    with _on_disk(entry) as path:
        found = _READER.ask(path)
    if "error" in found:
        raise Unreadable(_reason(found["error"]))
    text, pages, lacks = paged(map(_unwrapped, found["pages"]))
    if not text.strip():
        raise Unreadable(
            "no text in it, as in a scan; make it searchable (OCR) and import it again"
        )
    if not found["all"]:
        lacks = f"too much of it: only the first {len(pages):,} pages were taken"
    about = {name: str(value).strip() for name, value in found["about"].items()}
    title = about.get("Title", "")
    return Extract(
        text=text,
        pages=pages,
        lacks=lacks,
        title="" if _NO_TITLE.match(title) else title,
        author=about.get("Author", ""),
        created_at=day(about.get("CreationDate")),
        tags=listed(about.get("Keywords")),
    )


class _Reader:
    """One process for many PDFs, started when the first comes and again when one broke it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def ask(self, path: Path) -> dict[str, Any]:
        question = {
            "path": str(path),
            "pages": LIMITS.document_pages,
            "characters": LIMITS.document_characters,
            "seconds": LIMITS.document_seconds,
        }
        with self._lock:
            process = self._running()
            timer = Timer(LIMITS.document_seconds + _GRACE, process.kill)
            timer.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(question).encode("ascii") + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = b""
            finally:
                timer.cancel()
            if not line.endswith(b"\n"):
                self._end()
                raise Unreadable(
                    "not a PDF that can be read: it takes more time or memory than any should"
                )
        found: dict[str, Any] = json.loads(line)
        return found

    def _running(self) -> subprocess.Popen[bytes]:
        self._asked += 1
        if self._asked % _LONGEST_LIFE == 0 or (
            self._process is not None and self._process.poll() is not None
        ):
            self._end()
        if self._process is None:
            command = [sys.executable, "-P", pdf_reader.__file__, str(LIMITS.document_memory_bytes)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )
            atexit.unregister(self._end)
            atexit.register(self._end)
        return self._process

    def _end(self) -> None:
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
        path.write_bytes(contents(entry))
        yield path


def _unwrapped(text: str) -> str:
    """Lines that only the width of the page ended are one again."""
    clean = _UNPRINTED.sub("", _HYPHEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    lines = [line.strip() for line in clean.split("\n")]
    widest = max(map(len, lines), default=0)
    parts: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        goes_on = following[:1].islower() or (len(line) >= _WIDE * widest and widest > 40)
        goes_on = goes_on and not (
            _OPENS.match(following) and line.endswith((".", ":", ";", "!", "?"))
        )
        parts.append(line + (" " if line and following and goes_on else "\n"))
    return "".join(parts).strip()


def _reason(error: str) -> str:
    if "password" in error.lower():
        return "protected by a password; save it without one and import it again"
    return "not a PDF that can be read"
