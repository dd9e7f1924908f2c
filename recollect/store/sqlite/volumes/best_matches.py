"""The best matches of all volumes."""

from __future__ import annotations

import math
from collections.abc import Callable

from recollect.store.sqlite.volumes.volume import Match, Volume

_SHARES = 2
_MORE_MATCHES = 16


class BestMatches:
    """The best matches of all volumes.

    Usually, each volume has its share of them. So a volume is first searched for twice its share
    and a few more, and searched again only if it may have still more. This finds the same matches
    as searching all volumes for `limit` matches, with less work if there are many volumes.
    """

    def __init__(self, limit: int, passages: int) -> None:
        """`passages`: about how many passages all volumes have."""
        self._limit = limit
        self._passages = max(passages, 1)
        self._matches: dict[Volume, list[Match]] = {}
        self._incomplete: set[Volume] = set()
        """Volumes that have more matches than were searched for."""

    def find(self, volume: Volume, search: Callable[[int], list[Match]]) -> list[Match]:
        """The best matches of a volume. `search` returns as many as it is called with."""
        if volume not in self._matches:
            share = self._limit * volume.size / self._passages
            size = min(self._limit, math.ceil(_SHARES * share) + _MORE_MATCHES)
            self._matches[volume] = search(size)
            if len(self._matches[volume]) == size < self._limit:
                self._incomplete.add(volume)
        elif volume in self._incomplete:
            self._matches[volume] = search(self._limit)
            self._incomplete.discard(volume)
        return self._matches[volume]

    def is_complete(self) -> bool:
        """Whether no volume must be searched again."""
        if not self._incomplete:
            return True
        scores = [score for matches in self._matches.values() for _, score in matches]
        if len(scores) >= self._limit:
            lowest_score = sorted(scores, reverse=True)[self._limit - 1]
            self._incomplete = {
                volume
                for volume in self._incomplete
                if self._matches[volume][-1][1] >= lowest_score
            }
        return not self._incomplete
