"""The matches of a search over all kinds, last changed first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, TimedMatches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TimelinePart(NamedTuple):
    """All matches of one kind, or of several kinds with the same filter."""

    store: Store
    filter: Filter
    matches: TimedMatches
    total: int
    """The number of results. Several matches in one item may be one result."""
    is_partial: bool = False
    """Whether there was no time to find all of them."""


class _Place(NamedTuple):
    """A match in the list."""

    key: int
    part: int
    """The number of its part."""
    position: int
    """How many matches come before it."""


class Timeline:
    """Matches of all kinds, last changed first; those without a date come last."""

    def __init__(self, parts: Sequence[TimelinePart]) -> None:
        self._parts = parts
        self.total = sum(part.total for part in parts)

    def candidates(
        self, start: int = 0, kind: str | None = None
    ) -> Iterator[tuple[int, Candidate]]:
        """The matches in order from a place on, each with its position among all matches.

        With `kind`, only those of this kind. They are read only as far as the caller asks for them.
        """
        columns = self._columns
        if kind is not None:
            import numpy as np

            numbers = [n for n, part in enumerate(self._parts) if kind in part.filter.kinds]
            is_of_kind = np.isin(columns[1], numbers)
            columns = [column[is_of_kind] for column in columns]
        for first in range(start, len(columns[0]), LIMITS.page_size):
            some = [column[first : first + LIMITS.page_size].tolist() for column in columns]
            page = list(map(_Place, *some))
            candidates: dict[int, Candidate] = {}
            for number, part in enumerate(self._parts):
                keys = [place.key for place in page if place.part == number]
                candidates |= {c.key: c for c in part.store.candidates(keys, part.filter)}
            for place in page:
                if place.key in candidates:
                    yield place.position, candidates[place.key]

    @property
    def size(self) -> int:
        """The number of matches in the list."""
        return len(self._columns[0])

    @cached_property
    def _columns(self) -> list[NDArray[np.int64]]:
        """The keys of all matches in order, their parts and positions."""
        # A server must start without numpy, which takes long to import.
        import numpy as np

        keys = np.concatenate([part.matches.keys for part in self._parts])
        times = np.concatenate([part.matches.times for part in self._parts])
        sizes = [len(part.matches.keys) for part in self._parts]
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-keys, -times))
        return [keys[order], numbers[order], np.arange(len(order))]
