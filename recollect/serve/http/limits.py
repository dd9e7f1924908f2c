"""Limits of each server process: how often clients may ask, and what they may hold meanwhile.

Rates are token buckets per user and group of routes, and per address for requests without a valid
credential and for failed logins. Waiting rooms share what a client can hold without doing anything:
connections, and unfinished bodies.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

READ, SEARCH, WRITE, CHAT, IMPORT = "read", "search", "write", "chat", "import"
ANONYMOUS = "anonymous"
"""Requests without a valid credential, by address."""
STATIC = "static"
"""Style sheets, scripts and icons, by address. They come from memory, a page has about twenty of
them, and many users can share an address."""
CHATS_PER_MINUTE = IMPORTS_PER_MINUTE = 60
ANONYMOUS_PER_MINUTE = 600
STATIC_PER_MINUTE = 12_000
MAX_BUCKETS = 10_000

Clock = Callable[[], float]
T = TypeVar("T", bound=Hashable)


class Buckets:
    """Token buckets by key. Each allows a burst of a minute and refills evenly.

    Memory is bounded: beyond MAX_BUCKETS keys, the least recently used bucket is dropped.
    """

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
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
            if len(self._levels) > MAX_BUCKETS:
                self._levels.popitem(last=False)
            return wait

    def wait(self, key: Hashable) -> float:
        """The seconds until a token is available. Takes nothing and creates no bucket."""
        with self._lock:
            return self._wait(self._level(key))

    def _wait(self, level: float) -> float:
        return max(0.0, (1 - level) * 60 / self._per_minute)

    def _level(self, key: Hashable) -> float:
        level, updated = self._levels.get(key, (self._per_minute, 0.0))
        refill = max(0.0, self._clock() - updated) * self._per_minute / 60
        return min(self._per_minute, level + refill)


class Limiter:
    """The rate limits of users by group of routes. A rate of 0 disables them."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        rates = {
            READ: per_minute,
            SEARCH: per_minute,
            WRITE: per_minute,
            CHAT: min(per_minute, CHATS_PER_MINUTE),
            IMPORT: min(per_minute, IMPORTS_PER_MINUTE),
            ANONYMOUS: ANONYMOUS_PER_MINUTE,
            STATIC: STATIC_PER_MINUTE,
        }
        self._buckets = {group: Buckets(rate, clock) for group, rate in rates.items()}
        self._is_off = per_minute == 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def take(self, key: Hashable, group: str) -> int:
        """Count a request. Returns 0 if it is allowed, else the seconds to wait."""
        return 0 if self._is_off else math.ceil(self._buckets[group].take(key))


class WaitingRoom(Generic[T]):
    """Waiting clients by holder (an address, or a user). Use it from the event loop only.

    A client that sends slowly costs the server a place but no work. Places are limited, in total
    and for each holder. If there are none left, the holder with the most places loses the client
    that has waited longest, and the newcomer gets its place. So a thousand half-open connections
    displace each other, and a client that sends its request at once always gets in.

    Memory is bounded by the number of places: a holder without waiting clients is forgotten.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[T, tuple[Hashable, float]] = {}
        """The holder of each client, and since when it waits; who has waited longest is first."""
        self._counts: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def count(self, holder: Hashable) -> int:
        return self._counts[holder]

    def enter(self, client: T, holder: Hashable) -> None:
        """A client begins to wait, or begins again."""
        self.leave(client)
        self._waiting[client] = (holder, self._clock())
        self._counts[holder] += 1

    def leave(self, client: T) -> None:
        if client in self._waiting:
            holder, _ = self._waiting.pop(client)
            self._counts[holder] -= 1
            if not self._counts[holder]:
                del self._counts[holder]

    def longest_waiting(self, holder: Hashable, at_least: float = 0.0) -> T | None:
        """The client of a holder that has waited longest, if it has waited this many seconds."""
        for client, (other, since) in self._waiting.items():
            if other == holder:
                return client if self._clock() - since >= at_least else None
        return None

    def greediest(self) -> Hashable | None:
        """The holder with the most waiting clients."""
        return max(self._counts, key=self._counts.__getitem__, default=None)

    def victim(self, holder: Hashable, each: int, total: int, at_least: float = 0.0) -> T | None:
        """Who must give way: a client of this holder if it has more than its share, else one of the
        greediest holder if there are too many in total, else nobody."""
        if self.count(holder) > each:
            client = self.longest_waiting(holder, at_least)
            if client is not None:
                return client
        if len(self) > total:
            return self.longest_waiting(self.greediest())
        return None
