"""Lists of documents that are read page by page, each page after a position in the list.

A page that begins after a position, instead of at an offset, is not shifted by documents that
were added or changed since the page before: nothing is repeated, and nothing else is lost.
"""

from __future__ import annotations

from typing import Any

from recollect.model.documents import Summary
from recollect.model.search import Filter
from recollect.store.sql.database import Database
from recollect.store.sql.lookup import summaries_by_key
from recollect.store.sql.selection import resolve_senders
from recollect.store.values import ListPosition

_TIME = "coalesce(d.updated_at, d.created_at)"


def summaries_after(
    db: Database,
    filter: Filter,
    search: str,
    limit: int,
    order: str,
    after: ListPosition | None,
) -> tuple[list[Summary], ListPosition | None]:
    """See Store.summaries_after."""
    reader = _Reader(db, *db.conditions(resolve_senders(db, filter), search))
    if order == "added":
        rows = reader.by_key(after, limit + 1)
    else:
        rows = reader.by_time(after, limit + 1)
    position = None
    if len(rows) > limit:
        position = ListPosition(*rows[limit - 1])
    return summaries_by_key(db, [key for _, key in rows[:limit]]), position


class _Reader:
    """Reads the times and keys of documents."""

    def __init__(self, db: Database, where: str, values: list[Any]) -> None:
        self._db = db
        self._where = where
        self._values = values

    def by_key(self, after: ListPosition | None, limit: int) -> list[tuple[Any, ...]]:
        if after is None:
            return self._rows("", [], "d.key desc", limit)
        return self._rows("d.key < ?", [after.key], "d.key desc", limit)

    def by_time(self, after: ListPosition | None, limit: int) -> list[tuple[Any, ...]]:
        """Documents without any date come last."""
        rows: list[tuple[Any, ...]] = []
        if after is None or after.time is not None:
            condition, values = f"{_TIME} is not null", []
            if after is not None:
                condition = f"{_TIME} <= ? and ({_TIME} < ? or d.key < ?)"
                values = [after.time, after.time, after.key]
            rows = self._rows(condition, values, f"{_TIME} desc, d.key desc", limit)
            after = None
        if len(rows) < limit:
            condition, values = f"{_TIME} is null", []
            if after is not None:
                condition += " and d.key < ?"
                values = [after.key]
            rows += self._rows(condition, values, "d.key desc", limit - len(rows))
        return rows

    def _rows(
        self, condition: str, values: list[Any], order: str, limit: int
    ) -> list[tuple[Any, ...]]:
        where = self._where
        if condition:
            where += f" and {condition}"
        return self._db.rows(
            f"select {_TIME}, d.key from document d "
            f"where {self._db.own('d')} and {where} order by {order} limit ?",
            (*self._values, *values, limit),
        )
