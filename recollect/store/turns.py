"""Do long work in short transactions, so that others can write in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS = 0.02
"""How long the work of one transaction should take, in elapsed time: others wait for it."""
LONGEST_PAUSE = 0.1
_LARGEST_GROWTH = 4


class Turn:
    """One transaction of a longer work."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How much to do."""
        self.seconds = 0.0
        """How long that took, without waiting for others."""

    def run(self, work: Callable[[int], T]) -> T:
        """Call `work` with the limit. Call this inside of the transaction."""
        start = time.monotonic()
        try:
            return work(self.limit)
        finally:
            self.seconds = time.monotonic() - start

    @property
    def is_long(self) -> bool:
        return self.seconds > TURN_SECONDS

    def next_limit(self) -> int:
        growth = TURN_SECONDS / max(self.seconds, TURN_SECONDS / _LARGEST_GROWTH)
        return max(1, int(self.limit * growth))


def turns(limit: int) -> Iterator[Turn]:
    """One turn after the other, until the caller stops. The first one has this limit.

    Each next limit follows from how long the last turn took. Between two turns, others get as much
    time as the last one took.
    """
    while True:
        turn = Turn(limit)
        yield turn
        limit = turn.next_limit()
        time.sleep(min(turn.seconds, LONGEST_PAUSE))
