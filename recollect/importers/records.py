"""Helpers for records whose shape cannot be relied on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any

from recollect.importers.entries import Entry
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
