"""Time limits on what requests wait for. As asyncio.timeout, which sets a timer for each wait: that is a tenth of what
a small request costs. Waits of one kind may all last equally long, so they end in the order in which they began, and
one timer does for all of them.

Used from the event loop only.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Patience:
    """`with patience.limit(seconds):` raises TimeoutError once that time is over. The same seconds each time."""

    def __init__(self) -> None:
        self._limits: dict[_Limit, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the timer is set, while there is one."""

    def __len__(self) -> int:
        return len(self._limits)

    def limit(self, seconds: float) -> _Limit:
        return _Limit(self, seconds)

    def begin(self, limit: _Limit, loop: asyncio.AbstractEventLoop) -> None:
        self._limits[limit] = None
        if self._loop is not loop:
            self._loop = loop
            loop.call_at(limit.ends, self._look, loop)

    def end(self, limit: _Limit) -> None:
        self._limits.pop(limit, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell those whose time is over, and look again when that of the next is."""
        if loop is not self._loop:
            return
        while self._limits:
            first = next(iter(self._limits))
            if first.ends > loop.time():
                loop.call_at(first.ends, self._look, loop)
                return
            del self._limits[first]
            first.tell()
        self._loop = None


class _Limit:
    """One wait, by one task."""

    __slots__ = ("_before", "_over", "_patience", "_seconds", "_task", "ends")

    def __init__(self, patience: Patience, seconds: float) -> None:
        self._patience = patience
        self._seconds = seconds
        self._over = False

    def tell(self) -> None:
        self._over = True
        self._task.cancel()

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._task = task
        self._before = task.cancelling()
        self.ends = loop.time() + self._seconds
        self._patience.begin(self, loop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patience.end(self)
        # Unless somebody else cancels the task, too: then that is what happens.
        if self._over and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
