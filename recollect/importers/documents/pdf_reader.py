"""The process that reads PDFs: one question a line, one answer a line, both JSON.

A small file can unpack to more than any memory holds, and may be made to break the
library that reads it. That ends this process then, and not the one that imports.
Run as a script, it loads nothing else of Recollect and is there in no time.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def answer(question: dict[str, Any]) -> dict[str, Any]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(question["path"])
    except PdfiumError as error:
        return {"error": str(error)}
    ends = time.monotonic() + question["seconds"]
    pages: list[str] = []
    left = question["characters"]
    try:
        count = len(document)
        while len(pages) < min(count, question["pages"]) and left > 0 and time.monotonic() < ends:
            pages.append(_text(document, len(pages)))
            left -= len(pages[-1])
        return {
            "pages": pages,
            "all": len(pages) == count,
            "about": document.get_metadata_dict(skip_empty=True),
        }
    finally:
        document.close()


def _text(document: Any, number: int) -> str:
    """The text of a page; one that is damaged has none."""
    from pypdfium2 import PdfiumError

    try:
        page = document[number]
    except PdfiumError:
        return ""
    try:
        words = page.get_textpage()
        try:
            text: str = words.get_text_bounded()
            return text
        finally:
            words.close()
    except PdfiumError:
        return ""
    finally:
        page.close()


def _bound_memory(size: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def main() -> None:
    _bound_memory(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(answer(json.loads(line))).encode("ascii") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
