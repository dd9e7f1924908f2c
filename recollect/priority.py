"""Searches come before background work in the same process.

Python runs one thread at a time, and a search gives up its turn at every read and every operation
on large arrays. So with a busy background thread, a question that takes 25 ms takes 170. Background
work therefore waits between two steps while other threads search.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# While searches never end, background work still gets a quarter of its time.
_WAITING_PER_WORKING = 3.0
_LONGEST_WAIT = 1.0  # seconds

_condition = threading.Condition()
_searches: dict[int, int] = {}
"""The threads that search, and how many searches of each are nested."""


@contextmanager
def searching() -> Iterator[None]:
    """Let background work of other threads wait until the end of the block."""
    thread = threading.get_ident()
    with _condition:
        _searches[thread] = _searches.get(thread, 0) + 1
    try:
        yield
    finally:
        with _condition:
            _searches[thread] -= 1
            if not _searches[thread]:
                del _searches[thread]
                _condition.notify_all()


def after_searches(stop: Callable[[], bool]) -> Callable[[], bool]:
    """The same function, except that it first waits while other threads search.

    Background work calls it between two steps, to learn whether it should stop.
    """
    patience = _LONGEST_WAIT
    resumed_at = time.monotonic()

    def stop_after_searches() -> bool:
        nonlocal patience, resumed_at
        paused_at = time.monotonic()
        patience += _WAITING_PER_WORKING * (paused_at - resumed_at)
        patience = min(patience, _LONGEST_WAIT)
        wait_for_searches(patience)
        resumed_at = time.monotonic()
        patience = max(patience - (resumed_at - paused_at), 0.0)
        return stop()

    return stop_after_searches


def wait_for_searches(seconds: float) -> None:
    """Wait until no other thread searches, for at most this long."""
    thread = threading.get_ident()
    with _condition:
        _condition.wait_for(lambda: not _searches.keys() - {thread}, seconds)
