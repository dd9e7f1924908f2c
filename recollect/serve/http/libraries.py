"""The open libraries of a server: one for each user who asks, opened once, and closed when others need the room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.errors import StoreUnavailable
from recollect.library import Library
from recollect.places import open
from recollect.settings import LIMITS


class _Shelf:
    """One user's place in the pool. Whoever comes first opens the library; the others wait for that."""

    __slots__ = ("borrowers", "library", "opening")

    def __init__(self) -> None:
        self.borrowers = 0
        self.library: Library | None = None
        self.opening = threading.Lock()


class Libraries:
    """At most `most` libraries stay open: beyond that the one that was borrowed least recently, and is not
    borrowed now, is closed. Safe to use from any thread."""

    def __init__(
        self,
        place: Path | str,
        most: int = LIMITS.open_libraries,
        opened: Callable[[Path | str, str], Library] = open,
    ) -> None:
        self._place = place
        self._most = most
        self._open = opened
        self._shelves: OrderedDict[str, _Shelf] = OrderedDict()
        self._lock = threading.Lock()
        self._closing: set[threading.Thread] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._shelves)

    @contextmanager
    def borrow(self, user: str) -> Iterator[Library]:
        """The user's library, made on first use. It may not be closed, nor kept."""
        shelf = self._reserve(user)
        try:
            with shelf.opening:
                if shelf.library is None:
                    shelf.library = self._open(self._place, user)
                library = shelf.library
            yield library
        finally:
            self._give_back(user, shelf)

    def close(self) -> None:
        """Close all of them. Whatever is still borrowed is closed when it is given back."""
        with self._lock:
            self._closed = True
            self._most = 0
            idle = self._idle()
            threads = list(self._closing)
        for library in idle:
            library.close()
        for thread in threads:
            thread.join()

    def _reserve(self, user: str) -> _Shelf:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The server is shutting down.")
            shelf = self._shelves.setdefault(user, _Shelf())
            self._shelves.move_to_end(user)
            shelf.borrowers += 1
            return shelf

    def _give_back(self, user: str, shelf: _Shelf) -> None:
        with self._lock:
            shelf.borrowers -= 1
            if shelf.library is None and not shelf.borrowers:
                self._shelves.pop(user, None)  # it could not be opened
            idle = self._idle()
        for library in idle:
            self._close_aside(library)

    def _idle(self) -> list[Library]:
        """Take from the pool what is too much in it, as far as nobody has it."""
        over = len(self._shelves) - self._most
        if over <= 0:
            return []
        users = [user for user, shelf in self._shelves.items() if not shelf.borrowers][:over]
        shelves = [self._shelves.pop(user) for user in users]
        return [shelf.library for shelf in shelves if shelf.library is not None]

    def _close_aside(self, library: Library) -> None:
        """Closing may have to wait for indexing; whoever gave a library back does not."""

        def work() -> None:
            try:
                library.close()
            finally:
                with self._lock:
                    self._closing.discard(thread)

        thread = threading.Thread(target=work, name="recollect-close")
        with self._lock:
            self._closing.add(thread)
        thread.start()
