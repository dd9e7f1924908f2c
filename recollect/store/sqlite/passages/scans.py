"""Visit every passage that passes a filter, without the text index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from recollect.model.search import Filter
from recollect.store.sql.reading.selection import (
    IS_AUTHOR,
    LONGEST_INDEXED_NAME,
    drop_common_kinds,
)
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.filters import conditions, passage_conditions

# Up to this many passages are sorted by date. For more, the index by date is faster.
_MAX_SORTED = 3_000
_IS_AUTHOR = IS_AUTHOR.replace("author", "p.author")


class Scan(NamedTuple):
    """SQL that visits every passage p that passes a filter."""

    source: str
    where: str
    """Conditions on p and its document d."""
    values: list[Any]

    @property
    def needs_documents(self) -> bool:
        """Whether the conditions are also on d, which `source` does not have."""
        return "d." in self.where


def scan_by_date(db: Connection, filter: Filter, documents: Sequence[int] | None) -> Scan:
    """Visit the passages by date, or few passages in any order.

    `documents` are those that pass the filter, if they are few.
    """
    few = _scan_few(db, filter, documents)
    if few is not None:
        return few
    any_kind, excluded_documents = drop_common_kinds(db, filter)
    if not excluded_documents:
        filter = any_kind
    where, values = conditions(filter, many=True)
    return Scan("passage p indexed by passage_time", where, values)


def scan_by_key(db: Connection, filter: Filter, documents: Sequence[int] | None) -> Scan:
    """The same in the order in which passages are stored, which is faster for most of a library."""
    few = _scan_few(db, filter, documents)
    if few is not None:
        return few
    where, values = conditions(filter, many=True)
    return Scan("passage p", where, values)


def _scan_few(db: Connection, filter: Filter, documents: Sequence[int] | None) -> Scan | None:
    """Visit the passages of few documents or by rare authors; None if the filter leaves more."""
    if documents is not None:
        where, values = passage_conditions(filter)
        return Scan(
            "json_each(?) k cross join passage p indexed by passage_order on p.document = k.value",
            where,
            [json.dumps(documents), *values],
        )
    if _are_few_by_authors(db, filter.authors):
        where, values = conditions(filter)
        return Scan("passage p indexed by passage_author", f"{_IS_AUTHOR} and {where}", values)
    return None


def _are_few_by_authors(db: Connection, authors: Sequence[str]) -> bool:
    """Whether there are so few passages by these authors that sorting them is fast."""
    if not authors or max(map(len, authors)) > LONGEST_INDEXED_NAME:
        return False
    places = ", ".join("?" * len(authors))
    rows = db.rows(
        f"select 1 from passage where {IS_AUTHOR} and author in ({places}) limit ?",
        (*authors, _MAX_SORTED + 1),
    )
    return len(rows) <= _MAX_SORTED
