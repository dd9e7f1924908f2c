"""What a filter asks of one library, in the library's own terms; the same in every database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from recollect.language.query import ROLES
from recollect.language.text import fold
from recollect.model.search import Filter
from recollect.store.sql.database import Database

_FEW = 2_000  # documents that are listed rather than described
_SHORT = 20_000  # passages that they have together

# One step of an index a name, however many have it. Names too long for an index are met as they are written only.
_NAMES = """with recursive names(name) as (
    select min({column}) from {table} where {those}
    union all select (select min(t.{column}) from {table} t where {those} and t.{column} > names.name) from names
      where names.name is not null)
  select name from names where name is not null"""
_AUTHORS = _NAMES.format(
    column="author", table="passage", those="author is not null and length(author) <= 200"
)
_OTHER_ROLES = _NAMES.format(
    column="role",
    table="passage",
    those="role not in ('user', 'assistant', 'system', 'tool') and length(role) <= 200",
)
_KINDS = _NAMES.format(column="kind", table="document", those="kind is not null")


def exact(db: Database, filter: Filter) -> Filter:
    """The filter with senders written as the library writes them, in every case that it has, and without
    kinds where there are no others."""
    if filter.kinds and all(kind in filter.kinds for (kind,) in db.rows(_KINDS)):
        filter = replace(filter, kinds=())
    if not filter.senders:
        return filter
    wanted = set(map(fold, filter.senders))
    written = {*ROLES, *(name for sql in (_AUTHORS, _OTHER_ROLES) for (name,) in db.rows(sql))}
    return replace(
        filter, senders=tuple(sorted({*filter.senders, *(n for n in written if fold(n) in wanted)}))
    )


class Chosen(NamedTuple):
    """The keys of documents."""

    only: list[int] | None
    """None for any."""
    without: list[int]


def chosen(db: Database, filter: Filter) -> Chosen:
    """The documents that the filter lets through. Nearly all of them are those without the few others."""
    filter, without = without_kinds(db, filter)
    filter = of_documents(filter)
    if filter == Filter(hidden=True):
        return Chosen(None, without)
    where, values = db.conditions(filter)
    return Chosen(
        [key for (key,) in db.rows(f"select d.key from document d where {where}", values)], without
    )


def few(db: Database, filter: Filter) -> list[int] | None:
    """The documents that the filter lets through, where these are few and short; else None."""
    filter = of_documents(filter)
    if filter == Filter(hidden=True):
        return None
    where, values = db.conditions(filter)
    rows = db.rows(
        f"select d.key, d.passages from document d where {where} limit ?", (*values, _FEW + 1)
    )
    return (
        None
        if len(rows) > _FEW or sum(count for _, count in rows) > _SHORT
        else [key for key, _ in rows]
    )


def of_documents(filter: Filter) -> Filter:
    """What it says of documents."""
    return replace(
        filter,
        roles=(),
        authors=(),
        senders=(),
        not_roles=(),
        not_authors=(),
        after=None,
        before=None,
        hidden=True,
    )


def without_kinds(db: Database, filter: Filter) -> tuple[Filter, list[int]]:
    """Where nearly all documents are of the kinds asked for, the filter that does not ask, and the others."""
    if not filter.kinds:
        return filter, []
    others = [kind for (kind,) in db.rows(_KINDS) if kind not in filter.kinds]
    few = _keys_of(db, others)
    if len(few) > _FEW or len(few) >= len(_keys_of(db, filter.kinds)):
        return filter, []
    return replace(filter, kinds=()), few


def _keys_of(db: Database, kinds: Sequence[str]) -> list[int]:
    """The keys of documents of some kinds, not many more than a few."""
    if not kinds:
        return []
    listed, value = db.among(list(kinds))
    return [
        key
        for (key,) in db.rows(
            f"select key from document where kind in ({listed}) limit ?", (value, _FEW + 1)
        )
    ]
