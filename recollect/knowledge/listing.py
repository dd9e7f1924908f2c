"""Lists of conversations and items, short ids for them, and overviews of a library."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, overload

from recollect.errors import InvalidInput
from recollect.language.text import EPOCH, fold, identifier
from recollect.model.arguments import page_size, require_choice
from recollect.model.documents import Passage, Summary
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import LIST_START, MAX_FACET_NAMES, Activity, ListPosition

_PAGE = LIMITS.page_size
_SHORTEST_ID = 6
_NEIGHBOURS = 20
"""The most ids that are read at once."""
_MOST_MONTHS = 600
"""A message of the year 1 must not make a list of thousands of months."""
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
    require_choice("sort", sort, SORTS)
    limit = page_size(limit)
    if cursor is None:
        part, position = 0, LIST_START
    else:
        part, position = decode_cursor(cursor, sort)
    parts = [filter]  # the lists that follow each other; pinned documents are one of their own
    if sort == "pinned" and filter.pinned is None:
        parts = [replace(filter, pinned=True), replace(filter, pinned=False)]
    order = "added" if sort == "added" else "updated"
    summaries: list[Summary] = []
    next_cursor = None
    while part < len(parts) and next_cursor is None:
        rest = limit - len(summaries)
        more, next_position = store.summaries_after(
            parts[part], title, max(1, rest), order, position
        )
        if rest == 0 and more:  # The page is full, and the next part is not empty.
            next_cursor = encode_cursor(sort, part, position)
        elif next_position is not None:
            next_cursor = encode_cursor(sort, part, next_position)
        if rest:
            summaries += more
        part += 1
        position = LIST_START
    _, total = store.summaries(filter, title, 1, 0)
    return ListPage(summaries, total, next_cursor)


def encode_cursor(sort: str, part: int, position: ListPosition) -> str:
    text = json.dumps([sort, part, position], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, sort: str) -> tuple[int, ListPosition]:
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        name, part, numbers = json.loads(text)
        position = ListPosition(*numbers)
        numbers = (0 if position.time is None else position.time, *position[1:])
        valid = all(type(number) is int and abs(number) < 1 << 63 for number in numbers)
        if name != sort or part not in (0, 1) or not valid:
            raise ValueError(name)
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(
            "cursor: this is not a cursor of this list. Pass on `next_cursor` of the page before "
            "unchanged, with the same sort, or leave it out to begin."
        ) from None
    return part, position


class ConversationList(Sequence[Summary]):
    """The conversations that match a filter, last changed first. They are read when needed.

    Iterating reads page by page. A conversation that others change meanwhile moves to the top.
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
        position: ListPosition | None = LIST_START
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

    def position(self, id: str) -> int | None:
        """The place of a conversation; None if it is not in the list. Raises NotFound."""
        return self._store.list_position(id, self._filter, self._title)

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
        return self._store.summaries_after(self._filter, self._title, limit, "updated", LIST_START)[
            0
        ]

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


# -- short ids -----------------------------------------------------------------


def short_id(store: Store, id_: str) -> str:
    """The first characters of an id, as many as make it unique. They save tokens and typing.

    A short id may stop being unique when the library grows; then it is refused, never taken for
    another one. `store/abbreviations.py` expands them again.
    """
    id_ = identifier(id_)
    length = _SHORTEST_ID
    while length < len(id_):
        neighbours = store.ids_with_prefix(id_[:length], _NEIGHBOURS)
        others = [other for other in neighbours if other != id_]
        if not others:
            return id_[:length]
        if len(neighbours) < _NEIGHBOURS:
            while length < len(id_) and any(o.startswith(id_[:length]) for o in others):
                length += 1
            return id_[:length]
        length += 1
    return id_


# -- overviews -----------------------------------------------------------------

Facets = dict[str, list[tuple[str, int]]]
"""Names with their numbers of documents, most first, for each facet."""


class FacetCache:
    """Every page of the console shows facets, and every key that is typed into its palette."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._facets: dict[str, tuple[object, Facets]] = {}
        """The last facets of each kind, and the version of the library that has them."""

    def facets(self, kind: str) -> Facets:
        """The facets of a kind of document."""
        version = self._store.version()  # read first: what is written meanwhile changes it
        cached_version, facets = self._facets.get(kind, (None, {}))
        if cached_version != version:
            facets = {
                facet: self._store.facet_names(facet, kinds=(kind,))[:MAX_FACET_NAMES]
                for facet in ("projects", "sources", "tags")
            }
            self._facets[kind] = (version, facets)
        return {name: list(counts) for name, counts in facets.items()}

    def names(self, facet: str, text: str, kinds: Sequence[str]) -> list[tuple[str, int]]:
        """All names of a facet that contain a text. See Store.facet_names."""
        if len(kinds) == 1:
            names = self.facets(kinds[0])[facet]
            if len(names) < MAX_FACET_NAMES:  # these are all, and most libraries have fewer
                part = fold(text)
                return [(name, count) for name, count in names if part in fold(name)]
        return self._store.facet_names(facet, text, kinds)


def activity_report(activity: Activity) -> dict[str, Any]:
    """Numbers of messages, as JSON.

    Months have no gaps. Weekdays start on Monday, and hours are in UTC.
    """
    months: Counter[int] = Counter()
    weekdays, hours = [0] * 7, [0] * 24
    for day, count in activity.days:
        moment = EPOCH + timedelta(days=day)
        months[moment.year * 12 + moment.month - 1] += count
        weekdays[moment.weekday()] += count
    for hour, count in activity.hours:
        hours[hour] = count
    numbers = sorted(months)
    if numbers and numbers[-1] - numbers[0] <= _MOST_MONTHS:
        numbers = list(range(numbers[0], numbers[-1] + 1))
    return {
        "months": [[f"{n // 12:04}-{n % 12 + 1:02}", months[n]] for n in numbers],
        "sources": [list(row) for row in activity.sources],
        "models": [list(row) for row in activity.models],
        "tools": [list(row) for row in activity.tools],
        "projects": [list(row) for row in activity.projects],
        "weekdays": weekdays,
        "hours": hours,
    }
