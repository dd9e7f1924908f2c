"""Make commits durable without keeping other writers waiting.

SQLite would flush its write-ahead log inside the transaction. Then nobody can write most of the
time, because somebody is waiting for the disk. So SQLite only writes the log, and the thread that
committed flushes it afterwards, before the commit is acknowledged. A flush covers the whole log,
whoever wrote it. So a commit never becomes durable without the commits that it builds on.

Others can read a commit before it is durable. Nobody has been told that it is stored until then.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from recollect.store.sqlite.connections.connection import Connection

_SYNC_AT_CHECKPOINT = 1
# Without the times of the file, where the system can do that.
_flush = getattr(os, "fdatasync", os.fsync)


class LogFile:
    """The write-ahead log of a connection that writes.

    SQLite has no locks on this file, so unlike the database it may be opened and closed. It is the
    same file as long as the connection is open. It stays open, because the system reports an error
    of the disk to those who had the file open when it happened.
    """

    def __init__(self, db: Connection, path: Path) -> None:
        """Take over the flushing from a connection that is not in a transaction."""
        self._lock = threading.Lock()
        self._commits = 0
        self._durable_commits = 0
        self._handle: int | None = None
        self._error: OSError | None = None
        if db.pragma("journal_mode") != "wal":
            return  # then SQLite flushes
        db.get("select count(*) from sqlite_schema")  # creates the log
        log = path.with_name(path.name + "-wal")
        self._handle = os.open(log, os.O_RDWR | getattr(os, "O_BINARY", 0))
        db.pragma("synchronous", _SYNC_AT_CHECKPOINT)

    def count_commit(self) -> int:
        """The number of a commit that was just made. Commits take turns."""
        self._commits += 1
        return self._commits

    def flush(self, commit: int) -> None:
        """Return once a commit is durable. One flush is enough for all that wait. Raises OSError.

        After an error, the next flush would succeed without writing anything. So nothing that was
        committed before the error, and was not durable, is acknowledged.
        """
        with self._lock:
            if self._durable_commits >= commit:
                return
            if self._error is not None:
                raise self._error
            self._flush()

    def _flush(self) -> None:
        commits = self._commits
        try:
            if self._handle is not None:
                _flush(self._handle)
        except OSError as error:
            self._error = error
            raise
        self._durable_commits = commits

    def close(self) -> None:
        """Flush what others still wait for, and close the file."""
        with self._lock:
            if self._handle is None:
                return
            if self._durable_commits < self._commits and self._error is None:
                with suppress(OSError):  # those who wait will raise it
                    self._flush()
            os.close(self._handle)
            self._handle = None
