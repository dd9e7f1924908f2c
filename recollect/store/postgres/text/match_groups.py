"""Group all passages that match a query. See Store.match_groups."""

from __future__ import annotations

from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.postgres.connections.connection import Connection
from recollect.store.postgres.filters import OWNER, candidate_conditions
from recollect.store.postgres.text.joins import passages_and_documents
from recollect.store.postgres.text.lexemes import text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    filter_arguments,
    keys_of_few,
    matches_among,
    matches_outside_index,
)
from recollect.store.sql.reading import match_groups

_NO_LIMIT = 1 << 30


def match_rows(db: Connection, node: Node | None, filter: Filter) -> list[tuple[Any, ...]]:
    """All passages that match, as `match_groups.match_rows` in `store.sql` returns them."""
    if node is None:
        where, values = candidate_conditions(filter)
        source = f"{passages_and_documents(db)} where {db.own('p')} and {where}"
        return match_groups.match_rows(db, source, values)
    keys = _matching_keys(db, node, filter)
    source = f"passage p where {db.own('p')} and p.key = any(?::bigint[])"
    return match_groups.match_rows(db, source, (keys,))


def _matching_keys(db: Connection, node: Node, filter: Filter) -> list[int]:
    query = text_query(node)
    few_keys = keys_of_few(db, filter)
    if few_keys is not None:
        return list(matches_among(db, node, query, few_keys))
    arguments = filter_arguments(db, filter)
    keys = list(matches_outside_index(db, node, query, arguments))
    if query.is_exact:
        # With phrases, the index decides only about passages with all positions.
        rows = db.rows(
            f"select newest({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
            (query.tsquery, query.has_phrases or None, _NO_LIMIT, *arguments),
        )
        keys += [key for (key,) in rows]
    return keys
