"""What several importers need to read records whose shape cannot be relied on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import records
from recollect.model.documents import Document, Passage
from recollect.model.receipts import Problem

UNEXPECTED = (TypeError, ValueError, KeyError, AttributeError, RecursionError)
"""What reading a record of another shape than expected raises."""

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
    """What `convert` makes of every record; one of another shape is reported, and the next one read."""
    for item in records(entry, marks):
        if isinstance(item, Problem):
            yield item
            continue
        index, record = item
        try:
            yield from convert(record, f"record {index}")
        except UNEXPECTED:
            yield Problem(
                UNKNOWN_CONVERSATION, f"record {index}", failed=True, unit="conversations"
            )


def string_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def join_texts(values: Iterable[Any]) -> str:
    """The texts among the values, a line each."""
    return "\n".join(value for value in values if isinstance(value, str) and value)


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def other_fields(record: Mapping[str, Any], used: Container[str]) -> dict[str, Any]:
    """The fields that the origin gave beyond those in use."""
    return {key: value for key, value in record.items() if value is not None and key not in used}


def nearest_included(
    start: str | None, parents: Mapping[str, str | None], kept: Container[str]
) -> str | None:
    """The first of `start` and its ancestors that was kept."""
    passed = set()
    while start is not None and start not in kept:
        if start in passed:
            return None
        passed.add(start)
        start = parents.get(start)
    return start


def with_unique_ids(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """The passages, a number behind every id that another one has already."""
    taken: dict[str, Passage] = {}
    times: Counter[str] = Counter()
    for passage in passages:
        own_id = passage.id
        while own_id in taken:
            times[passage.id] += 1
            own_id = f"{passage.id}#{times[passage.id] + 1}"
        taken[own_id] = passage if own_id == passage.id else passage._replace(id=own_id)
    return tuple(taken.values())
