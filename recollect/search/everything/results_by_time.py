"""The results of a search over all kinds, last changed first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from recollect.language.queries.query_tree import Node
from recollect.model.kinds import CONVERSATION
from recollect.search.candidates.pool import CandidatePool
from recollect.search.everything.entries import Entry
from recollect.search.everything.ranked_results import RankedResults
from recollect.search.ranking.scored import ScoredCandidate
from recollect.search.results.ranking import Ranking
from recollect.settings import LIMITS
from recollect.store.values import Candidate, TimedMatches


class _Timeline(NamedTuple):
    """The keys of all matches, last changed first, and the number of the pool of each."""

    keys: Sequence[int]
    pools: Sequence[int]

    def page(self, start: int, size: int) -> _Timeline:
        return _Timeline(self.keys[start : start + size], self.pools[start : start + size])


class ResultsByTime(RankedResults):
    """Last changed first; results without a date come last. The ranking gives the scores."""

    def all_entries(self) -> Iterator[Entry]:
        ranking = {scored.candidate.key: scored for scored in self.ranking.candidates}
        for start in range(0, len(self._timeline.keys), LIMITS.page_size):
            page = self._timeline.page(start, LIMITS.page_size)
            candidates = self._read(page)
            for position, key in enumerate(page.keys, start):
                if key not in candidates:
                    continue
                if key in ranking:
                    yield self.ranked_entry(ranking[key])._replace(candidate=candidates[key])
                else:
                    yield self.unranked_entry(candidates[key], position)

    def total(self) -> tuple[int, bool]:
        counts = map(_count, self.pools, self._matches)
        return sum(counts), not self.is_partial

    def arrange(self, ranking: list[ScoredCandidate]) -> Ranking:
        return Ranking(self.interpretation, ranking)

    @cached_property
    def _timeline(self) -> _Timeline:
        # A server must start without numpy, which takes long to import.
        import numpy as np

        keys = np.concatenate([matches.keys for matches in self._matches])
        times = np.concatenate([matches.times for matches in self._matches])
        sizes = [len(matches.keys) for matches in self._matches]
        pools = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-keys, -times))
        return _Timeline(keys[order].tolist(), pools[order].tolist())

    @cached_property
    def _matches(self) -> list[TimedMatches]:
        """The matches in each pool: items that contain all words; if there are none, items that
        contain any of them; if there are none, what was found by meaning."""
        for node in self._nodes():
            matches = [pool.text_arm.timed_matches(node) for pool in self.pools]
            if any(len(each.keys) for each in matches):
                return matches
        return [self._neighbours(pool) for pool in self.pools]

    def _nodes(self) -> list[Node]:
        interpretation = self.interpretation
        if interpretation.node is None:
            return []
        if interpretation.is_plain and interpretation.all_terms != interpretation.node:
            return [interpretation.all_terms, interpretation.node]
        return [interpretation.node]

    def _neighbours(self, pool: CandidatePool) -> TimedMatches:
        keys = [scored.candidate.key for scored in self.ranking.candidates]
        own_keys = [key for key in keys if key in pool.keys]
        return TimedMatches.of(pool.scope.store.change_times(own_keys))

    def _read(self, page: _Timeline) -> dict[int, Candidate]:
        candidates: dict[int, Candidate] = {}
        for number, pool in enumerate(self.pools):
            keys = [key for key, own in zip(*page, strict=True) if own == number]
            candidates |= {candidate.key: candidate for candidate in pool.candidates(keys)}
        return candidates


def _count(pool: CandidatePool, matches: TimedMatches) -> int:
    """The number of results: messages of conversations, and other items as a whole."""
    if pool.scope.filter.kinds == (CONVERSATION,):
        return len(matches.keys)
    return len(set(matches.documents.tolist()))
