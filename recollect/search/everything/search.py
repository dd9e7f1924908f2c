"""One search over every kind of item, with a single list of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.model.search import Filter, SearchOptions
from recollect.search.candidates.partial_store import PartialStore
from recollect.search.candidates.pool import CandidatePool
from recollect.search.candidates.scope import Scope
from recollect.search.candidates.sizes import MATCHES_OF_QUESTION
from recollect.search.everything.kind_queries import KindQuery, store_part
from recollect.search.everything.ranked_results import RankedResults
from recollect.search.everything.results import Results
from recollect.search.everything.results_by_time import ResultsByTime
from recollect.search.everything.results_without_words import ResultsWithoutWords
from recollect.search.queries.interpretation import interpret
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.query_reading import read_query
from recollect.search.results.remarks import Remarks
from recollect.store.base import Store
from recollect.store.values import SearchPlan

ORDERS = ("relevance", "recent")
_ITEM_CANDIDATES = 40


def search_everything(
    store: Store,
    meaning: Meaning,
    text: str,
    queries: Sequence[KindQuery],
    options: SearchOptions,
    order: str = "relevance",
    *,
    fold: bool = False,
) -> Results:
    """The results of a search. With `fold`, messages with the same text are returned once."""
    if order not in ORDERS:
        raise InvalidInput(f"order_by: {order!r} is not one of {', '.join(ORDERS)}.")
    query = read_query(text, store, options, [q.filter for q in queries])
    queries = [replace(q, filter=narrow_filter(q.filter, query, store)) for q in queries]
    if not has_words(query):
        return ResultsWithoutWords(store, query, queries)
    scope = Scope.begin(store, Filter())
    if may_relax(query) and not _has_match(scope.store, query, queries):
        query = query._replace(plain=True)
    return _ranked_results(scope, meaning, query, queries, options, order, fold=fold)


def _ranked_results(
    scope: Scope,
    meaning: Meaning,
    query: Query,
    queries: Sequence[KindQuery],
    options: SearchOptions,
    order: str,
    *,
    fold: bool,
) -> Results:
    """The results of a query that has words."""
    filters = [kind_query.filter for kind_query in queries]
    interpretation = interpret(query, scope.store, filters, meaning, options)
    pools = []
    title_keys: set[int] = set()
    for kind_query in queries:
        part = store_part(scope.store, kind_query, interpretation.node)
        title_keys |= part.title_keys
        own_scope = scope.with_part(part.store, kind_query.filter)
        pools.append(CandidatePool(interpretation, own_scope, _candidates(kind_query)))
    kinds = [kind for kind_query in queries for kind in kind_query.filter.kinds]
    remarks = Remarks(interpretation, scope.store, kinds=kinds, subject="Nothing")
    if order == "recent":
        return ResultsByTime(interpretation, pools, remarks, title_keys)
    return RankedResults(interpretation, pools, remarks, title_keys, fold=fold)


def _has_match(store: PartialStore, query: Query, queries: Sequence[KindQuery]) -> bool:
    assert query.node is not None
    plans = [SearchPlan((query.node,), kind_query.filter, 1) for kind_query in queries]
    store.expect(*plans)
    return any(store.satisfies(query.node, plan.filter) for plan in plans)


def _candidates(query: KindQuery) -> int:
    """The candidates of each arm. Items are found by their best passage, so few are enough."""
    if query.is_for_conversations:
        return MATCHES_OF_QUESTION
    return _ITEM_CANDIDATES
