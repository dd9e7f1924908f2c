"""Processes that write to one library take turns in the order in which they ask.

SQLite lets one process write at a time, but it has no queue: each of the others asks again and
again, and one that is unlucky waits for seconds while the rest overtake it. A lock on a file next
to the database has a queue. It only decides who is next: SQLite's own lock protects the data, also
from programs that know nothing of turns.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recollect.store.sqlite.file_lock import lock_file, open_lock_file, unlock_file


class Turns:
    """The turns of this process. One thread at a time may use it."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".turn.lock")
        self._file: int | None = None

    @contextmanager
    def take(self, patience: float) -> Iterator[None]:
        """Wait for the turn, at most `patience` seconds, and give it up after the block.

        Without a lock file, or when another process keeps its turn for too long, the block runs
        all the same, and waits for SQLite's lock like everybody else.
        """
        has_turn = self._wait(patience)
        try:
            yield
        finally:
            if has_turn and self._file is not None:
                unlock_file(self._file)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _wait(self, patience: float) -> bool:
        # Windows can only ask again and again.
        if sys.platform == "win32" or not self._open():
            return False
        assert self._file is not None
        with suppress(OSError):
            lock_file(self._file, wait=False)
            return True
        if _Waiter(self._file).wait(patience):
            return True
        self._file = None  # the waiter closes it
        return False

    def _open(self) -> bool:
        if self._file is None:
            with suppress(OSError):
                self._file = open_lock_file(self._path)
        return self._file is not None


class _Waiter:
    """Waits for a lock in a thread, because the system's call has no time limit."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._has_lock = threading.Event()
        threading.Thread(target=self._run, name="recollect-turn", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Whether the lock was obtained in this time. If not, the thread closes the file."""
        if self._has_lock.wait(seconds):
            return True
        with self._lock:
            self._is_abandoned = not self._has_lock.is_set()
            return not self._is_abandoned

    def _run(self) -> None:
        with suppress(OSError):
            lock_file(self._file, wait=True)
        with self._lock:
            self._has_lock.set()
            if self._is_abandoned:
                os.close(self._file)
