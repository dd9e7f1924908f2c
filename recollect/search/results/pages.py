"""Pages of hits, made from a ranking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

from recollect.language.queries.intent import IDENTIFIER
from recollect.model.search import Hit, Page, SearchOptions
from recollect.search.candidates.pool import CandidatePool
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.period_questions import period_remark
from recollect.search.results.hits import make_hit
from recollect.search.results.ranking import Ranking
from recollect.search.results.remarks import Remarks
from recollect.search.results.unknown_names import note_unknown_names
from recollect.search.results.variety import spread
from recollect.store.values import Candidate

_BEST_HITS = 10  # a page, unless the caller asks for another number
_MORE_MESSAGES = 2  # of a conversation, besides its best


class PageMaker:
    """Makes one page of a search."""

    def __init__(
        self,
        interpretation: Interpretation,
        pool: CandidatePool,
        ranking: Ranking,
        remarks: Remarks,
        options: SearchOptions,
    ) -> None:
        """`options` are those of the search, perhaps for another page."""
        self._interpretation = interpretation
        self._pool = pool
        self._ranking = ranking
        self._remarks = remarks
        self._options = options
        self._start, self._end = options.offset, options.offset + options.limit

    def page(self) -> Page:
        if self._options.group == "conversation":
            page = self._page_of_conversations()
        else:
            page = self._page_of_messages()
        if self._ranking.candidates:
            return self._with_remark(page)
        return self._without_hits(page)

    def empty_page(self) -> Page:
        """The page without its hits."""
        interpretation = self._interpretation
        matched = "any"
        if interpretation.query.literal:
            matched = "literal"
        elif self._ranking.has_all_terms and not self._may_lack_terms:
            matched = "all"
        is_weak = self._ranking.assessment.is_weak
        note = self._remarks.note(is_weak=is_weak)
        return Page(
            hits=(),
            total=0,
            offset=self._options.offset,
            limit=self._options.limit,
            matched=matched,
            partial=self._is_partial,
            weak=is_weak,
            score_type=self._options.score,
            mode=interpretation.mode,
            embedded=self._embedded_share(),
            note=note,
            missing=self._remarks.missing_words,
            corrections=interpretation.corrections,
        )

    def hit(self, scored: ScoredCandidate) -> Hit:
        """A ranked candidate as a hit, with the reasons for its score."""
        score = self._ranking.scale.score(scored.score)
        share = 0.0
        if scored.score > 0:
            share = score / scored.score
        names = self._interpretation.term_names
        return self._hit(
            scored.candidate,
            score,
            arms=scored.arms,
            terms=tuple([names[number] for number in scored.terms]),
            parts={name: round(value * share, 4) for name, value in scored.parts.items()},
            copies=scored.copies,
        )

    def _hit(self, candidate: Candidate, score: float, **reasons: Any) -> Hit:
        length = self._options.snippet_length
        return make_hit(candidate, self._interpretation.words, score, length, **reasons)

    @cached_property
    def _order(self) -> Sequence[ScoredCandidate]:
        """The candidates in the order in which they are listed."""
        ranking = self._ranking.candidates
        if self._options.group == "conversation" or self._options.score != "rank":
            return ranking
        return spread(self._interpretation.ranking_query, ranking)

    @property
    def _may_lack_terms(self) -> bool:
        """Whether a match that was not ranked may have only some of the words."""
        interpretation = self._interpretation
        has_several = interpretation.is_plain and len(interpretation.own_terms) > 1
        return has_several and self._pool.has_more_matches

    @property
    def _is_partial(self) -> bool:
        return self._pool.scope.is_partial

    def _embedded_share(self) -> float:
        """The share of the messages that have vectors."""
        space = self._interpretation.meaning.space
        if space is None:
            return 0.0
        return round(min(space.last_key / max(self._pool.scope.store.size(), 1), 1.0), 4)

    # -- messages ---

    def _page_of_messages(self) -> Page:
        hits = [self.hit(scored) for scored in self._order[self._start : self._end]]
        ranked = len(self._order)
        has_more = self._pool.has_more_matches and self._interpretation.node is not None
        if self._end > ranked and has_more:
            # Matches that were not ranked follow in the order of the text engine.
            start = max(self._start - ranked, 0)
            count = self._end - max(self._start, ranked)
            hits += self._unranked_hits(self._pool.matches_beyond(start, count))
        total, is_exact = self._total()
        return replace(self.empty_page(), hits=tuple(hits), total=total, exact=is_exact)

    def _unranked_hits(self, candidates: Iterable[Candidate]) -> list[Hit]:
        """The hits of matches that were not ranked. Their score is half of the last score."""
        score = 0.0
        if self._order:
            score = self._ranking.scale.score(self._order[-1].score) / 2
        return [self._hit(candidate, score) for candidate in candidates]

    def _total(self) -> tuple[int, bool]:
        """How many messages are hits, with their copies, and whether that is exact or a minimum."""
        ranked = sum(1 + scored.copies for scored in self._ranking.candidates)
        if self._pool.is_exhausted and not self._is_partial:
            return ranked, True
        if self._interpretation.node is None:
            return ranked, False
        total, is_exact = self._pool.count()
        if self._interpretation.is_by_meaning:
            total += sum(1 + s.copies for s in self._ranking.candidates if not s.has_terms)
        if self._interpretation.is_by_meaning or self._is_partial:
            return max(total, ranked), False
        return total, is_exact

    # -- conversations ---

    def _page_of_conversations(self) -> Page:
        groups: dict[str, list[ScoredCandidate]] = {}
        for scored in self._order:
            groups.setdefault(scored.candidate.document, []).append(scored)
        hits = [self._conversation(g) for g in list(groups.values())[self._start : self._end]]
        ranked = len(groups)
        total, is_exact = self._pool.count_conversations(groups)
        if self._end > ranked and not self._pool.is_exhausted:
            beyond = list(islice(self._conversations_beyond_pool(groups), self._end - ranked))
            hits += self._unranked_hits(beyond[max(self._start - ranked, 0) :])
            total = max(total, ranked + len(beyond))
        return replace(self.empty_page(), hits=tuple(hits), total=total, exact=is_exact)

    def _conversation(self, messages: Sequence[ScoredCandidate]) -> Hit:
        """A conversation as a hit: its best message, with a few others."""
        first, *others = messages
        return replace(self.hit(first), also=tuple(map(self.hit, others[:_MORE_MESSAGES])))

    def _conversations_beyond_pool(self, groups: Iterable[str]) -> Iterator[Candidate]:
        """The first match of each conversation that has no ranked message."""
        documents = set(groups)
        for candidate in self._pool.all_matches_beyond():
            if candidate.document not in documents:
                documents.add(candidate.document)
                yield candidate

    # -- additions ---

    def _with_remark(self, page: Page) -> Page:
        """Add a remark if a query names a time and none of the best hits is from it."""
        query = self._interpretation.ranking_query
        is_single_word = len(query.text.split()) == 1  # "yesterday" may be a name
        if query.intent == IDENTIFIER or is_single_word or not query.windows:
            return page
        best = self._order[:_BEST_HITS]
        if any(scored.part("phrase") for scored in best):  # the time is part of what was typed
            return page
        times = [scored.candidate.created_at for scored in best]
        remark = period_remark(query.windows, query.now, times)
        return replace(page, note=" ".join(filter(None, (page.note, remark))))

    def _without_hits(self, page: Page) -> Page:
        """Add what is nearest in meaning; if there is nothing, which names are unknown."""
        nearest = [
            self._hit(candidate, cosine, arms=("vector",))
            for candidate, cosine in self._pool.nearest()
        ]
        if nearest:
            return replace(page, nearest=tuple(nearest))
        note = note_unknown_names(page.note, self._pool.scope.store, self._pool.scope.filter)
        return replace(page, note=note)
