"""Wait for Ctrl+C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

TYPE_CHECKING = False  # typing is not imported here: the stdio server must start quickly
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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

    def wait(self, seconds: float = -1) -> bool:
        """Wait, at most so long. Returns whether it is set."""
        if not self._is_set:
            self._lock.acquire(timeout=seconds)
        return self._is_set

    def restore(self) -> None:
        """Handle signals as before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
