"""Text files: their encoding and the limit on their size; and tags, however programs write them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import NamedTuple

from recollect.importers.entries import UNREADABLE, Entry, Unreadable
from recollect.language.text import fold
from recollect.model.documents import Json

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


def parse_tags(value: Json) -> list[str]:
    """Tags from a list or from a text with commas or spaces, with or without `#`."""
    if isinstance(value, str):
        value = value.split(",") if "," in value else value.split()
    tags = (str(tag).strip().lstrip("#").strip() for tag in as_texts(value))
    return unique(tag for tag in tags if tag)


def unique(values: Iterable[str]) -> list[str]:
    """Each value once, ignoring case and accents, as it was first written."""
    by_key: dict[str, str] = {}
    for value in values:
        by_key.setdefault(fold(value), value)
    return list(by_key.values())


def as_texts(value: Json) -> list[Json]:
    """The strings and numbers of a list, or a single one as a list."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, (str, int, float))]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return [value]
    return []
