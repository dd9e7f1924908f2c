"""PDF, page by page."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING

from recollect.importers.documents.extract import (
    Extract,
    join_pages,
    omitted_pages,
    parse_date,
    read_bytes,
    require,
    split_keywords,
)
from recollect.importers.entries import Entry, Unreadable
from recollect.importers.sandbox.protocol import Bounds
from recollect.settings import LIMITS

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_HYPHEN = re.compile(r"[\x02\ufffe]\s*\n?|\xad\n")
_UNPRINTABLE = dict.fromkeys((*range(9), *range(11, 32), 0xFFFE, 0xFFFF))
_USELESS_TITLE = re.compile(
    r"untitled|microsoft (?:word|powerpoint)|.*\.(?:docx?|pptx?|tex|dvi|indd|qxd|pdf|ps)$",
    re.IGNORECASE,
)
_LIST_ITEM = re.compile(r"[•▪◦‣·*–—-] |\d+(?:\.\d+)*\.? +\w|\(\w{1,3}\) ")
"""The beginning of a list item or a numbered heading."""
_SENTENCE_ENDS = (".", ":", ";", "!", "?")
_FULL_LINE = 0.8  # of the widest line; the next line then continues a line of this length
_TIME_SHARE = 0.7  # of the CPU time that the file may cost, for the text of its pages


def extract(entry: Entry) -> Extract:
    require("pypdfium2")
    with closing(_open(entry)) as document:
        count = len(document)
        texts = page_texts(document, entry.size)
        properties = document.get_metadata_dict(skip_empty=True)
    text, pages, omission = join_pages(map(unwrap_lines, texts))
    if not text.strip():
        raise Unreadable(
            "contains no text, as in a scan; make it searchable (OCR) and import it again"
        )
    if len(texts) < count:
        omission = omitted_pages(len(pages))
    metadata = {name: str(value).strip() for name, value in properties.items()}
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


def _open(entry: Entry) -> PdfDocument:
    from pypdfium2 import PdfDocument, PdfiumError

    source = entry.path.resolve() if entry.path is not None else read_bytes(entry)
    try:
        return PdfDocument(source)
    except PdfiumError as error:
        reason = "damaged, or not a PDF"
        if "password" in str(error).lower():
            reason = "protected by a password; save it without one and import it again"
        raise Unreadable(reason) from error


def page_texts(document: PdfDocument, size: int) -> list[str]:
    """The text of the pages, from the first, until there is enough or no time is left."""
    deadline = time.process_time() + _TIME_SHARE * Bounds().cpu_seconds_for(size)
    texts: list[str] = []
    remaining = LIMITS.document_characters
    for number in range(min(len(document), LIMITS.document_pages)):
        if remaining <= 0 or time.process_time() >= deadline:
            break
        texts.append(page_text(document, number))
        remaining -= len(texts[-1])
    return texts


def page_text(document: PdfDocument, number: int) -> str:
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


def unwrap_lines(text: str) -> str:
    """Join lines that were broken only because of the width of the page."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _HYPHEN.sub("", text).translate(_UNPRINTABLE)
    lines = [line.strip() for line in text.split("\n")]
    widest = max(map(len, lines), default=0)
    parts: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_full = len(line) >= _FULL_LINE * widest and widest > 40
        is_item = _LIST_ITEM.match(following) and line.endswith(_SENTENCE_ENDS)
        is_continued = line and following and not is_item and (is_full or following[:1].islower())
        parts += (line, " " if is_continued else "\n")
    return "".join(parts).strip()
