"""Reading from one SQLite file, by many threads.

Reads use a small pool of connections, each with a snapshot and a time limit. Inside `snapshot`, the
reads of a thread share one connection and one transaction, so a search sees one state of the
library, and what it has read once need not be read again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from recollect.errors import DAMAGE_ADVICE, DamagedLibrary, RecollectError, StoreBusy
from recollect.priority import searching
from recollect.settings import LIMITS
from recollect.store.sqlite.connection import (
    Connection,
    connect,
    connect_read_only,
    file_stamp,
)
from recollect.store.sqlite.database_errors import is_disk_full, translate_error

# SQLite calls back after this many instructions of its virtual machine.
_STEPS_PER_TIME_CHECK = 2_000


class FileChanged(StoreBusy):
    """A file that is read without locks was changed meanwhile. The next read opens it again."""


class _Snapshot(threading.local):
    """What the reads of a thread share."""

    depth = 0
    """How many blocks `with snapshot()` the thread is in."""
    db: Connection | None = None
    """A connection in a transaction, between two reads."""


class Readers:
    """The connections that read one database file."""

    def __init__(self, path: Path, read_only: str = "") -> None:
        self.path = path
        self.read_only = read_only
        """Why nothing may be written; empty if that is allowed."""
        self._idle_readers: list[Connection] = []
        self._snapshot = _Snapshot()
        self._version_lock = threading.Lock()
        self._version_reader: Connection | None = None
        self._is_closed = False

    def close(self) -> None:
        with self._version_lock:
            self._is_closed = True
            while self._idle_readers:
                self._idle_readers.pop().close()
            if self._version_reader is not None:
                self._version_reader.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise RecollectError("This library is closed.")

    def open_reader(self) -> Connection:
        """A new connection to read from. The caller closes it."""
        self._require_open()
        if self.read_only:
            return connect_read_only(self.path)
        try:
            return connect(self.path)
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            # A full disk has no space for the memory that connections share.
            if not self.path.exists() or not is_disk_full(self.path):
                raise
            return connect_read_only(self.path)

    def version(self) -> object:
        """A value that changes with every commit.

        SQLite counts the commits of all other connections, so this needs one that never writes.
        """
        with self._version_lock:
            try:
                if self._is_outdated(self._version_reader):
                    self._version_reader = self.open_reader()
                db = self._version_reader
                assert db is not None
                return db.unlocked_stamp, db.pragma("data_version")
            except apsw.Error as error:
                raise translate_error(error, self.path) from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside this block, the reads of this thread share a transaction."""
        self._snapshot.depth += 1
        try:
            with searching():
                yield
        finally:
            self._snapshot.depth -= 1
            if not self._snapshot.depth:
                self.release_snapshot()

    def release_snapshot(self) -> None:
        """End the transaction. The next read of this thread begins another one."""
        db, self._snapshot.db = self._snapshot.db, None
        if db is not None:
            self._return_reader(db)

    @contextmanager
    def read(self, seconds: float | None = None) -> Iterator[Connection]:
        """A connection with a snapshot to read from. Raises SearchTimeout after `seconds`."""
        # A read inside of a read gets its own connection, because it has its own time limit.
        if self._is_outdated(self._snapshot.db):
            self.release_snapshot()
        db, self._snapshot.db = self._snapshot.db, None
        try:
            if db is None:
                db = self._take_reader()
                db.begin_snapshot()
            if seconds is not None:
                db.set_progress_handler(time_limit(seconds), _STEPS_PER_TIME_CHECK)
            yield db
            if self._is_outdated(db):
                raise FileChanged("The library was changed while it was read. Try again.")
            if self._snapshot.depth and self._snapshot.db is None:
                db.set_progress_handler(None)
                self._snapshot.db, db = db, None
        except apsw.Error as error:
            raise translate_error(error, self.path) from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise DamagedLibrary(f"A text in {self.path} is damaged. {DAMAGE_ADVICE}") from error
        finally:
            if db is not None:
                self._return_reader(db)

    def _take_reader(self) -> Connection:
        self._require_open()
        while True:
            try:
                db = self._idle_readers.pop()
            except IndexError:
                return self.open_reader()
            if not self._is_outdated(db):
                return db
            db.close(True)

    def _return_reader(self, db: Connection) -> None:
        db.set_progress_handler(None)
        db.end_snapshot()
        if self._is_closed:
            db.close(True)
        else:
            self._idle_readers.append(db)

    def _is_outdated(self, db: Connection | None) -> bool:
        """Whether a connection is missing, or reads without locks from files that have changed."""
        if db is None:
            return True
        return db.unlocked_stamp is not None and db.unlocked_stamp != file_stamp(self.path)


def time_limit(seconds: float) -> Callable[[], bool]:
    """A function that says whether a search must stop.

    It counts CPU time, so that a search on a busy machine does as much as on an idle one.
    """
    end = time.thread_time() + seconds
    last_end = time.monotonic() + LIMITS.search_wall_seconds

    def is_over() -> bool:
        return time.thread_time() > end or time.monotonic() > last_end

    return is_over
