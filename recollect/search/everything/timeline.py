"""The matches of a search over all kinds, last changed first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, TimedMatches


class TimelinePart(NamedTuple):
    """All matches of one kind, or of several kinds with the same filter."""

    store: Store
    filter: Filter
    matches: TimedMatches
    total: int
    """The number of results. Several matches in one item may be one result."""
    is_partial: bool = False
    """Whether there was no time to find all of them."""


def count_results(matches: TimedMatches, *, by_item: bool) -> int:
    """The number of results, if each match is one, or if each item is."""
    if by_item:
        return len(set(matches.documents.tolist()))
    return len(matches.keys)


class Timeline:
    """Matches of all kinds, last changed first; those without a date come last."""

    def __init__(self, parts: Sequence[TimelinePart]) -> None:
        self._parts = parts
        self.total = sum(part.total for part in parts)

    def candidates(self) -> Iterator[Candidate]:
        """The matches in order. They are read only as far as the caller asks for them."""
        places = self._places
        for start in range(0, len(places), LIMITS.page_size):
            page = places[start : start + LIMITS.page_size]
            candidates: dict[int, Candidate] = {}
            for number, part in enumerate(self._parts):
                keys = [key for key, own_number in page if own_number == number]
                candidates |= {c.key: c for c in part.store.candidates(keys, part.filter)}
            yield from (candidates[key] for key, _ in page if key in candidates)

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """The key of each match, and the number of its part."""
        # A server must start without numpy, which takes long to import.
        import numpy as np

        keys = np.concatenate([part.matches.keys for part in self._parts])
        times = np.concatenate([part.matches.times for part in self._parts])
        sizes = [len(part.matches.keys) for part in self._parts]
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-keys, -times))
        return list(zip(keys[order].tolist(), numbers[order].tolist(), strict=True))
