"""Count the passages that match a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.queries.query_tree import Node, Or
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.lexemes import TextQuery, text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    filter_arguments,
    has_incomplete_positions,
    keys_of_few,
    matches_among,
    matches_outside_index,
)

MAX_COUNTED = 20_000
"""Counting stops at this number of matches."""
# If one alternative of a query has this many matches, its count is returned as a lower bound:
# counting all alternatives would take longer than the search itself.
_LOWER_BOUND_FROM = 4_000


def size(db: Connection) -> int:
    """See Store.size."""
    return db.library_state()[0]


def _counts(db: Connection, queries: Sequence[str]) -> list[tuple[int, int]]:
    """For each tsquery, how many passages match, and how many of these are not hidden."""
    missing = list({query for query in queries if query not in db.counts})
    if missing:
        rows = db.rows(
            f"select * from frequencies({OWNER}, ?::tsquery[], ?::integer)",
            (missing, MAX_COUNTED),
        )
        db.counts.update(zip(missing, rows, strict=True))
    return [db.counts[query] for query in queries]


def frequencies(db: Connection, nodes: Sequence[Node]) -> tuple[list[int], int]:
    """See Store.frequencies."""
    queries = [text_query(node) for node in nodes]
    totals = [passages for passages, _ in _counts(db, [query.tsquery for query in queries])]
    for number, (node, query) in enumerate(zip(nodes, queries, strict=True)):
        if not query.is_exact or (query.has_phrases and has_incomplete_positions(db)):
            arguments = filter_arguments(db, Filter(hidden=True))
            totals[number] = _count(db, node, query, arguments)
    return totals, size(db)


def count(db: Connection, node: Node, filter: Filter) -> tuple[int, bool]:
    """See Store.count."""
    if isinstance(node, Or) and filter in (Filter(), Filter(hidden=True)):
        lower_bound = _largest_alternative(db, node, filter.hidden)
        if lower_bound >= _LOWER_BOUND_FROM:
            return lower_bound, False
    query = text_query(node)
    keys = keys_of_few(db, filter)
    if keys is not None:
        return len(matches_among(db, [(node, query)], keys)[0]), True
    total = _count(db, node, query, filter_arguments(db, filter))
    return total, total < MAX_COUNTED


def _largest_alternative(db: Connection, node: Or, hidden: bool) -> int:
    """The number of matches of the most frequent alternative that the index can count."""
    queries = [text_query(part) for part in node.parts]
    counts = _counts(
        db, [query.tsquery for query in queries if query.is_exact and not query.has_phrases]
    )
    return max((passages if hidden else visible for passages, visible in counts), default=0)


def _count(db: Connection, node: Node, query: TextQuery, arguments: tuple[Any, ...]) -> int:
    total = 0
    if query.is_exact:
        # With phrases, the index only counts passages with all positions.
        total = db.get(
            f"select counted({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
            (query.tsquery, query.has_phrases or None, MAX_COUNTED, *arguments),
        )
    return int(total) + len(matches_outside_index(db, node, query, arguments))
