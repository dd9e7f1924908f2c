"""Fair shares of what clients can hold without doing anything: connections, and unfinished bodies.

A client that sends slowly costs the server a place but no work. Places are limited, in total and
for each holder (an address, or a user). If there are none left, the holder with the most places
loses the client that has waited longest, and the newcomer gets its place. So a thousand half-open
connections displace each other, and a client that sends its request at once always gets in.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class WaitingRoom(Generic[T]):
    """Waiting clients by holder. Not thread-safe: use it from the event loop only.

    Memory is bounded by the number of places: a holder without waiting clients is forgotten.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holders: dict[Hashable, OrderedDict[T, float]] = {}
        self._holder_of: dict[T, Hashable] = {}

    def __len__(self) -> int:
        return len(self._holder_of)

    def __contains__(self, client: T) -> bool:
        return client in self._holder_of

    def count(self, holder: Hashable) -> int:
        return len(self._holders.get(holder, ()))

    def enter(self, client: T, holder: Hashable) -> None:
        """A client begins to wait, or begins again."""
        self.leave(client)
        self._holders.setdefault(holder, OrderedDict())[client] = self._clock()
        self._holder_of[client] = holder

    def leave(self, client: T) -> None:
        holder = self._holder_of.pop(client, None)
        if holder is None:
            return
        clients = self._holders[holder]
        del clients[client]
        if not clients:
            del self._holders[holder]

    def longest_waiting(self, holder: Hashable, at_least: float = 0.0) -> T | None:
        """The client of a holder that has waited longest, if it has waited this many seconds."""
        for client, since in self._holders.get(holder, OrderedDict[T, float]()).items():
            if self._clock() - since >= at_least:
                return client
            return None
        return None

    def greediest(self) -> Hashable | None:
        """The holder with the most waiting clients."""
        if not self._holders:
            return None
        return max(self._holders, key=lambda holder: len(self._holders[holder]))

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
