"""Rate limits: token buckets per user and group of routes, and per address for requests without a
valid credential and for failed logins."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

READ, SEARCH, WRITE, CHAT, IMPORT = "read", "search", "write", "chat", "import"
ANONYMOUS = "anonymous"
"""Requests without a valid credential, by address. The others are by user."""
GROUPS = (READ, SEARCH, WRITE, CHAT, IMPORT, ANONYMOUS)
CHATS_PER_MINUTE = IMPORTS_PER_MINUTE = 60
ANONYMOUS_PER_MINUTE = 600
MAX_BUCKETS = 10_000

Clock = Callable[[], float]


class Buckets:
    """Token buckets by key. Each allows a burst and refills evenly over a minute.

    Memory is bounded: beyond `max_buckets` keys, the least recently used bucket is dropped.
    """

    def __init__(
        self,
        per_minute: float,
        burst: float,
        clock: Clock = time.monotonic,
        max_buckets: int = MAX_BUCKETS,
    ):
        self._rate = per_minute / 60
        self._burst = burst
        self._clock = clock
        self._max_buckets = max_buckets
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, key: Hashable) -> float:
        """Take a token. Returns 0 on success, else the seconds until one is available."""
        with self._lock:
            level = self._level(key)
            wait = self._wait(level)
            if not wait:
                level -= 1
            self._levels[key] = (level, self._clock())
            self._levels.move_to_end(key)
            if len(self._levels) > self._max_buckets:
                self._levels.popitem(last=False)
            return wait

    def wait(self, key: Hashable) -> float:
        """The seconds until a token is available. Takes nothing and creates no bucket."""
        with self._lock:
            return self._wait(self._level(key))

    def _wait(self, level: float) -> float:
        if level >= 1:
            return 0.0
        return (1 - level) / self._rate

    def _level(self, key: Hashable) -> float:
        level, updated = self._levels.get(key, (self._burst, 0.0))
        return min(self._burst, level + max(0.0, self._clock() - updated) * self._rate)


class Limiter:
    """The rate limits of users by group of routes. A rate of 0 disables them."""

    def __init__(
        self, per_minute: int, clock: Clock = time.monotonic, max_buckets: int = MAX_BUCKETS
    ) -> None:
        self._buckets: dict[str, Buckets] = {}
        if not per_minute:
            return
        rates = dict.fromkeys(GROUPS, per_minute)
        rates[CHAT] = min(per_minute, CHATS_PER_MINUTE)
        rates[IMPORT] = min(per_minute, IMPORTS_PER_MINUTE)
        rates[ANONYMOUS] = ANONYMOUS_PER_MINUTE
        for group, rate in rates.items():
            self._buckets[group] = Buckets(rate, rate, clock, max_buckets)

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def take(self, key: Hashable, group: str) -> int:
        """Count a request. Returns 0 if it is allowed, else the seconds to wait."""
        buckets = self._buckets.get(group)
        if buckets is None:
            return 0
        return math.ceil(buckets.take(key))
