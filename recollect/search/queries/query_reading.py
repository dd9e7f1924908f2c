"""Reading a query. Where it is ambiguous, the library decides what it means."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.queries.query import Query
from recollect.model.search import Filter, SearchOptions
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.operators_as_text import with_operators_as_text
from recollect.search.queries.period_questions import as_period, period_or_mention
from recollect.store.base import Store


def read_query(text: str, store: Store, options: SearchOptions, filters: Sequence[Filter]) -> Query:
    """Parse a query, and decide what it means in this library.

    `filters`: what is searched passes at least one of them.
    """
    query = parse_any_length(text, store)
    if options.mode != "vector":
        query = as_period(query, options.now)
    return resolve_ambiguity(query, store, filters)


def resolve_ambiguity(query: Query, store: Store, filters: Sequence[Filter]) -> Query:
    """Decide by what the library contains whether operators are text, and a time is meant."""
    query = with_operators_as_text(query, store, filters)
    return period_or_mention(query, store, filters)
