"""The results of a search over all kinds, last changed first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from recollect.language.queries.query_tree import Node
from recollect.model.kinds import CONVERSATION
from recollect.search.candidates.arms import TextArm
from recollect.search.candidates.pool import CandidatePool
from recollect.search.everything.entries import Entry
from recollect.search.everything.ranked_results import RankedResults
from recollect.search.everything.results import distinct
from recollect.search.everything.timeline import Timeline, TimelinePart
from recollect.search.passages import ScoredCandidate
from recollect.search.results.ranking import Ranking
from recollect.settings import LIMITS
from recollect.store.values import Candidate, TimedMatches

_CANDIDATES_AT_ONCE = 100


class ResultsByTime(RankedResults):
    """Last changed first; results without a date come last. The ranking gives the scores."""

    def all_entries(self) -> Iterator[Entry]:
        return self._entries(self._timeline.candidates())

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """Earlier results are skipped without reading them."""
        start = min(offset, self._timeline.size)
        return start, distinct(self._entries(self._timeline.candidates(start)))

    def entries_of(self, kind: str) -> Iterator[Entry]:
        return distinct(self._entries(self._timeline.candidates(kind=kind)))

    def _entries(self, candidates: Iterable[tuple[int, Candidate]]) -> Iterator[Entry]:
        ranking: dict[str | int, ScoredCandidate] = {}
        for scored in self.ranking.candidates:
            ranking.setdefault(_name(scored.candidate), scored)
        candidates = iter(candidates)
        while some := list(islice(candidates, _CANDIDATES_AT_ONCE)):
            unranked = [c for _, c in some if _name(c) not in ranking]
            best = {_name(c): c for pool in self.pools for c in self._best_passages(pool, unranked)}
            for position, candidate in some:
                ranked = ranking.get(_name(candidate))
                if ranked is None:
                    yield self.unranked_entry(best.get(_name(candidate), candidate), position)
                else:
                    yield self.ranked_entry(ranked)

    def _best_passages(
        self, pool: CandidatePool, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """The best match in each of the items in the pool."""
        kinds = pool.scope.filter.kinds if _is_by_item(pool) else ()
        documents = {candidate.document for candidate in candidates if candidate.kind in kinds}
        if not documents:
            return []
        filter = replace(pool.scope.filter, conversations=tuple(documents))
        arm = TextArm(self.interpretation, pool.scope._replace(filter=filter))
        keys = arm.matches(LIMITS.page_offset)
        change_times = pool.scope.store.change_times(keys)
        document_of = {key: document for key, document, _ in change_times}
        best_keys = {document_of[key]: key for key in reversed(keys)}
        return pool.candidates(list(best_keys.values()))

    def total(self) -> int:
        return self._timeline.total

    def arrange(self, ranking: list[ScoredCandidate]) -> Ranking:
        return Ranking(self.interpretation, ranking)

    @cached_property
    def _timeline(self) -> Timeline:
        """Items that contain all words; if there are none, items that contain any of them; if
        there are none, what was found by meaning."""
        for node in self._nodes():
            parts = [_timeline_part(pool, pool.text_arm.timed_matches(node)) for pool in self.pools]
            if any(part.total for part in parts):
                return Timeline(parts)
        return Timeline([_timeline_part(pool, self._ranked_matches(pool)) for pool in self.pools])

    def _nodes(self) -> list[Node]:
        interpretation = self.interpretation
        if interpretation.node is None:
            return []
        if interpretation.is_plain and interpretation.all_terms != interpretation.node:
            return [interpretation.all_terms, interpretation.node]
        return [interpretation.node]

    def _ranked_matches(self, pool: CandidatePool) -> TimedMatches:
        keys = [scored.candidate.key for scored in self.ranking.candidates]
        own_keys = [key for key in keys if key in pool.keys]
        return TimedMatches.of(pool.scope.store.change_times(own_keys))


def _timeline_part(pool: CandidatePool, matches: TimedMatches) -> TimelinePart:
    if _is_by_item(pool):
        matches = matches.one_of_each_document()
    return TimelinePart(*pool.scope, matches, len(matches.keys))


def _is_by_item(pool: CandidatePool) -> bool:
    return pool.scope.filter.kinds != (CONVERSATION,)


def _name(candidate: Candidate) -> str | int:
    """Messages are results of their own. Any other item is one, however many passages match."""
    if candidate.kind == CONVERSATION:
        return candidate.key
    return candidate.document
