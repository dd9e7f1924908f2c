"""Turn a filter into keys of documents, the same for both databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from recollect.language.queries.query_tokens import ROLES
from recollect.language.symbols import without_terminal_codes
from recollect.language.text import fold
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter
from recollect.store.sql.database import Database

# Up to this many documents, and passages in them, are listed by key. This is faster than checking
# the conditions of a filter for every match.
MAX_LISTED_DOCUMENTS = 2_000
MAX_LISTED_PASSAGES = 20_000

LONGEST_INDEXED_NAME = 200
"""The longest role or author, in characters, that is in the index of its column."""
IS_AUTHOR = f"author is not null and length(author) <= {LONGEST_INDEXED_NAME}"
"""The rows in the index of authors."""
IS_OTHER_ROLE = (
    "role <> 'user' and role <> 'assistant' and role <> 'system' and role <> 'tool' "
    f"and length(role) <= {LONGEST_INDEXED_NAME}"
)
"""The rows in the index of roles: nearly all passages have one of the others."""

# One index lookup per distinct name, however many rows have it. Names that are too long for an
# index only match as they are written.
_NAMES = """with recursive names(name) as (
    select min(t.{column}) from {table} t where {own} and {condition}
    union all select
      (select min(t.{column}) from {table} t
       where {own} and {condition} and t.{column} > names.name)
      from names where names.name is not null)
  select name from names where name is not null"""


def resolve_filter(db: Database, filter: Filter) -> Filter:
    """Like `resolve_senders`, and without kinds if the library has no other kinds."""
    if filter.kinds and not other_kinds(db, filter):
        filter = replace(filter, kinds=())
    return resolve_senders(db, filter)


def resolve_senders(db: Database, filter: Filter) -> Filter:
    """The filter with senders spelled as in the library, in every case that occurs there.

    For lists, which have an index that begins with the kind.
    """
    if not filter.senders:
        return filter
    names = {
        *ROLES,
        *authors(db),
        *distinct_names(db, "passage", "role", IS_OTHER_ROLE),
    }
    senders = {fold(sender) for sender in filter.senders}
    spellings = {name for name in names if fold(name) in senders}
    return replace(filter, senders=tuple(sorted(spellings.union(filter.senders))))


def authors(db: Database, limit: int | None = None) -> list[str]:
    """The names of all authors; none if there are more than `limit`."""
    sql = names_sql(db, "passage", "author", IS_AUTHOR)
    if limit is not None:
        sql = f"{sql} limit {limit + 1:d}"
    names = [name for (name,) in db.rows_once(sql)]
    if limit is not None and len(names) > limit:
        return []
    return names


def other_kinds(db: Database, filter: Filter) -> list[str]:
    """The kinds in the library that the filter excludes. All observations are hidden passages."""
    kinds = distinct_names(db, "document", "kind", "kind is not null")
    excluded = {*filter.kinds}
    if not filter.hidden:
        excluded.add(OBSERVATION)
    return [kind for kind in kinds if kind not in excluded]


def distinct_names(db: Database, table: str, column: str, condition: str) -> list[str]:
    return [name for (name,) in db.rows_once(names_sql(db, table, column, condition))]


def names_sql(db: Database, table: str, column: str, condition: str) -> str:
    return _NAMES.format(own=db.own("t"), table=table, column=column, condition=condition)


class DocumentKeys(NamedTuple):
    """A set of documents, by their keys."""

    only: list[int] | None
    """None means all documents."""
    without: list[int]


def matching_documents(db: Database, filter: Filter) -> DocumentKeys:
    """The documents that pass the filter. Nearly all documents are "all without a few"."""
    filter, without = drop_common_kinds(db, filter)
    filter = document_filter(filter)
    if filter == Filter(hidden=True):
        return DocumentKeys(None, without)
    where, values = db.conditions(filter)
    keys = db.array_of("d.key")  # several times faster than rows
    ((array,),) = db.rows_once(
        f"select {keys} from document d where {db.own('d')} and {where}", values
    )
    only: list[int] = []
    if array is not None:
        only = db.parse_array(array).tolist()
    return DocumentKeys(only, without)


def few_documents(db: Database, filter: Filter) -> list[int] | None:
    """The documents that pass the filter if they are few and short, otherwise None."""
    filter = document_filter(filter)
    if filter == Filter(hidden=True):
        return None
    where, values = db.conditions(filter)
    rows = db.rows_once(
        f"select d.key, d.passages from document d where {db.own('d')} and {where} limit ?",
        (*values, MAX_LISTED_DOCUMENTS + 1),
    )
    if len(rows) > MAX_LISTED_DOCUMENTS or sum(count for _, count in rows) > MAX_LISTED_PASSAGES:
        return None
    return [key for key, _ in rows]


@lru_cache(maxsize=16)  # a search needs it several times
def document_filter(filter: Filter) -> Filter:
    """The part of a filter that is about documents, not passages."""
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


@lru_cache(maxsize=16)
def filter_of_any_kind(filter: Filter) -> Filter:
    """The part of a filter that is about documents, without their kinds."""
    return replace(document_filter(filter), kinds=())


@lru_cache(maxsize=16)
def has_only_kinds(filter: Filter) -> bool:
    """Whether a filter accepts everything of some kinds, or of all kinds."""
    return filter == Filter(kinds=filter.kinds, hidden=filter.hidden)


def drop_common_kinds(db: Database, filter: Filter) -> tuple[Filter, list[int]]:
    """If nearly all documents have the kinds of the filter: the filter without kinds.

    Also returns the keys of the few documents of other kinds, which the caller must leave out.
    """
    if not filter.kinds:
        return filter, []
    others = keys_of_kinds(db, other_kinds(db, filter))
    if len(others) > MAX_LISTED_DOCUMENTS or len(others) >= len(keys_of_kinds(db, filter.kinds)):
        return filter, []
    return replace(filter, kinds=()), others


def keys_of_kinds(db: Database, kinds: Sequence[str]) -> list[int]:
    """The keys of documents of these kinds, at most one more than `MAX_LISTED_DOCUMENTS`."""
    if not kinds:
        return []
    members, value = db.in_list(list(kinds))
    rows = db.rows_once(
        f"select key from document where {db.own()} and kind in ({members}) limit ?",
        (value, MAX_LISTED_DOCUMENTS + 1),
    )
    return [key for (key,) in rows]


def literal_text(text: str) -> str:
    """A text to find. If it is nothing but codes of terminals, which no text has, it stays."""
    return without_terminal_codes(text) or text
