"""Rate limits: token buckets per user and group of routes, and per address for requests without a
valid credential and for failed logins."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

from recollect.errors import RecollectError
from recollect.store.shared.limits import LimitStore

log = logging.getLogger(__name__)

READ, SEARCH, WRITE, CHAT, IMPORT = "read", "search", "write", "chat", "import"
ANONYMOUS = "anonymous"
"""Requests without a valid credential, by address."""
STATIC = "static"
"""Style sheets, scripts and icons, by address. They come from memory, a page has about twenty of
them, and many users can share an address."""
GROUPS = (READ, SEARCH, WRITE, CHAT, IMPORT, ANONYMOUS, STATIC)
CHATS_PER_MINUTE = IMPORTS_PER_MINUTE = 60
ANONYMOUS_PER_MINUTE = 600
STATIC_PER_MINUTE = 12_000
MAX_BUCKETS = 10_000
SHARED_GROUPS = (CHAT, IMPORT)
"""Groups whose limits all servers of an installation share. Other requests are counted by each."""
_EXCHANGE_SECONDS = 1.0
_IDLE_EXCHANGES = 10

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
        self._spent: Counter[Hashable] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._levels)

    def count_for_others(self) -> None:
        """Count the tokens that are taken, for `exchange`."""
        self._spent = Counter()

    def exchange(self, name: str, store: LimitStore) -> bool:
        """Report what was spent here, and adopt the levels of all servers together.

        Returns False if nothing was spent.
        """
        with self._lock:
            spent, self._spent = self._spent, Counter()
        if not spent:
            return False
        keys = {f"{name} {key!r}": key for key in spent}
        tokens = {text: spent[key] for text, key in keys.items()}
        levels = store.spend(tokens, self._rate, self._burst)
        with self._lock:
            for text, level in levels.items():
                key = keys[text]
                since = self._spent or Counter[Hashable]()
                self._levels[key] = (level - since[key], self._clock())
        return True

    def report(self, name: str, key: Hashable, store: LimitStore) -> None:
        """Report a token that was taken here, and adopt the level of all servers together.

        Waits for the database, unlike `exchange`, so that other servers know it at once.
        """
        text = f"{name} {key!r}"
        shared_level = store.spend({text: 1}, self._rate, self._burst)[text]
        with self._lock:
            level = min(self._level(key), shared_level)
            self._levels[key] = (level, self._clock())

    def take(self, key: Hashable) -> float:
        """Take a token. Returns 0 on success, else the seconds until one is available."""
        with self._lock:
            level = self._level(key)
            wait = self._wait(level)
            if not wait:
                level -= 1
                if self._spent is not None:
                    self._spent[key] += 1
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
        self,
        per_minute: int,
        clock: Clock = time.monotonic,
        store: LimitStore | None = None,
    ) -> None:
        self._buckets: dict[str, Buckets] = {}
        self._store = store
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.Lock()
        self._closing = threading.Event()
        if not per_minute:
            return
        rates = dict.fromkeys(GROUPS, per_minute)
        rates[CHAT] = min(per_minute, CHATS_PER_MINUTE)
        rates[IMPORT] = min(per_minute, IMPORTS_PER_MINUTE)
        rates[ANONYMOUS] = ANONYMOUS_PER_MINUTE
        rates[STATIC] = STATIC_PER_MINUTE
        for group, rate in rates.items():
            self._buckets[group] = Buckets(rate, rate, clock)
            if store is not None and group in SHARED_GROUPS:
                self._buckets[group].count_for_others()

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def take(self, key: Hashable, group: str) -> int:
        """Count a request. Returns 0 if it is allowed, else the seconds to wait."""
        buckets = self._buckets.get(group)
        if buckets is None:
            return 0
        if self._store is not None and group in SHARED_GROUPS:
            self._start_exchange()
        return math.ceil(buckets.take(key))

    def close(self) -> None:
        self._closing.set()

    def _start_exchange(self) -> None:
        with self._thread_lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._exchange_regularly, name="recollect-limits", daemon=True
                )
                self._thread.start()

    def _exchange_regularly(self) -> None:
        """Exchange the counts with the other servers until there is nothing to count."""
        idle = 0
        while idle < _IDLE_EXCHANGES and not self._closing.wait(_EXCHANGE_SECONDS):
            idle += 1
            if self.exchange():
                idle = 0
        with self._thread_lock:
            self._thread = None

    def exchange(self) -> bool:
        """Report to the other servers what was counted here. Returns False if it was nothing."""
        if self._store is None:
            return False
        has_spent = False
        try:
            for group in SHARED_GROUPS:
                if group in self._buckets:
                    has_spent |= self._buckets[group].exchange(group, self._store)
        except RecollectError as error:
            # Until the database can be used again, each server counts by itself.
            log.info("Rate limits are not shared at the moment: %s", type(error).__name__)
        return has_spent
