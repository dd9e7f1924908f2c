"""What is taken out of one file: its text, and what it says of itself."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.language.text import moment
from recollect.language.transcript import Cue
from recollect.settings import LIMITS

_SPACE = re.compile(r"[^\S\n]+")
_TIME = re.compile(
    r"(?:D:)?(\d{4})(?:[-/]?(\d\d)(?:[-/]?(\d\d)(?:[T ]?(\d\d):?(\d\d)(?::?(\d\d))?(?:([-+])(\d\d)[':]?(\d\d)?)?)?)?)?"
)


class Extract(NamedTuple):
    text: str = ""
    pages: tuple[int, ...] = ()
    """Where in the text each page or slide begins."""
    cues: tuple[Cue, ...] = ()
    """Of a recording: what is said instead of a text."""
    title: str = ""
    author: str = ""
    language: str = ""
    url: str = ""
    duration: float | None = None
    created_at: datetime | None = None
    tags: tuple[str, ...] = ()
    media_type: str = ""
    """Where the file knows better than its name."""
    encoding: str | None = None
    """Where it had to be guessed."""
    lacks: str = ""
    """What could not be taken out of it; for the receipt."""


def contents(entry: Entry, most: int | None = None) -> bytes:
    """The whole file, if it is not too large."""
    most = LIMITS.document_bytes if most is None else most
    if entry.size <= most:
        with entry.open() as file:
            data = file.read(most + 1)
        if len(data) <= most:
            return data
    raise Unreadable(f"larger than {most:,} bytes")


def paged(pages: Iterable[str]) -> tuple[str, tuple[int, ...], str]:
    """Pages put together: the text, where each begins, and what is missing where there is too much of them."""
    ends = time.monotonic() + LIMITS.document_seconds
    parts: list[str] = []
    starts: list[int] = []
    at = 0
    for page in pages:
        if (
            len(starts) == LIMITS.document_pages
            or at > LIMITS.document_characters
            or time.monotonic() > ends
        ):
            return (
                "".join(parts),
                tuple(starts),
                f"too much of it: only the first {len(starts):,} pages were taken",
            )
        starts.append(at)
        if page:
            parts.append(page + "\n\n")
            at += len(parts[-1])
    return "".join(parts).removesuffix("\n\n"), tuple(starts), ""


def joined(blocks: Iterable[str]) -> str:
    """Paragraphs with an empty line between them."""
    return "\n\n".join(block for block in blocks if block)


def tidy(text: str) -> str:
    """One space where there are several, and no empty lines."""
    lines = (_SPACE.sub(" ", line).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def listed(text: str | None) -> tuple[str, ...]:
    """Keywords that stand in one text, between commas or semicolons."""
    return tuple(word for word in (part.strip() for part in re.split(r"[,;]", text or "")) if word)


def day(text: str | None) -> datetime | None:
    """A time as documents write it: ISO 8601, a year alone, 20240131, or PDF's D:20240131120000+01'00'."""
    text = (text or "").strip()
    if not text.isdigit() and (found := moment(text)):
        return found
    match = _TIME.match(text)
    if match is None:
        return None
    year, month, date, hour, minute, second, sign, hours, minutes = match.groups()
    away = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-away if sign == "-" else away)
        whole = datetime(
            int(year),
            int(month or 1),
            int(date or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
        )
        return whole.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
