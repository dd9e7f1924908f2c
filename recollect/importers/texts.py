"""Text files of people: in which encoding they are, and how long they may be."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WINDOWS = "windows-1252"
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_FEW = 0.01


class Unreadable(ValueError):
    """It is no text, or too much of it; the words are for the receipt."""


class Text(NamedTuple):
    text: str
    encoding: str | None
    """Set where it had to be guessed."""


def read_text(entry: Entry, limit: int) -> Text:
    """The file's text with its lines ended by \\n. Raises Unreadable."""
    if entry.size > limit:
        raise Unreadable(f"larger than {limit:,} bytes")
    try:
        with entry.open() as file:
            data = file.read(limit + 1)
    except UNREADABLE as error:
        raise Unreadable(f"file cannot be read ({error})") from error
    if len(data) > limit:
        raise Unreadable(f"larger than {limit:,} bytes")
    return decoded(data)


def decoded(data: bytes) -> Text:
    """UTF-8 or, where a mark says so, UTF-16; what is neither is taken for the old encoding of Windows."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    guessed = None
    try:
        text = data.decode(encoding or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        guessed = encoding or _WINDOWS
        text = data.decode(guessed, "replace").removeprefix("\ufeff")
    if len(_NO_TEXT.findall(text)) > _FEW * len(text):
        raise Unreadable("not a text")
    return Text(text.replace("\r\n", "\n").replace("\r", "\n"), guessed)
