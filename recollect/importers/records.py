"""Helpers for files and records whose shape cannot be relied on.

No file can stop the import of the others: a hostile or damaged one can make a parser raise
anything. Importers handle what they expect, so that the rest of the file is read; everything else
becomes a Problem here.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, NamedTuple
from zipfile import BadZipFile

from recollect.errors import RecollectError
from recollect.importers.entries import UNREADABLE, Entry, Unreadable
from recollect.importers.jsonstream import records
from recollect.language.text import fold
from recollect.model.documents import Document, Json
from recollect.model.receipts import Problem

UNEXPECTED = Exception
"""What a record of an unexpected shape raises: there is no end to what it can be."""

EMPTY_MESSAGE = "empty message"
REPEATED_MESSAGE = "repeated message"
UNKNOWN_MESSAGE = "message of an unknown shape"
EMPTY_CONVERSATION = "conversation without messages"
UNKNOWN_CONVERSATION = "conversation of an unknown shape"


_EXAMPLES = 10
"""How many problems of one kind are reported one by one, each with its place."""

Reader = Callable[[Entry], Iterator[Document | Problem]]


def contain_errors(read: Reader) -> Reader:
    """Let a function that reads files yield a Problem instead of raising an exception.

    A file may have as many problems of one kind as it has lines: after a few, they are counted.
    """

    @wraps(read)
    def read_contained(entry: Entry) -> Iterator[Document | Problem]:
        reports: Counter[tuple[str, bool, str]] = Counter()
        counts: Counter[tuple[str, bool, str]] = Counter()
        try:
            for item in read(entry):
                if isinstance(item, Document) and not item.source_id:
                    reason = "without an id, so that it could not be found again"
                    item = failure(reason, item.title)
                if isinstance(item, Problem):
                    kind = (item.reason, item.failed, item.unit)
                    reports[kind] += 1
                    if reports[kind] > _EXAMPLES:
                        counts[kind] += item.count
                        continue
                yield item
        except Exception as error:  # a parser may raise anything for a hostile file
            yield failure(reason_of(error), entry.name)
        for (reason, failed, unit), count in counts.items():
            yield Problem(reason, failed=failed, unit=unit, count=count)

    return read_contained


def failure(reason: str, where: str) -> Problem:
    """The Problem of a conversation, an item or a whole file that cannot be imported."""
    return Problem(reason, where, failed=True, unit="conversations")


def reason_of(error: Exception) -> str:
    """Why a file cannot be read because of an exception, for its receipt."""
    if isinstance(error, (RecollectError, OSError, BadZipFile, Unreadable)):
        return str(error)
    return f"cannot be read ({type(error).__name__})"


def convert_records(
    entry: Entry,
    marks: Collection[str],
    convert: Callable[[Any, str], Iterator[Document | Problem]],
) -> Iterator[Document | Problem]:
    """Convert every record of a JSON file. A record of an unknown shape becomes a Problem."""
    for item in records(entry, marks):
        if isinstance(item, Problem):
            yield item
            continue
        index, record = item
        where = f"record {index}"
        try:
            yield from convert(record, where)
        except UNEXPECTED:
            yield Problem(UNKNOWN_CONVERSATION, where, failed=True, unit="conversations")


def string_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def join_texts(values: Iterable[Any]) -> str:
    """The non-empty strings among the values, one per line."""
    return "\n".join(value for value in values if isinstance(value, str) and value)


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def other_fields(record: Mapping[str, Any], used: Container[str]) -> dict[str, Any]:
    """The fields of a record that have a value and are not in `used`."""
    return {key: value for key, value in record.items() if value is not None and key not in used}


class Ancestors:
    """Finds the nearest ancestor of a message that is imported. All searches together are linear.

    `parents` has the parent of every message, and `included` those that are imported.
    """

    def __init__(self, parents: Mapping[str, str | None], included: Container[str]) -> None:
        self._parents = parents
        self._included = included
        self._nearest: dict[str, str | None] = {}

    def nearest(self, start: str | None) -> str | None:
        """The first of `start` and its ancestors that is included; None in a cycle without any."""
        path: dict[str, None] = {}
        current = start
        while current is not None and current not in self._included:
            if current in self._nearest:
                current = self._nearest[current]
                break
            if current in path:
                current = None
                break
            path[current] = None
            current = self._parents.get(current)
        self._nearest |= dict.fromkeys(path, current)
        return current


# -- text files ------------------------------------------------------------

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
