"""The time that a search may take."""

from __future__ import annotations

import time
from collections.abc import Callable

from recollect.settings import LIMITS

NOTE = (
    "The search was stopped because it took too long, so there may be more and better results. "
    "Use rarer words or a narrower filter."
)
NOTHING_IN_TIME = (
    "The search took too long and was stopped before it found anything. "
    "Use rarer words or a narrower filter."
)


class Deadline:
    """When a search stops and returns what it has, marked as partial.

    It counts the CPU time of this thread: a busy computer is slower, but its answers are the same.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._end = clock() + LIMITS.search_cpu_seconds
        self.was_missed = False
        """Whether the search left something out."""
        self.stopped_steps: set[str] = set()
        """The kinds of steps that the store has stopped. They are not tried again."""

    def is_over(self) -> bool:
        """Whether to leave out the rest. Call it only if there is something to leave out."""
        if self._clock() > self._end:
            self.was_missed = True
        return self.was_missed

    def add_timeout(self, step: str) -> None:
        """Note that the store has stopped a step of this kind, so its result is missing."""
        self.stopped_steps.add(step)
        self.was_missed = True
