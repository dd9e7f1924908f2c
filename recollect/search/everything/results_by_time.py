"""The results of a search over all kinds, last changed first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from recollect.language.queries.query_tree import Node
from recollect.model.kinds import CONVERSATION
from recollect.search.candidates.pool import CandidatePool
from recollect.search.everything.entries import Entry
from recollect.search.everything.ranked_results import RankedResults
from recollect.search.everything.results import distinct
from recollect.search.everything.timeline import Timeline, TimelinePart, count_results
from recollect.search.ranking.scored import ScoredCandidate
from recollect.search.results.ranking import Ranking
from recollect.store.values import Candidate, TimedMatches


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
        ranking = {scored.candidate.key: scored for scored in self.ranking.candidates}
        for position, candidate in candidates:
            if candidate.key in ranking:
                scored = ranking[candidate.key]
                yield self.ranked_entry(scored)._replace(candidate=candidate)
            else:
                yield self.unranked_entry(candidate, position)

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
    store, filter = pool.scope
    by_item = filter.kinds != (CONVERSATION,)
    total = count_results(matches, by_item=by_item)
    return TimelinePart(store, filter, matches, total, by_item)
