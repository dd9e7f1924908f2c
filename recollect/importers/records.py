"""Helpers for files and records whose shape cannot be relied on.

No file can stop the import of the others: a hostile or damaged one can make a parser raise
anything. Importers handle what they expect, so that the rest of the file is read; everything else
becomes a Problem here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any
from zipfile import BadZipFile

from recollect.errors import RecollectError
from recollect.importers.entries import Entry, Unreadable
from recollect.importers.jsonstream import records
from recollect.model.documents import Document
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
