"""The search pipeline: parse the query, get candidates from each arm, rank them, make a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.intent import QUESTION
from recollect.language.queries.query import Query
from recollect.language.text import comparable
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search import rank
from recollect.search.deadline import NOTE
from recollect.search.evidence import CERTAIN, UNRELATED, Assessment, assess
from recollect.search.partial_store import PartialStore
from recollect.search.pool import CandidatePool
from recollect.search.queries.period_questions import period_remark, read_query
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.terms import term_plan
from recollect.search.queries.without_words import search_without_words
from recollect.search.ranking.scored import Scale, ScoredCandidate
from recollect.search.ranking.weights import PERFECT_SCORES
from recollect.search.rerank import may_rerank, rerank
from recollect.search.results.hits import make_hit
from recollect.search.results.variety import merge_copies, spread
from recollect.store.base import Store
from recollect.store.values import Candidate

_BEST_HITS = 10  # a page, unless the caller asks for another number
_MORE_MESSAGES = 2  # of a conversation, besides its best
# As many matches are looked at to count conversations. If there are more, the number is a minimum.
_COUNTED_MATCHES = 1_000
NEAREST = 3
"""The most messages that are shown if there are no hits."""


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
        prepared = prepare_search(store, meaning, text, filter, options)
        if prepared is None:
            return search_without_words(store, text, filter, options)
        return prepared.page()


def prepare_search(
    store: Store,
    meaning: Meaning,
    text: str,
    filter: Filter,
    options: SearchOptions,
    search_type: type[Search] | None = None,
    query: Query | None = None,
) -> Search | None:
    """The search for a query; None if it has no words.

    If the query has been read, its terms have been announced.
    """
    if query is None:
        query = read_query(text, store, options)
        store.expect_terms(term_plan(query, options, meaning, bool(filter.kinds)))
    filter = narrow_filter(filter, query, store)
    if not has_words(query):
        return None
    assert query.node is not None
    if may_relax(query) and not store.match(query.node, filter, 1):
        query = query._replace(plain=True)
    if search_type is None:
        search_type = Search
    return search_type(store, meaning, query, filter, options)


class Search(CandidatePool):
    """One search: its candidates, their ranking and the page."""

    has_observations = False
    """Whether observations are among the candidates."""

    _all_terms_match = True
    _assessment: Assessment | None = None
    _scale: Scale | None = None
    _conversation_count: tuple[int, bool] | None = None

    def with_filter(self, filter: Filter, store: Store, candidates: int) -> Search:
        """The same search with another filter and store, and at most `candidates` of each arm."""
        other = copy(self)
        other._arm_size = min(candidates, self._arm_size)
        other._filter = filter
        other._store = PartialStore(store, self._deadline)
        other._pool_keys = frozenset()
        other._ranking = None
        other._assessment = None
        other._scale = None
        other._count = None
        other._all_matches = None
        other._conversation_count = None
        return other

    def with_options(self, options: SearchOptions) -> Search:
        """The same search, whose ranking is known, for another page."""
        other = copy(self)
        other._options = options
        return other

    # -- ranking ---

    def ranking(self) -> list[ScoredCandidate]:
        """The candidates, best first, each text once."""
        if self._ranking is None:
            self._ranking = self._rank()
        return self._ranking

    @property
    def pool_characters(self) -> int:
        return sum([len(scored.candidate.content) for scored in self.ranking()])

    def _rank(self) -> list[ScoredCandidate]:
        pool = self._ranked_pool()
        self.require_candidates(pool)
        ranking = self._messages_only(rank.rank(self.question, pool))
        if self._plain:
            own = {number for number, term in enumerate(self._terms) if not term.weak}
            self._all_terms_match = all(own.issubset(s.terms) for s in ranking)
        if self._options.score == "fts":
            ranking = self._order_by_text_score(ranking)
        ranking = merge_copies(ranking)
        if may_rerank(self._options, self.question, ranking):
            self._store.release_snapshot()
            ranking = rerank(self.question, ranking)
        return ranking

    def _ranked_pool(self) -> list[ScoredCandidate]:
        return self.pool()

    def _messages_only(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The ranking without what is ranked only for the sake of messages."""
        return list(ranking)

    def _order_by_text_score(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The same candidates with the text engine's scores."""
        if self.node is None:
            raise InvalidInput(
                "score: 'fts' needs a search for words. Use it with mode 'text' or 'both'."
            )
        scores = self._store.text_scores(self.node, [s.candidate.key for s in ranking])
        rescored = [
            replace(
                s,
                score=scores.get(s.candidate.key, 0.0),
                part_names=(),
                part_values=(),
            )
            for s in ranking
        ]
        return sorted(rescored, key=lambda scored: -scored.score)

    # -- evidence ---

    def assess(self, ranking: Sequence[ScoredCandidate]) -> Assessment:
        """What a ranking of hits of this search is worth; see `search.evidence`."""
        if not self._plain:
            return CERTAIN
        floor = None
        if self._space is not None and self._means_most_of_the_query():
            floor = self._space.noise_floor
        return assess(self.question, ranking, floor, self.has_observations)

    def scale_of(self, ranking: Sequence[ScoredCandidate], assessment: Assessment) -> Scale:
        """How the scores of a ranking become scores as users see them."""
        if self._every_term:  # several rankings share a scale
            return Scale(PERFECT_SCORES[self.question.intent], 1.0)
        best = max((scored.score for scored in ranking), default=0.0)
        if self._options.score == "fts":
            return Scale(best, 1.0)
        return Scale(best, assessment.confidence)

    @property
    def assessment(self) -> Assessment:
        """What the hits of this search are worth."""
        if self._assessment is None:
            self._assessment = self.assess(self.ranking())
        return self._assessment

    @property
    def scale(self) -> Scale:
        if self._scale is None:
            self._scale = self.scale_of(self.ranking(), self.assessment)
        return self._scale

    # -- pages ---

    def page(self) -> Page:
        ranking = self.ranking()
        if self._options.group == "conversation":
            return self._page_of_conversations(ranking)
        if self._options.score == "rank":
            ranking = spread(self.question, ranking)
        start, end = self._options.offset, self._options.offset + self._options.limit
        hits = [self.hit(scored) for scored in ranking[start:end]]
        if end > len(ranking) and self.has_more_matches and self.node is not None:
            first = max(start - len(ranking), 0)
            hits += self._hits_beyond_pool(ranking, first, end - max(start, len(ranking)))
        total, is_exact = self._total(ranking)
        page = replace(self.empty_page(), hits=tuple(hits), total=total, exact=is_exact)
        return self._with_nearest(self._with_remark(page, ranking), ranking)

    def nearest(self) -> list[tuple[Candidate, float]]:
        """Up to three candidates that are the closest in meaning but no hits, and their cosines.

        They are from different conversations if the search is for conversations, and otherwise
        have different texts. Only after `pool`, and only if no neighbour is a hit.
        """
        cosines = dict(self._distant)
        candidates = sorted(self.candidates(list(cosines)), key=lambda c: -cosines[c.key])
        distinct: dict[str, Candidate] = {}
        for candidate in candidates:
            name = comparable(candidate.content)
            if self._options.group == "conversation":
                name = candidate.document
            distinct.setdefault(name, candidate)
        first = islice(distinct.values(), NEAREST)
        return [(candidate, round(cosines[candidate.key], 6)) for candidate in first]

    def _with_nearest(self, page: Page, ranking: Sequence[ScoredCandidate]) -> Page:
        """If nothing is a hit, add what is the closest in meaning."""
        if ranking:
            return page
        nearest = [
            self._hit(candidate, cosine, arms=("vector",)) for candidate, cosine in self.nearest()
        ]
        return replace(page, nearest=tuple(nearest))

    def _with_remark(self, page: Page, ranking: Sequence[ScoredCandidate]) -> Page:
        """Add a remark if a question names a time and none of the best hits is from it."""
        question = self.question
        if not ranking or question.intent != QUESTION or not question.windows:
            return page
        times = [scored.candidate.created_at for scored in ranking[:_BEST_HITS]]
        remark = period_remark(question.windows, question.now, times)
        return replace(page, note=" ".join(filter(None, (page.note, remark))))

    def _hits_beyond_pool(
        self, ranking: Sequence[ScoredCandidate], start: int, count: int
    ) -> list[Hit]:
        """Matches that were not ranked follow in the order of the text engine."""
        limit = self._arm_size + self.pool_size + start + count
        keys = [key for key in self.text_matches(limit) if not self.is_in_pool(key)]
        score = self._score_beyond_pool(ranking)
        candidates = self._in_order(keys[start : start + count])
        return [self._hit(candidate, score) for candidate in candidates]

    def _score_beyond_pool(self, ranking: Sequence[ScoredCandidate]) -> float:
        """The score of matches that were not ranked: half of the lowest score."""
        if not ranking:
            return 0.0
        return self.scale.score(ranking[-1].score) / 2

    def _page_of_conversations(self, ranking: Sequence[ScoredCandidate]) -> Page:
        groups: dict[str, list[ScoredCandidate]] = {}
        for scored in ranking:
            groups.setdefault(scored.candidate.document, []).append(scored)
        start, end = self._options.offset, self._options.offset + self._options.limit
        hits = []
        for first, *others in list(groups.values())[start:end]:
            also = tuple(map(self.hit, others[:_MORE_MESSAGES]))
            hits.append(replace(self.hit(first), also=also))
        ranked = len(groups)
        total, is_exact = self._total_of_conversations(groups)
        if end > ranked and not self.is_exhausted:
            score = self._score_beyond_pool(ranking)
            further = list(islice(self._conversations_beyond_pool(groups), end - ranked))
            visible = further[max(start - ranked, 0) :]
            hits += [self._hit(candidate, score) for candidate in visible]
            total = max(total, ranked + len(further))
        page = replace(self.empty_page(), hits=tuple(hits), total=total, exact=is_exact)
        return self._with_nearest(self._with_remark(page, ranking), ranking)

    def _total_of_conversations(self, groups: Iterable[str]) -> tuple[int, bool]:
        """How many conversations are hits, and whether that is exact or a minimum.

        The number does not depend on the page. `groups` are the conversations in the ranking.
        """
        if self._conversation_count is None:
            self._conversation_count = self._count_conversations(set(groups))
        return self._conversation_count

    def _count_conversations(self, documents: set[str]) -> tuple[int, bool]:
        is_exact = self.is_exhausted
        # Who types or is an agent sees the first page only. For them, a minimum is enough.
        is_quick = self._options.typing or self._options.observations or self.is_partial
        if self.has_more_matches and self.node is not None and not is_quick:
            keys = self.text_matches(_COUNTED_MATCHES)
            unranked = [key for key in keys if not self.is_in_pool(key)]
            documents.update([name for _, name, _ in self._store.change_times(unranked)])
            is_exact = len(keys) < _COUNTED_MATCHES and not self._is_by_meaning
        return len(documents), is_exact and not self.is_partial

    def _conversations_beyond_pool(self, groups: Iterable[str]) -> Iterator[Candidate]:
        """The first match of each conversation that has no ranked message."""
        documents = set(groups)
        for candidate in self.beyond_pool():
            if candidate.document not in documents:
                documents.add(candidate.document)
                yield candidate

    def _total(self, ranking: Sequence[ScoredCandidate]) -> tuple[int, bool]:
        """How many messages are hits, and whether that is exact or a minimum."""
        ranked = sum(1 + scored.copies for scored in ranking)
        if self.is_exhausted and not self.is_partial:
            return ranked, True
        if self.node is None:
            return ranked, False
        total, is_exact = self.count()
        if self._is_by_meaning or self.is_partial:
            return max(total, ranked), False
        return total, is_exact

    @property
    def _is_by_meaning(self) -> bool:
        """Whether messages can be hits by their meaning. Only the nearest ones are."""
        return self._vector is not None and self._plain

    def empty_page(self) -> Page:
        """The page without its hits."""
        mode = self._options.mode
        if mode == "both" and self._vector is None:
            mode = "text"
        matched = "any"
        if self._query.literal:
            matched = "literal"
        elif self._all_terms_match:
            matched = "all"
        embedded = 0.0
        if self._space is not None:
            embedded = min(self._space.last_key / max(self._store.size(), 1), 1.0)
        notes = [*self._remarks(), self._note]
        is_weak = self._ranking is not None and self.assessment.is_weak
        if is_weak:
            notes.append(UNRELATED)
        if self.is_partial:
            notes.append(NOTE)
        return Page(
            hits=(),
            total=0,
            offset=self._options.offset,
            limit=self._options.limit,
            matched=matched,
            partial=self.is_partial,
            weak=is_weak,
            score_type=self._options.score,
            mode=mode,
            embedded=round(embedded, 4),
            note=" ".join(filter(None, notes)),
            missing=self.missing_words,
            corrections=self.corrections,
        )

    def _hit(self, candidate: Candidate, score: float, **reasons: Any) -> Hit:
        length = self._options.snippet_length
        return make_hit(candidate, self.words, score, length, **reasons)

    def hit(self, scored: ScoredCandidate) -> Hit:
        score = self.scale.score(scored.score)
        share = 0.0
        if scored.score > 0:
            share = score / scored.score
        return self._hit(
            scored.candidate,
            score,
            arms=scored.arms,
            terms=tuple([self._term_names[number] for number in scored.terms]),
            parts={name: round(value * share, 4) for name, value in scored.parts.items()},
            copies=scored.copies,
        )
