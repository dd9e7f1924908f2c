"""The results of a search over all kinds, last changed first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recollect.search.candidates.pool import CandidatePool
from recollect.search.everything.entries import Entry
from recollect.search.everything.ranked_results import RankedResults
from recollect.search.everything.results import MOST_SORTED, Results
from recollect.search.ranking.scored import ScoredCandidate
from recollect.search.results.ranking import Ranking
from recollect.settings import LIMITS
from recollect.store.values import Candidate


class ResultsByTime(RankedResults):
    """Last changed first; results without a date come last. The ranking gives the scores."""

    def all_entries(self) -> Iterator[Entry]:
        ranking = {scored.candidate.key: scored for scored in self.ranking.candidates}
        timeline = self._timeline()
        for start in range(0, len(timeline), LIMITS.page_size):
            page = timeline[start : start + LIMITS.page_size]
            candidates = self._read(page)
            for position, (key, _) in enumerate(page, start):
                if key not in candidates:
                    continue
                if key in ranking:
                    yield self.ranked_entry(ranking[key])._replace(candidate=candidates[key])
                else:
                    yield self.unranked_entry(candidates[key], position)

    def total(self) -> tuple[int, bool]:
        return Results.total(self)

    def arrange(self, ranking: list[ScoredCandidate]) -> Ranking:
        return Ranking(self.interpretation, ranking)

    def _timeline(self) -> list[tuple[int, CandidatePool]]:
        """The keys of all matches with their pools, last changed first."""
        times: list[tuple[bool, float, int, CandidatePool]] = []
        for pool, keys in self._matches():
            for key, _, changed_at in pool.scope.store.change_times(keys):
                timestamp = 0.0
                if changed_at is not None:
                    timestamp = changed_at.timestamp()
                times.append((changed_at is None, -timestamp, -key, pool))
        times.sort(key=lambda each: each[:3])
        return [(-negative_key, pool) for _, _, negative_key, pool in times]

    def _matches(self) -> list[tuple[CandidatePool, list[int]]]:
        """Items that contain all words; if there are none, items that contain any of them."""
        full = [(pool, pool.text_arm.full_matches(MOST_SORTED)) for pool in self.pools]
        if any(keys for _, keys in full):
            return full
        return [(pool, pool.text_arm.matches(MOST_SORTED)) for pool in self.pools]

    def _read(self, page: Sequence[tuple[int, CandidatePool]]) -> dict[int, Candidate]:
        candidates: dict[int, Candidate] = {}
        for pool in self.pools:
            keys = [key for key, own_pool in page if own_pool is pool]
            candidates |= {candidate.key: candidate for candidate in pool.candidates(keys)}
        return candidates
