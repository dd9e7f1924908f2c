"""Wait for Ctrl+C or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType


class StopSignal:
    """Set by a signal.

    A handler runs in the main thread, between any two steps of what that thread does. If the thread
    was about to wait for a `threading.Event`, it could hold the lock that the handler needs, and
    would wait for itself. A SimpleQueue has no such lock.
    """

    def __init__(self, on_stop: Callable[[], None] | None = None) -> None:
        self._on_stop = on_stop
        self._is_set = False
        self._queue: SimpleQueue[None] = SimpleQueue()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._is_set = True
        self._queue.put(None)
        if self._on_stop is not None:
            self._on_stop()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait at most so long. Returns whether it is set."""
        if not self._is_set:
            with suppress(Empty):
                self._queue.get(timeout=seconds)
        return self._is_set
