"""Find the passages that match a query exactly.

The index answers most queries alone. Passages whose positions did not all fit into the index, and
queries that PostgreSQL cannot express, are checked against the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.queries.matching import matches
from recollect.language.queries.query_tree import Node
from recollect.language.text import micros, storable
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER, conditions
from recollect.store.postgres.text.lexemes import TextQuery
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.selection import (
    MAX_LISTED_DOCUMENTS,
    MAX_LISTED_PASSAGES,
    document_filter,
    matching_documents,
)

FILTER_PARAMETERS = """?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint,
  ?::bigint, ?::bigint[], ?::bigint[], ?::boolean"""
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
    """The passages that pass the filter if their documents are few and short, otherwise None.

    Also None if the filter is not about documents.
    """
    documents = document_filter(filter)
    if documents == Filter(hidden=True):
        return None
    document_where, document_values = db.conditions(documents)
    where, values = conditions(filter, "p", "p.visibility = 'hidden'")
    ((is_few, keys),) = db.rows_once(
        f"""with few as materialized (
          select d.key, d.passages from document d
          where {db.own("d")} and {document_where} limit {MAX_LISTED_DOCUMENTS + 1}),
        size as materialized (
          select count(*) <= {MAX_LISTED_DOCUMENTS}
            and coalesce(sum(f.passages), 0) <= {MAX_LISTED_PASSAGES} as is_few
          from few f)
        select s.is_few, array(
          select p.key from few f join passage p on p.document = f.key
          where {db.own("p")} and s.is_few and {where}) as keys from size s""",
        (*document_values, *values),
    )
    return list(keys) if is_few else None


def matches_among(
    db: Connection, queries: Sequence[tuple[Node, TextQuery]], keys: Sequence[int]
) -> list[dict[int, int]]:
    """For each query, the passages with these keys that match, with their lengths."""
    rows = db.rows(
        f"""select u.number - 1 as number, t.key, t.length, t.words @@ u.query as is_match, t.sure
        from passage_text t, unnest(?::tsquery[], ?::tsquery[])
          with ordinality u(query, without_positions, number)
        where {db.own("t")} and t.key = any(?::bigint[]) and t.words @@ u.without_positions""",
        (
            [query.tsquery for _, query in queries],
            [query.without_positions for _, query in queries],
            list(keys),
        ),
    )
    matches: list[dict[int, int]] = [{} for _ in queries]
    undecided: list[list[int]] = [[] for _ in queries]
    for number, key, length, is_match, has_all_positions in rows:
        query = queries[number][1]
        if not query.is_exact or (query.has_phrases and not has_all_positions):
            undecided[number].append(key)
        elif is_match:
            matches[number][key] = length
    for number, (node, _) in enumerate(queries):
        matches[number] |= _matches_by_text(db, node, undecided[number])
    return matches


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
    sql = f"select 1 from passage_text t where {db.own('t')} and not t.sure limit 1"
    return bool(db.rows_once(sql))


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
