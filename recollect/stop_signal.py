"""Wait for Ctrl+C or SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress

TYPE_CHECKING = False  # typing is not imported here: the stdio server must start quickly
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A signal interrupts the wait only if it reaches the main thread while that is waiting. If another
# thread gets it, or it comes just before, its handler runs when the wait is over.
_LONGEST_WAIT = 2.0


class StopSignal:
    """Set by a signal, or by another thread.

    A handler runs in the main thread, between any two steps of what that thread does. If the thread
    was about to wait for a `threading.Event`, it could hold the lock that the handler needs, and
    would wait for itself. A plain lock that is held until the signal arrives has no such moment.
    """

    def __init__(self, on_stop: Callable[[], None] | None = None) -> None:
        self._on_stop = on_stop
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()
        self._handlers = {number: signal.signal(number, self._handle) for number in SIGNALS}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.set()
        if self._on_stop is not None:
            self._on_stop()

    def set(self) -> None:
        self._is_set = True
        with suppress(RuntimeError):  # it was set before
            self._lock.release()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float | None = None) -> bool:
        """Wait, at most so long. Returns whether it is set."""
        remaining = _LONGEST_WAIT
        if seconds is not None:
            end = time.monotonic() + seconds
            remaining = seconds
        while not self._is_set and remaining > 0:
            self._lock.acquire(timeout=min(remaining, _LONGEST_WAIT))
            if seconds is not None:
                remaining = end - time.monotonic()
        return self._is_set

    def restore(self) -> None:
        """Handle signals as before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
