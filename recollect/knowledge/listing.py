"""Lists of conversations and items: pages with a cursor, and a sequence that reads itself."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from recollect.errors import InvalidInput
from recollect.language.text import identifier, truncate
from recollect.model.arguments import page_size
from recollect.model.documents import Passage, Summary
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import ListPosition, list_start

_PAGE = LIMITS.page_size
SORTS = ("updated", "added", "pinned")
"""Last changed first; newest in the library first; pinned first, then last changed first."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list."""

    summaries: list[Summary]
    total: int
    """How many documents the whole list has now."""
    cursor: str | None
    """Continues the list after this page; None if it was the last one."""


def list_page(
    store: Store, filter: Filter, title: str, limit: int, sort: str, cursor: str | None
) -> ListPage:
    """One page of documents. Raises InvalidInput for an unknown sort or a broken cursor."""
    if sort not in SORTS:
        raise InvalidInput(f"sort: {truncate(sort, 80)!r} is not one of {', '.join(SORTS)}.")
    limit = page_size(limit)
    if cursor is None:
        part, position = 0, list_start(store.last_move())
    else:
        part, position = _decode_cursor(cursor, sort)
    parts = _parts(filter, sort)
    order = "updated"
    if sort == "added":
        order = "added"
    summaries: list[Summary] = []
    next_cursor = None
    while part < len(parts) and next_cursor is None:
        rest = limit - len(summaries)
        more, next_position = store.summaries_after(
            parts[part], title, max(1, rest), order, position
        )
        if rest == 0 and more:  # The page is full, and the next part is not empty.
            next_cursor = _encode_cursor(sort, part, position)
        elif next_position is not None:
            next_cursor = _encode_cursor(sort, part, next_position)
        if rest:
            summaries += more
        part += 1
        position = list_start(position.start)
    _, total = store.summaries(filter, title, 1, 0)
    return ListPage(summaries, total, next_cursor)


def _parts(filter: Filter, sort: str) -> list[Filter]:
    """The lists that follow each other. Pinned documents are a list of their own."""
    if sort != "pinned" or filter.pinned is not None:
        return [filter]
    return [replace(filter, pinned=True), replace(filter, pinned=False)]


def _encode_cursor(sort: str, part: int, position: ListPosition) -> str:
    text = json.dumps([sort, part, position], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str, sort: str) -> tuple[int, ListPosition]:
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        name, part, numbers = json.loads(text)
        position = _parse_position(*numbers)
        if name != sort or part not in (0, 1):
            raise ValueError(name)
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(
            "cursor: this is not a cursor of this list. Pass on `next_cursor` of the page before "
            "unchanged, with the same sort, or leave it out to begin."
        ) from None
    return part, position


def _parse_position(time: object, key: object, start: object) -> ListPosition:
    if time is not None:
        time = _parse_number(time)
    return ListPosition(time, _parse_number(key), _parse_number(start))


def _parse_number(value: object) -> int:
    if not isinstance(value, int) or abs(value) >= 1 << 63:
        raise ValueError(value)
    return value


class ConversationList(Sequence[Summary]):
    """The conversations that match a filter, last changed first. They are read when needed.

    Iterating reads page by page and visits every conversation once, even if some change meanwhile.
    `len` and indexes ask the library again each time.
    """

    def __init__(self, store: Store, filter: Filter, title: str = "") -> None:
        self._store = store
        self._filter = filter
        self._title = title

    def __repr__(self) -> str:
        count = len(self)
        if count == 1:
            return "<1 conversation>"
        return f"<{count} conversations>"

    def __len__(self) -> int:
        return self._store.summaries(self._filter, self._title, 1, 0)[1]

    def __iter__(self) -> Iterator[Summary]:
        position: ListPosition | None = list_start(self._store.last_move())
        while position is not None:
            summaries, position = self._store.summaries_after(
                self._filter, self._title, _PAGE, "updated", position
            )
            yield from summaries

    @overload
    def __getitem__(self, index: int) -> Summary: ...

    @overload
    def __getitem__(self, index: slice) -> list[Summary]: ...

    def __getitem__(self, index: int | slice) -> Summary | list[Summary]:
        if isinstance(index, slice):
            return self._slice(index)
        if index < 0:
            index += len(self)
        for summary in self._range(index, index + 1):
            return summary
        raise IndexError("There are not so many conversations.")

    def _slice(self, index: slice) -> list[Summary]:
        start, stop, step = index.start or 0, index.stop, index.step
        if step in (None, 1) and stop is not None and min(start, stop) >= 0:
            if start == 0:
                return self._first(stop)
            return self._range(start, stop)  # no index depends on the length
        start, stop, step = index.indices(len(self))
        if step < 0:
            return [self[number] for number in range(start, stop, step)]
        return self._range(start, stop)[::step]

    def _first(self, limit: int) -> list[Summary]:
        """The beginning of the list, without counting the rest of it."""
        if limit == 0:
            return []
        start = list_start(self._store.last_move())
        return self._store.summaries_after(self._filter, self._title, limit, "updated", start)[0]

    def _range(self, start: int, stop: int) -> list[Summary]:
        if start < 0 or stop <= start:
            return []
        return self._store.summaries(self._filter, self._title, stop - start, start)[0]


def passages_with_summaries(
    store: Store, keys: Sequence[int]
) -> dict[int, tuple[Summary, Passage]]:
    """The passages with these keys, each with the summary of its document."""
    passages = store.passages_by_key(keys)
    ids = sorted({id_ for id_, _ in passages.values()})
    if not ids:
        return {}
    documents, _ = store.summaries(Filter(conversations=tuple(ids), hidden=True), "", len(ids), 0)
    summaries = {identifier(summary.id): summary for summary in documents}
    return {
        key: (summaries[id_], passage)
        for key, (id_, passage) in passages.items()
        if id_ in summaries
    }
