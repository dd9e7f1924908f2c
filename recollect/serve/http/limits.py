"""How often one user may ask for one kind of thing, and how often a stranger may try."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

READ, SEARCH, WRITE, CHAT, IMPORT = "read", "search", "write", "chat", "import"
GROUPS = (READ, SEARCH, WRITE, CHAT, IMPORT)
CHATS_A_MINUTE = IMPORTS_A_MINUTE = 60
MOST_REMEMBERED = 10_000

Clock = Callable[[], float]


class Buckets:
    """Token buckets by key: `burst` at once, refilled evenly over a minute. Bounded: beyond `most` keys the one
    that was used least recently is forgotten."""

    def __init__(
        self,
        per_minute: float,
        burst: float,
        clock: Clock = time.monotonic,
        most: int = MOST_REMEMBERED,
    ):
        self._rate = per_minute / 60
        self._burst = burst
        self._clock = clock
        self._most = most
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, key: Hashable) -> float:
        """Take one; 0 where there was one, else the seconds until there is."""
        with self._lock:
            level = self._level(key)
            wait = 0.0 if level >= 1 else (1 - level) / self._rate
            self._levels[key] = (level if wait else level - 1, self._clock())
            self._levels.move_to_end(key)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)
            return wait

    def wait(self, key: Hashable) -> float:
        """How long until there is one; nothing is taken and nobody remembered."""
        with self._lock:
            level = self._level(key)
            return 0.0 if level >= 1 else (1 - level) / self._rate

    def _level(self, key: Hashable) -> float:
        level, then = self._levels.get(key, (self._burst, 0.0))
        return min(self._burst, level + max(0.0, self._clock() - then) * self._rate)


class Limiter:
    """The limits of users, by group of routes. With a rate of 0 there are none."""

    def __init__(
        self, per_minute: int, clock: Clock = time.monotonic, most: int = MOST_REMEMBERED
    ) -> None:
        rates = dict.fromkeys(GROUPS, per_minute)
        rates[CHAT] = min(per_minute, CHATS_A_MINUTE)
        rates[IMPORT] = min(per_minute, IMPORTS_A_MINUTE)
        self._buckets = (
            {g: Buckets(rate, rate, clock, most) for g, rate in rates.items()} if per_minute else {}
        )

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def take(self, who: Hashable, group: str) -> int:
        """Count a request; 0 where it may go on, else after how many seconds it may be tried again."""
        buckets = self._buckets.get(group)
        return math.ceil(buckets.take(who)) if buckets is not None else 0
