"""Signals that a process has changed something: a user's library, or what the servers share.

A signal may come late or not at all, so whoever waits for one also reads the version of the library
(or looks for jobs) from time to time: often while there are no signals, rarely while there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recollect.store.shared.database import Tables

OFTEN_SECONDS = 0.5
RARELY_SECONDS = 10.0
_CANCEL_SECONDS = 0.25


class ChangeSignals:
    """The signals of one installation. SQLite has none, so these never come."""

    are_live: bool = False
    """Whether signals arrive at the moment."""

    def subscribe(self, user: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call something in another thread when a library may have changed.

        It is also called when signals begin or cease to arrive. Returns what ends it.
        """
        return lambda: None

    def subscribe_to_tables(self, tables: Tables, callback: Callable[[], None]) -> None:
        """Like `subscribe`, for `SharedDatabase.announce`. It ends with `close`."""

    @contextmanager
    def waiter(self, user: str) -> Iterator[ChangeWaiter]:
        """For a thread that waits for changes of a library."""
        changed = threading.Event()
        unsubscribe = self.subscribe(user, changed.set)
        try:
            yield ChangeWaiter(self, changed)
        finally:
            unsubscribe()

    def close(self) -> None:
        pass


class ChangeWaiter:
    def __init__(self, signals: ChangeSignals, changed: threading.Event) -> None:
        self._signals = signals
        self._changed = changed

    def wait(self, seconds: float, often: float, is_cancelled: Callable[[], bool]) -> None:
        """Wait until the library should be read again: after a signal, or after some time.

        At most `seconds`, and `often` while there are no signals.
        """
        pause = RARELY_SECONDS if self._signals.are_live else often
        end = time.monotonic() + min(seconds, pause)
        while not is_cancelled():
            remaining = end - time.monotonic()
            if remaining <= 0 or self._changed.wait(min(remaining, _CANCEL_SECONDS)):
                break
        self._changed.clear()
