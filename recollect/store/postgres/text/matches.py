"""Find the passages that match a query exactly.

The index answers most queries alone. Passages whose positions did not all fit into the index, and
queries that PostgreSQL cannot express, are checked against the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.matching import matches
from recollect.language.query_tree import Node
from recollect.language.text import micros, storable
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER, conditions
from recollect.store.postgres.text.lexemes import TextQuery
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.selection import few_documents, matching_documents

FILTER_PARAMETERS = (
    "?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint, ?::bigint, "
    "?::bigint[], ?::bigint[], ?::boolean"
)
_TEXTS_AT_ONCE = 500
_NO_LIMIT = 1 << 30


def filter_arguments(db: Connection, filter: Filter) -> tuple[Any, ...]:
    """The filter as arguments of the search functions (see FILTER_PARAMETERS)."""
    documents = matching_documents(db, filter)
    return (
        _names_or_null(filter.roles),
        _names_or_null(filter.authors),
        _names_or_null(filter.senders),
        _names_or_null(filter.not_roles),
        _names_or_null(filter.not_authors),
        micros(filter.after),
        micros(filter.before),
        documents.only,
        documents.without or None,
        filter.hidden,
    )


def _names_or_null(names: Sequence[str]) -> list[str] | None:
    return [storable(name) for name in names] or None


def keys_of_few(db: Connection, filter: Filter) -> list[int] | None:
    """The passages that pass the filter if their documents are few and short, otherwise None."""
    documents = few_documents(db, filter)
    if documents is None:
        return None
    where, values = conditions(filter, "p", "p.visibility = 'hidden'")
    rows = db.rows(
        f"""select p.key from passage p
        where p.owner = ?::integer and p.document = any(?::bigint[]) and {where}""",
        (db.owner, documents, *values),
    )
    return [key for (key,) in rows]


def matches_among(
    db: Connection, node: Node, query: TextQuery, keys: Sequence[int]
) -> dict[int, int]:
    """The passages with these keys that match, with their lengths."""
    rows = db.rows(
        """select t.key, t.length, t.words @@ ?::tsquery, t.sure from passage_text t
        where t.owner = ?::integer and t.key = any(?::bigint[]) and t.words @@ ?::tsquery""",
        (query.tsquery, db.owner, list(keys), query.without_positions),
    )
    lengths: dict[int, int] = {}
    undecided: list[int] = []
    for key, length, is_match, has_all_positions in rows:
        if not query.is_exact or (query.has_phrases and not has_all_positions):
            undecided.append(key)
        elif is_match:
            lengths[key] = length
    return lengths | _matches_by_text(db, node, undecided)


def matches_outside_index(
    db: Connection,
    node: Node,
    query: TextQuery,
    arguments: tuple[Any, ...],
    any_phrases: bool = False,
) -> dict[int, int]:
    """The matching passages that the index cannot decide, with their lengths.

    These are all matches if the query is not exact. Otherwise they are the matches among passages
    without all positions. With `any_phrases`, these are checked even if the query has no phrase.
    """
    has_all_positions = None
    if query.is_exact:
        needs_positions = query.has_phrases or any_phrases
        if not needs_positions or not has_incomplete_positions(db):
            return {}
        has_all_positions = False
    rows = db.rows(
        f"select newest({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
        (query.without_positions, has_all_positions, _NO_LIMIT, *arguments),
    )
    return _matches_by_text(db, node, [key for (key,) in rows])


def has_incomplete_positions(db: Connection) -> bool:
    """Whether the library has passages without all positions."""
    if db.facts is not None:
        return db.facts.is_partly_positioned
    return bool(
        db.get(
            "select exists (select from passage_text where owner = ?::integer and not sure)",
            (db.owner,),
        )
    )


def _matches_by_text(db: Connection, node: Node, keys: Sequence[int]) -> dict[int, int]:
    """Read the texts of passages. Returns those that match, with their lengths."""
    lengths: dict[int, int] = {}
    for start in range(0, len(keys), _TEXTS_AT_ONCE):
        texts = db.rows(
            f"""select p.key, {INDEXED_TITLE}, p.content,
              t.length
            from passage p join document d on d.owner = p.owner and d.key = p.document
              join passage_text t on t.owner = p.owner and t.key = p.key
            where p.owner = ?::integer and p.key = any(?::bigint[])""",
            (db.owner, list(keys[start : start + _TEXTS_AT_ONCE])),
        )
        lengths |= {
            key: length for key, title, content, length in texts if matches(node, title, content)
        }
    return lengths
