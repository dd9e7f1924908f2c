"""The process that reads PDFs. Each line of its input is a request, each line of output a reply.

A small PDF can expand to more than the available memory, or crash the library that reads it. That
ends this process, not the import. It runs as a script and imports nothing else of Recollect, so
that it starts quickly.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def answer(request: dict[str, Any]) -> dict[str, Any]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(request["path"])
    except PdfiumError as error:
        return {"error": str(error)}
    deadline = time.monotonic() + request["seconds"]
    pages: list[str] = []
    remaining = request["characters"]
    try:
        count = len(document)
        for number in range(min(count, request["pages"])):
            if remaining <= 0 or time.monotonic() >= deadline:
                break
            pages.append(_page_text(document, number))
            remaining -= len(pages[-1])
        return {
            "pages": pages,
            "complete": len(pages) == count,
            "metadata": document.get_metadata_dict(skip_empty=True),
        }
    finally:
        document.close()


def _page_text(document: Any, number: int) -> str:
    """The text of a page; empty if the page is damaged."""
    from pypdfium2 import PdfiumError

    try:
        page = document[number]
    except PdfiumError:
        return ""
    try:
        text_page = page.get_textpage()
        try:
            text: str = text_page.get_text_bounded()
            return text
        finally:
            text_page.close()
    except PdfiumError:
        return ""
    finally:
        page.close()


def _limit_memory(size: int) -> None:
    try:
        import resource
    except ImportError:  # not available on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def main() -> None:
    _limit_memory(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(answer(json.loads(line))).encode("ascii") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
