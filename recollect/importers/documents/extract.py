"""What is extracted from one file: its text and its metadata."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from recollect.importers.entries import Entry, Unreadable
from recollect.language.text import moment
from recollect.language.transcript import Cue
from recollect.settings import LIMITS

_CHUNK_BYTES = 1 << 20
_DATE = re.compile(
    r"(?:D:)?(\d{4})(?:[-/]?(\d\d)(?:[-/]?(\d\d)"
    r"(?:[T ]?(\d\d):?(\d\d)(?::?(\d\d))?(?:([-+])(\d\d)[':]?(\d\d)?)?)?)?)?"
)


class Extract(NamedTuple):
    text: str = ""
    pages: tuple[int, ...] = ()
    """Where in the text each page or slide begins."""
    cues: tuple[Cue, ...] = ()
    """The transcript of a recording, instead of a text."""
    title: str = ""
    author: str = ""
    language: str = ""
    url: str = ""
    duration: float | None = None
    created_at: datetime | None = None
    tags: tuple[str, ...] = ()
    media_type: str = ""
    """Set if the file's contents say more than its name."""
    encoding: str | None = None
    """Set if the encoding was guessed."""
    omission: str = ""
    """What is missing from the extract, for the receipt."""


def require(package: str) -> None:
    """Raise Unreadable if a package of the extra `documents` is not installed."""
    if find_spec(package) is None:
        raise Unreadable("needs more packages: pip install 'recollect[documents]'")


def read_bytes(entry: Entry, limit: int | None = None) -> bytes:
    """The whole file. Raises Unreadable if it is larger than `limit`."""
    limit = LIMITS.document_bytes if limit is None else limit
    if entry.size <= limit:
        # Not `read(limit + 1)`, which reserves that much memory however small the file is.
        data = bytearray()
        with entry.open() as file:
            for chunk in iter(partial(file.read, _CHUNK_BYTES), b""):
                data += chunk
                if len(data) > limit:
                    break
            else:
                return bytes(data)
    raise Unreadable(f"larger than {limit:,} bytes")


def join_pages(pages: Iterable[str]) -> tuple[str, tuple[int, ...], str]:
    """The text of all pages, where each page begins, and what was omitted if there is too much."""
    deadline = time.monotonic() + LIMITS.document_seconds
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for page in pages:
        is_full = len(starts) == LIMITS.document_pages or length > LIMITS.document_characters
        if is_full or time.monotonic() > deadline:
            return "".join(parts), tuple(starts), omitted_pages(len(starts))
        starts.append(length)
        if page:
            parts.append(page + "\n\n")
            length += len(parts[-1])
    return "".join(parts).removesuffix("\n\n"), tuple(starts), ""


def omitted_pages(count: int) -> str:
    if count == 1:
        return "too long: only the first page was imported"
    return f"too long: only the first {count:,} pages were imported"


def join_paragraphs(paragraphs: Iterable[str]) -> str:
    """The non-empty paragraphs, separated by empty lines."""
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def collapse_spaces(text: str) -> str:
    """The text with single spaces and no empty lines."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def split_keywords(text: str | None) -> tuple[str, ...]:
    """Keywords separated by commas or semicolons."""
    keywords = (part.strip() for part in re.split(r"[,;]", text or ""))
    return tuple(keyword for keyword in keywords if keyword)


def parse_date(text: str | None) -> datetime | None:
    """A date as documents write it.

    ISO 8601, a year alone, 20240131, or D:20240131120000+01'00' as in PDF.
    """
    text = (text or "").strip()
    date = None if text.isdigit() else moment(text)
    match = _DATE.match(text)
    if date is not None or match is None:
        return date
    *date_and_time, sign, hours, minutes = match.groups()
    numbers = [int(n or d) for n, d in zip(date_and_time, (0, 1, 1, 0, 0, 0), strict=True)]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        year, month, day, hour, minute, second = numbers
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
