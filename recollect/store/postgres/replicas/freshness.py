"""How old the state of a replica is, and whether it has what this process wrote."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

_MAX_POSITIONS = 1_000
_MANY_OWNERS = 10_000
# A replica reads its position after its snapshot was taken, so it is a little older than it says.
_MARGIN_SECONDS = 30.0


class LogPositions:
    """Where the log of the primary ended at some times in the past. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._positions: deque[tuple[float, int]] = deque(maxlen=_MAX_POSITIONS)

    def add(self, at: float, position: int) -> None:
        """Everything that was committed before the time `at` is before the position."""
        with self._lock:
            if self._positions and position < self._positions[-1][1]:
                # Another server became the primary, and its log was shorter.
                self._positions.clear()
            self._positions.append((at, position))

    def clear(self) -> None:
        with self._lock:
            self._positions.clear()

    def seconds_behind(self, position: int) -> float | None:
        """How old a replica with this position is at most. None if that is not known."""
        with self._lock:
            for at, primary_position in reversed(self._positions):
                if primary_position <= position:
                    return self._clock() - at
        return None

    def history_seconds(self) -> float:
        """How far back the positions reach."""
        with self._lock:
            if not self._positions:
                return 0.0
            return self._clock() - self._positions[0][0]


class _Write(NamedTuple):
    token: int
    at: float


class OwnWrites:
    """The last commits of this process, by owner. Thread-safe.

    They are forgotten when every replica that may be used has them.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds` is how old the state of a replica may be."""
        self._seconds = seconds + _MARGIN_SECONDS
        self._clock = clock
        self._lock = threading.Lock()
        self._writes: dict[int, _Write] = {}
        self._next_cleaning = _MANY_OWNERS

    def begin_commit(self, owner: int, token: int) -> None:
        """Call this with the lock of the owner, so that the last call has the last token."""
        with self._lock:
            self._writes[owner] = _Write(token, self._clock())
            if len(self._writes) > self._next_cleaning:
                self._forget_old()

    def end_commit(self, owner: int, token: int) -> None:
        """The commit succeeded. Its time counts, because a commit can take long."""
        with self._lock:
            # A later commit may have begun. Whoever sees that one sees this one as well.
            latest = self._writes.get(owner, _Write(token, 0.0))
            self._writes[owner] = _Write(latest.token, self._clock())

    def token(self, owner: int) -> int | None:
        """The token that a replica must have. None if every replica has what was written."""
        with self._lock:
            write = self._writes.get(owner)
            if write is None or self._is_old(write):
                return None
            return write.token

    def _is_old(self, write: _Write) -> bool:
        return self._clock() - write.at > self._seconds

    def _forget_old(self) -> None:
        self._writes = {
            owner: write for owner, write in self._writes.items() if not self._is_old(write)
        }
        self._next_cleaning = max(_MANY_OWNERS, 2 * len(self._writes))
