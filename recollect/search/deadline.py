"""The time that a search may take."""

from __future__ import annotations

import time

from recollect.settings import LIMITS

NOTE = (
    "The search was stopped because it took too long, so there may be more and better results. "
    "Use rarer words or a narrower filter."
)


class Deadline:
    """When a search stops and returns what it has, marked as partial.

    It counts the CPU time of this thread: a busy computer is slower, but its answers are the same.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + LIMITS.search_cpu_seconds
        self.was_missed = False
        """Whether the search left something out."""

    def is_over(self) -> bool:
        """Whether to leave out the rest. Call it only if there is something to leave out."""
        if time.thread_time() > self._end:
            self.was_missed = True
        return self.was_missed
