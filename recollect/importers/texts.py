"""Text files: their encoding, and the limit on their size."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FALLBACK_ENCODING = "windows-1252"
_CONTROL_CHARACTERS = [chr(code) for code in (*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20))]
_MAX_CONTROL_CHARACTERS = 0.01
"""The share of control characters above which a file counts as binary."""


class Unreadable(ValueError):
    """A file that is not text, or is too long. The message goes into the receipt."""


class Text(NamedTuple):
    text: str
    encoding: str | None
    """Set if the encoding was guessed."""


def read_text(entry: Entry, limit: int) -> Text:
    """The file's text with `\\n` line endings. Raises Unreadable."""
    if entry.size > limit:
        raise Unreadable(f"larger than {limit:,} bytes")
    try:
        with entry.open() as file:
            data = file.read(limit + 1)
    except UNREADABLE as error:
        raise Unreadable(f"file cannot be read ({error})") from error
    if len(data) > limit:
        raise Unreadable(f"larger than {limit:,} bytes")
    return decode_text(data)


def decode_text(data: bytes) -> Text:
    """Decode UTF-8, or what the byte-order mark names; anything else as Windows-1252."""
    marks = (encoding for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark))
    encoding = next(marks, None)
    guess = None
    try:
        text = data.decode(encoding or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        guess = encoding or _FALLBACK_ENCODING
        text = data.decode(guess, "replace").removeprefix("\ufeff")
    if sum(map(text.count, _CONTROL_CHARACTERS)) > _MAX_CONTROL_CHARACTERS * len(text):
        raise Unreadable("not a text file")
    return Text(text.replace("\r\n", "\n").replace("\r", "\n"), guess)
