"""Passages that pass a filter: their keys, and scans that visit them without the text index."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from recollect.model.search import Filter
from recollect.store.sql.selection import (
    IS_AUTHOR,
    LONGEST_INDEXED_NAME,
    document_filter,
    drop_common_kinds,
    few_documents,
)
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.filters import conditions, passage_conditions

KeyRange = tuple[int, int]
"""A first and a last key, both included."""


def all_keys(db: Connection) -> KeyRange:
    return 1, db.memoize("last key", lambda: db.get("select passage from last_key"))


def passing_keys(db: Connection, keys: Sequence[int], filter: Filter) -> set[int]:
    """The keys of those passages that pass the filter."""
    where, values = conditions(filter)
    sql = f"""select p.key from json_each(?) k cross join passage p on p.key = k.value
      cross join document d on d.key = p.document where {where}"""
    return {key for (key,) in db.execute(sql, (json.dumps(keys), *values))}


def keys_in_few_documents(db: Connection, filter: Filter) -> Sequence[int] | None:
    """The keys of all passages in the documents that pass the filter, in ascending order.

    None if there are too many such documents. The conditions on passages are not checked.
    """
    filter = document_filter(filter)
    return db.memoize(("few documents", filter), lambda: _keys_in_few_documents(db, filter))


def _keys_in_few_documents(db: Connection, filter: Filter) -> list[int] | None:
    documents = few_documents(db, filter)
    if documents is None:
        return None
    sql = """select p.key from json_each(?) k cross join passage p on p.document = k.value
      order by p.key"""
    return [key for (key,) in db.execute(sql, (json.dumps(documents),))]


def keys_in(key_range: KeyRange, keys: Sequence[int]) -> Sequence[int]:
    """Those of some keys, in ascending order, that are in a range."""
    first, last = key_range
    return keys[bisect_left(keys, first) : bisect_right(keys, last)]


# -- scans ---


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
    few = scan_few(db, filter, documents)
    if few is not None:
        return few
    any_kind, excluded_documents = drop_common_kinds(db, filter)
    if not excluded_documents:
        filter = any_kind
    where, values = conditions(filter, many=True)
    return Scan("passage p indexed by passage_time", where, values)


def scan_by_key(db: Connection, filter: Filter, documents: Sequence[int] | None) -> Scan:
    """The same in the order in which passages are stored, which is faster for most of a library."""
    few = scan_few(db, filter, documents)
    if few is not None:
        return few
    where, values = conditions(filter, many=True)
    return Scan("passage p", where, values)


def scan_few(db: Connection, filter: Filter, documents: Sequence[int] | None) -> Scan | None:
    """Visit the passages of few documents or by rare authors; None if the filter leaves more."""
    if documents is not None:
        where, values = passage_conditions(filter)
        return Scan(
            "json_each(?) k cross join passage p indexed by passage_order on p.document = k.value",
            where,
            [json.dumps(documents), *values],
        )
    if are_few_by_authors(db, filter.authors):
        where, values = conditions(filter)
        return Scan("passage p indexed by passage_author", f"{_IS_AUTHOR} and {where}", values)
    return None


def are_few_by_authors(db: Connection, authors: Sequence[str]) -> bool:
    """Whether there are so few passages by these authors that sorting them is fast."""
    if not authors or max(map(len, authors)) > LONGEST_INDEXED_NAME:
        return False
    places = ", ".join("?" * len(authors))
    rows = db.rows(
        f"select 1 from passage where {IS_AUTHOR} and author in ({places}) limit ?",
        (*authors, _MAX_SORTED + 1),
    )
    return len(rows) <= _MAX_SORTED


def joined(scan: Scan) -> tuple[str, list[Any]]:
    """The end of a statement that selects each passage `p` of a scan, with its values."""
    source = scan.source
    if scan.needs_documents:
        source += " cross join document d on d.key = p.document"
    return f"{source} where {scan.where}", scan.values
