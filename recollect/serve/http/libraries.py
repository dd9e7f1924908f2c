"""A pool of open libraries, one per user.

A library is opened on first use. When too many are open, the least recently used idle one is
closed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from recollect.errors import StoreUnavailable
from recollect.library import Library
from recollect.places import open
from recollect.settings import LIMITS

T = TypeVar("T")


class _Slot:
    """One user's place in the pool. The first borrower opens the library; others wait for it."""

    def __init__(self) -> None:
        self.borrowers = 0
        self.library: Library | None = None
        self.lock = threading.Lock()


class Libraries:
    """Keeps at most `max_open` libraries open, as far as they are idle. Thread-safe."""

    def __init__(
        self,
        place: Path | str,
        max_open: int = LIMITS.open_libraries,
        open_library: Callable[[Path | str, str], Library] = open,
    ) -> None:
        self._place = place
        self._max_open = max_open
        self._open = open_library
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self._closers: set[threading.Thread] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._slots)

    def map(self, work: Callable[[Library], T]) -> list[T]:
        """The value of `work` for each open library. They stay open meanwhile."""
        with self._lock:
            slots = {user: slot for user, slot in self._slots.items() if slot.library is not None}
            for slot in slots.values():
                slot.borrowers += 1
        try:
            return [work(slot.library) for slot in slots.values() if slot.library is not None]
        finally:
            for user, slot in slots.items():
                self._release(user, slot)

    @contextmanager
    def borrow(self, user: str) -> Iterator[Library]:
        """The user's library, created on first use. Do not close it or keep it after the block."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The server is shutting down.")
            slot = self._slots.setdefault(user, _Slot())
            self._slots.move_to_end(user)
            slot.borrowers += 1
        try:
            with slot.lock:
                if slot.library is None:
                    slot.library = self._open(self._place, user)
            yield slot.library
        finally:
            self._release(user, slot)

    def close(self) -> None:
        """Close all libraries. Borrowed ones are closed when they are returned."""
        with self._lock:
            self._closed = True
            self._max_open = 0
            idle = self._evict()
            closers = list(self._closers)
        for library in idle:
            library.close()
        for closer in closers:
            closer.join()

    def _release(self, user: str, slot: _Slot) -> None:
        with self._lock:
            slot.borrowers -= 1
            if slot.library is None and not slot.borrowers:
                self._slots.pop(user, None)  # opening failed
            evicted = self._evict()
            # Closing may wait for the indexer, and the request that returned the library must not.
            if not evicted:
                return
            threads = [threading.Thread(target=library.close) for library in evicted]
            self._closers = {other for other in self._closers if other.is_alive()}
            self._closers.update(threads)
            for thread in threads:
                thread.start()

    def _evict(self) -> list[Library]:
        """Remove idle libraries from the pool until it fits. The caller closes them."""
        excess = len(self._slots) - self._max_open
        if excess <= 0:
            return []
        idle_users = [user for user, slot in self._slots.items() if not slot.borrowers]
        slots = [self._slots.pop(user) for user in idle_users[:excess]]
        return [slot.library for slot in slots if slot.library is not None]
