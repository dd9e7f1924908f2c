"""Lists of documents that are read page by page, each page after a position in the list.

A page that begins after a position, instead of at an offset, is not shifted by documents that
were added since the page before. Documents that have moved since the list began are listed at their
old places (see `moves.py`): nothing is repeated, and nothing is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.model.documents import Summary
from recollect.model.search import Filter
from recollect.store.sql.database import Database
from recollect.store.sql.lookup import summaries_by_key
from recollect.store.sql.selection import resolve_senders
from recollect.store.values import ListPosition

_TIME = "coalesce(d.updated_at, d.created_at)"

Row = tuple[int | None, int]
"""The time and the key of a document."""


def summaries_after(
    db: Database, filter: Filter, search: str, limit: int, order: str, after: ListPosition
) -> tuple[list[Summary], ListPosition | None]:
    """See Store.summaries_after."""
    reader = _Reader(db, resolve_senders(db, filter), search, after)
    if order == "added":
        rows = reader.by_key(limit + 1)
    else:
        rows = reader.by_time(limit + 1)
    position = None
    if len(rows) > limit:
        position = ListPosition(*rows[limit - 1], after.start)
    return summaries_by_key(db, [key for _, key in rows[:limit]]), position


class _Reader:
    """Reads the times and keys of documents after a position."""

    def __init__(self, db: Database, filter: Filter, search: str, after: ListPosition) -> None:
        self._db = db
        self._filter = filter
        self._search = search
        self._after = after

    def by_key(self, limit: int) -> list[Row]:
        return self._rows(self._filter, "d.key < ?", [self._after.key], "d.key desc", limit)

    def by_time(self, limit: int) -> list[Row]:
        """Documents without any date come last."""
        moved = places_at(self._db, self._after.start)
        rows = self._unmoved(list(moved), limit) + self._moved(moved)
        return sorted(rows, key=_order)[:limit]

    def _unmoved(self, moved: list[int], limit: int) -> list[Row]:
        """Documents at their present places, except those that have moved."""
        time, key, _ = self._after
        filter, except_moved, values = self._filter, "", []
        if moved:
            members, value = self._db.in_list(moved)
            except_moved, values = f" and d.key not in ({members})", [value]
        rows: list[Row] = []
        if time is not None:
            condition = f"{_TIME} <= ? and ({_TIME} < ? or d.key < ?){except_moved}"
            order = f"{_TIME} desc nulls last, d.key desc"  # as in the index
            rows = self._rows(filter, condition, [time, time, key, *values], order, limit)
        if len(rows) < limit:
            condition, bounds = f"{_TIME} is null", []
            if time is None:
                condition, bounds = f"{_TIME} is null and d.key < ?", [key]
            condition += except_moved
            rest = limit - len(rows)
            rows += self._rows(filter, condition, [*bounds, *values], "d.key desc", rest)
        return rows

    def _moved(self, moved: dict[int, Place]) -> list[Row]:
        """Documents at the places that they had when the list began."""
        position = _order((self._after.time, self._after.key))
        is_pinned = self._filter.pinned
        keys = [
            key
            for key, place in moved.items()
            if _order((place.time, key)) > position
            and is_pinned in (None, place.pinned is not None)
        ]
        if not keys:
            return []
        members, value = self._db.in_list(keys)
        filter = replace(self._filter, pinned=None)
        rows = self._rows(filter, f"d.key in ({members})", [value], "d.key", len(keys))
        return [(moved[key].time, key) for _, key in rows]

    def _rows(
        self, filter: Filter, condition: str, values: list[Any], order: str, limit: int
    ) -> list[Row]:
        where, filter_values = self._db.conditions(filter, self._search)
        rows = self._db.rows(
            f"select {_TIME}, d.key from document d "
            f"where {self._db.own('d')} and {where} and {condition} order by {order} limit ?",
            (*filter_values, *values, limit),
        )
        return [(time, key) for time, key in rows]


def _order(row: Row) -> tuple[bool, int, int]:
    """The place of a document in a list by date."""
    time, key = row
    return time is None, -(time or 0), -key


# -- the changes that move documents in lists ---

# Older changes are deleted, some at a time.
_MAX_MOVES = 100_000
_MOVES_PER_CLEANUP = 1_000


class Place(NamedTuple):
    """What the place of a document in a list depends on."""

    time: int | None
    pinned: int | None


def last_move(db: Database) -> int:
    """See Store.last_move."""
    number: int | None = db.get(f"select max(number) from {db.own_rows('list_move')}")
    return number or 0


def is_cleanup_due(number: int) -> bool:
    """Whether old changes are deleted when the change with this number is recorded."""
    return number % _MOVES_PER_CLEANUP == 0


def record_move(db: Database, document: int) -> None:
    """Record the place of a document that is about to be changed."""
    ((time, pinned),) = db.rows(
        "select coalesce(updated_at, created_at), pinned from document "
        f"where {db.own()} and key = ?",
        (document,),
    )
    number = last_move(db) + 1
    db.insert(
        "list_move", ("number", "document", "time", "pinned"), [(number, document, time, pinned)]
    )
    if is_cleanup_due(number):
        db.run(f"delete from list_move where {db.own()} and number <= ?", (number - _MAX_MOVES,))


def places_at(db: Database, start: int) -> dict[int, Place]:
    """The places that documents had at a number of the log, of those that have moved since.

    Raises InvalidInput if the log does not go back that far.
    """
    rows = db.rows(
        f"select number, document, time, pinned from list_move where {db.own()} and number > ? "
        "order by number desc",
        (start,),
    )
    if rows and rows[-1][0] != start + 1:
        raise InvalidInput(
            "cursor: too much has changed since this list began. Begin again without a cursor."
        )
    return {document: Place(time, pinned) for _, document, time, pinned in rows}
