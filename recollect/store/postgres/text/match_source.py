"""All passages that match a query, for a statement that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
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

_NO_LIMIT = 1 << 30


def match_source(db: Connection, node: Node | None, filter: Filter) -> tuple[str, Sequence[Any]]:
    """The end of a statement that selects each passage `p` that matches, with its values."""
    if node is None:
        where, values = candidate_conditions(filter)
        return f"{passages_and_documents(db)} where {db.own('p')} and {where}", values
    keys = _matching_keys(db, node, filter)
    return f"passage p where {db.own('p')} and p.key = any(?::bigint[])", (keys,)


def _matching_keys(db: Connection, node: Node, filter: Filter) -> list[int]:
    query = text_query(node)
    few_keys = keys_of_few(db, filter)
    if few_keys is not None:
        return list(matches_among(db, [(node, query)], few_keys)[0])
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
