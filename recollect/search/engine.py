"""The search pipeline: parse the query, get candidates from each arm, rank them, make a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.candidates.observations import Observations
from recollect.search.candidates.pool import CandidatePool, read_pools, require_candidates
from recollect.search.candidates.scope import Scope
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation, interpret
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.query_reading import read_query
from recollect.search.rerank import rerank_if_useful
from recollect.search.results.pages import PageMaker
from recollect.search.results.ranking import Ranking
from recollect.search.results.remarks import Remarks
from recollect.search.results.variety import merge_copies
from recollect.search.results.without_words import search_without_words
from recollect.store.base import Store


def search(
    store: Store, meaning: Meaning, text: str, filter: Filter, options: SearchOptions
) -> Page:
    """A page of hits for a query. See `language.queries.query` for its syntax.

    Every hit satisfies operators, quotes and fields. Plain words are a question: messages that
    contain any of them or are similar in meaning are ranked. If no message contains all the words
    and phrases of a query without operators, they are ranked like a question. `Page.matched`
    says how the query was handled.
    """
    with store.snapshot():
        query = read_query(text, store, options, [filter])
        if not has_words(query):
            return search_without_words(store, query, filter, options)
        return prepare_search(store, meaning, query, filter, options).page(options)


def prepare_search(
    store: Store, meaning: Meaning, query: Query, filter: Filter, options: SearchOptions
) -> Search:
    """The search for a query that has words."""
    filter = narrow_filter(filter, query, store)
    scope = Scope.begin(store, filter)
    assert query.node is not None
    if may_relax(query) and not scope.store.satisfies(query.node, filter):
        query = query._replace(plain=True)
    return Search(interpret(query, scope.store, [filter], meaning, options), scope)


class Search:
    """One search for messages: its candidates, their ranking and its pages."""

    def __init__(
        self,
        interpretation: Interpretation,
        scope: Scope,
        excluded_keys: AbstractSet[int] = frozenset(),
    ) -> None:
        self.interpretation = interpretation
        self.scope = scope
        self.pool = CandidatePool(interpretation, scope, excluded_keys=excluded_keys)

    def restricted_to(self, conversations: Iterable[str]) -> Search:
        """The same search in these conversations only."""
        return Search(self.interpretation, self.scope.restricted_to(conversations))

    def page(self, options: SearchOptions) -> Page:
        """One page of the hits. `options` are those of the search, perhaps for another page."""
        return self.page_maker(options).page()

    def page_maker(self, options: SearchOptions) -> PageMaker:
        return PageMaker(self.interpretation, self.pool, self.ranking, self.remarks, options)

    @cached_property
    def remarks(self) -> Remarks:
        return Remarks(
            self.interpretation,
            self.scope.store,
            self.ranking.candidates,
            kinds=self.scope.filter.kinds,
        )

    @cached_property
    def ranking(self) -> Ranking:
        """The candidates, best first, each text once."""
        query, options = self.interpretation.ranking_query, self.interpretation.options
        observations: Observations | None = None
        if options.observations:
            observations = Observations(self.interpretation, self.pool)
            candidates = observations.candidates()
        else:
            (candidates,) = read_pools([self.pool])
        require_candidates(candidates, self.scope)
        from recollect.search.ranking import rank  # imports numpy

        ranking = rank(query, candidates)
        if observations is not None:
            ranking = observations.raise_messages(ranking)
        if options.score == "fts":
            ranking = self._order_by_text_score(ranking)
        distinct = ranking
        if not self.interpretation.every_term:  # then each conversation needs its own messages
            distinct = merge_copies(ranking, by_conversation=options.group == "conversation")
        return Ranking(
            self.interpretation,
            rerank_if_useful(options, query, distinct, self.scope.store),
            before_reranking=distinct,
            has_observations=observations is not None and not observations.is_empty,
        )

    def _order_by_text_score(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The candidates with the text engine's scores, best first."""
        node = self.interpretation.node
        if node is None:
            raise InvalidInput(
                "score: 'fts' needs a search for words. Use it with mode 'text' or 'both'."
            )
        scores = self.scope.store.text_scores(node, [s.candidate.key for s in ranking])
        rescored = [
            replace(s, score=scores.get(s.candidate.key, 0.0), part_names=(), part_values=())
            for s in ranking
        ]
        return sorted(rescored, key=lambda scored: -scored.score)
