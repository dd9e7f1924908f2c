"""Reading from and writing to one SQLite file, by many threads.

Writes take turns on one connection. The thread whose turn it is commits everything that is waiting
in one transaction (group commit), and those who have committed share a flush of the disk, outside
of the transaction. `readers.py` has the connections that read.

SQLite would flush its write-ahead log inside the transaction. Then nobody can write most of the
time, because somebody is waiting for the disk. So SQLite only writes the log, and the thread that
committed flushes it afterwards, before the commit is acknowledged. A flush covers the whole log,
whoever wrote it. So a commit never becomes durable without the commits that it builds on.

Others can read a commit before it is durable. Nobody has been told that it is stored until then.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from recollect.errors import ReadOnlyLibrary, StoreBusy
from recollect.store.sql.transfer import closed_error, closure
from recollect.store.sqlite.connection import Connection, busy_handler, connect
from recollect.store.sqlite.database_errors import (
    READ_ONLY,
    translate_error,
    translate_flush_error,
    translate_os_error,
)
from recollect.store.sqlite.encryption import is_encrypted
from recollect.store.sqlite.free_space import clear_free_space
from recollect.store.sqlite.readers import Readers

T = TypeVar("T")

# Bounds the time that the other threads wait for one commit.
_MAX_JOBS_PER_COMMIT = 256
# SQLite's own default is 1,000 pages of 4,096 bytes.
_PAGES_PER_CHECKPOINT = 1_000
# From this size on, the log starts over at the next moment without readers.
_MAX_LOG_PAGES = 8_000
# Seconds to wait for such a moment. Nobody can write in the meantime.
_RESTART_PATIENCE = 0.1
# After work of this length, in seconds, the next transaction of this process starts later.
_LONG_TRANSACTION = 0.02
# Then the other processes, which try every 5 ms, come first.
_PAUSE_AFTER_LONG = 0.01
# Seconds after which a thread must let another one run.
_NORMAL_TURN = sys.getswitchinterval()
_SHORT_TURN = 0.0002


# -- the connections ---


class _Job(Generic[T]):
    """Work that waits for a transaction, and its result."""

    __slots__ = ("commit", "error", "is_finished", "value", "work")

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.value: T | None = None
        self.error: BaseException | None = None
        self.is_finished = False
        self.commit: tuple[LogFile, int] | None = None
        """The number of its commit, in the log that has to be flushed."""

    def finish(self, error: BaseException | None = None) -> None:
        self.error = self.error or error
        self.is_finished = True


class Connections(Readers):
    """The connection that writes and the connections that read one database file."""

    def __init__(self, path: Path, read_only: str = "") -> None:
        super().__init__(path, read_only)
        self.is_mover = False
        """Whether this may write to a library that is closed."""
        self._writer: Connection | None = None
        self._log: LogFile | None = None
        self._has_flush_failed = False
        self._write_lock = threading.Lock()
        self._waiting_jobs: deque[_Job[Any]] = deque()
        self._next_turn = 0.0
        """When the next transaction may start, if the last one was long."""
        self._log_pages = 0
        self._copied_pages = 0
        """The length of the log at the last checkpoint."""
        self._checkpoint_lock = threading.Lock()

    def close(self) -> None:
        with self._checkpoint_lock, self._write_lock:
            super().close()
            self._close_writer()

    # -- writing ---

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and return its value once it is durable.

        Several threads may share a commit. If the work of one of them raises an error, only its own
        changes are rolled back.
        """
        self.release_snapshot()  # what this thread reads afterwards includes its changes
        job: _Job[T] = _Job(work)
        self._waiting_jobs.append(job)
        with self._write_lock:
            # Another thread may have committed this job while it waited for the lock.
            while not job.is_finished:
                count = min(len(self._waiting_jobs), _MAX_JOBS_PER_COMMIT)
                self._commit([self._waiting_jobs.popleft() for _ in range(count)])
        # Outside of the lock, so that others can commit while this waits for the disk.
        self._make_durable(job)
        self._checkpoint_if_due()
        if job.error is not None:
            raise job.error
        return job.value  # type: ignore[return-value]

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            db, log = self._open_writer()
            self._give_way()
            with short_thread_turns():
                db.execute("begin immediate")
                self._require_writable(db)
                start = time.monotonic()
                if len(jobs) == 1:
                    # Nobody else's changes are rolled back, so it needs no savepoint.
                    jobs[0].value = jobs[0].work(db)
                else:
                    for job in jobs:
                        self._run(db, job)
                seconds = time.monotonic() - start
                db.execute("commit")
            number = log.count_commit()
            for job in jobs:
                job.commit = (log, number)
            if seconds >= _LONG_TRANSACTION:
                self._next_turn = time.monotonic() + _PAUSE_AFTER_LONG
        except BaseException as error:  # whatever happened, every waiting thread gets an answer
            self._abort(error)
            failure = self._explain(error)
            for job in jobs:
                job.finish(failure)
            if not isinstance(error, Exception):
                raise
        else:
            for job in jobs:
                job.finish()

    def _make_durable(self, job: _Job[Any]) -> None:
        if job.commit is None or job.error is not None:
            return
        log, number = job.commit
        try:
            log.flush(number)
        except OSError as error:
            self._has_flush_failed = True
            raise translate_flush_error(error) from error

    def _require_writable(self, db: Connection) -> None:
        reason = closure(db)
        if reason is not None and not self.is_mover:
            raise closed_error(self.path, reason)

    def _give_way(self) -> None:
        """Let other processes write after a long transaction of this one.

        Those that wait sleep between two attempts. A process with one long transaction after the
        other would begin the next one while they sleep, every time.
        """
        pause = self._next_turn - time.monotonic()
        if pause > 0:
            time.sleep(pause)

    def _run(self, db: Connection, job: _Job[Any]) -> None:
        """Run one job of a transaction. Its error concerns only the thread that waits for it."""
        db.execute("savepoint job")
        try:
            job.value = job.work(db)
        except Exception as error:  # any error of a job goes to the thread that waits
            # On a full disk, SQLite rolls back the whole transaction, and all jobs fail.
            if not db.in_transaction:
                raise
            db.execute("rollback to job")
            job.error = self._explain(error)
        db.execute("release job")

    def _explain(self, error: BaseException) -> BaseException:
        """An error of the database as one that says what to do. Others stay as they are."""
        if not isinstance(error, apsw.Error):
            return error
        explanation = translate_error(error, self.path)
        explanation.__cause__ = error
        return explanation

    def _open_writer(self) -> tuple[Connection, LogFile]:
        self._require_open()
        if self.read_only:
            raise ReadOnlyLibrary(READ_ONLY.format(reason=self.read_only))
        if self._has_flush_failed:
            self._close_writer()
            self._rescue_log()
        if self._writer is None or self._log is None:
            db = connect(self.path)
            try:
                self._log = LogFile(db, self.path)
            except BaseException as error:  # nobody else would close the connection
                db.close(True)
                if isinstance(error, OSError):
                    raise translate_os_error(error) from error
                raise
            # This also ends SQLite's own checkpoints, for which the writer would have to wait.
            db.set_wal_hook(self._count_log_pages)
            self._writer = db
        return self._writer, self._log

    def _rescue_log(self) -> None:
        """Copy the whole log into the database after the disk has failed to flush it.

        The system does not try again to write that part of the log, and would not report it again.
        """
        with closing(connect(self.path)) as db:
            ((is_busy, pages, copied_pages),) = db.rows("pragma wal_checkpoint(full)")
        if is_busy or copied_pages < pages:
            raise StoreBusy("The disk has failed to store the last changes. Try again.")
        self._has_flush_failed = False

    def _count_log_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        if pages < self._copied_pages:  # the log has started over
            self._copied_pages = 0
        return apsw.SQLITE_OK

    def _checkpoint_if_due(self) -> None:
        """Copy the log into the database from time to time, so that it does not grow.

        A thread does it, unless writers are faster than the thread.
        """
        if not self._has_long_log():
            return
        if self._log_pages - self._copied_pages >= _MAX_LOG_PAGES:
            self._checkpoint()
        elif not self._checkpoint_lock.locked():
            threading.Thread(target=self._checkpoint, name="recollect-checkpoint").start()

    def _checkpoint(self) -> None:
        with self._checkpoint_lock:
            if self._is_closed or not self._has_long_log():
                return
            self._copied_pages = self._log_pages
            # The next pages are counted anyway, so it does no harm if this fails.
            with suppress(apsw.Error), closing(connect(self.path)) as db:
                ((_, pages, copied_pages),) = db.rows("pragma wal_checkpoint(noop)")
                # Another process may have done it. Each checkpoint flushes the database to disk,
                # and commits wait for the disk.
                if pages - copied_pages >= _PAGES_PER_CHECKPOINT:
                    db.rows("pragma wal_checkpoint(passive)")
                if pages >= _MAX_LOG_PAGES:
                    # Readers that never pause all at once would keep the old pages in use, and the
                    # log would grow with every commit.
                    db.set_busy_handler(busy_handler(_RESTART_PATIENCE))
                    db.rows("pragma wal_checkpoint(restart)")

    def _copy_log(self) -> None:
        """Copy a long log into the database as far as possible, while others write."""
        if self._is_closed or not self._has_long_log():
            return
        with self._checkpoint_lock, suppress(apsw.Error), closing(connect(self.path)) as db:
            db.rows("pragma wal_checkpoint(passive)")

    def _has_long_log(self) -> bool:
        """Whether a checkpoint is worth its time."""
        return self._log_pages - self._copied_pages >= _PAGES_PER_CHECKPOINT

    def _abort(self, error: BaseException) -> None:
        """Roll back. After a disk error, the connection is not used again."""
        if self._writer is None:
            return
        if self._writer.in_transaction:
            try:
                self._writer.execute("rollback")
            except apsw.Error:
                self._close_writer()
        if isinstance(error, (apsw.IOError, apsw.CorruptError, apsw.FullError)):
            self._close_writer()

    def _close_writer(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._writer is not None:
            self._writer.close(True)
            self._writer = None

    def truncate_log(self, patience: float = 0.0) -> bool:
        """Copy the write-ahead log into the database and truncate it.

        Returns False if another program reads an older snapshot for longer than `patience`, in
        seconds. Nobody can write in the meantime, so most of the log is copied before.
        """
        self._copy_log()
        with self._checkpoint_lock, self._write_lock:
            db, _ = self._open_writer()
            db.set_busy_handler(busy_handler(patience))
            try:
                ((is_busy, _, _),) = db.rows("pragma wal_checkpoint(truncate)")
            except (apsw.BusyError, apsw.LockedError):
                return False
            except apsw.Error as error:
                raise translate_error(error, self.path) from error
            finally:
                db.set_busy_handler(busy_handler())
            return not is_busy

    def clear_free_space(self, touch: Callable[[Connection], None], patience: float) -> bool:
        """Remove copies of rows that SQLite left in unused space. Nobody can write meanwhile.

        `touch` changes the database, so that all connections drop the pages that they have in
        memory, instead of writing them with the copies. Returns False if another program is
        writing, or reads an older snapshot.
        """
        with self._checkpoint_lock, self._write_lock, closing(connect(self.path)) as db:
            db.set_busy_handler(busy_handler(patience))
            try:
                if is_encrypted(self.path):  # its pages can only be written as a whole
                    db.execute("vacuum")
                    return True
                db.execute("begin immediate")
                with closing(connect(self.path)) as other:
                    ((_, pages, copied_pages),) = other.rows("pragma wal_checkpoint(passive)")
                if copied_pages < pages:
                    return False
                clear_free_space(self.path)
                touch(db)
                db.execute("commit")
            except (apsw.BusyError, apsw.LockedError):
                return False
            except apsw.Error as error:
                raise translate_error(error, self.path) from error
            return True


# -- time ---

_transactions = 0
_transactions_lock = threading.Lock()


@contextmanager
def short_thread_turns() -> Iterator[None]:
    """Let the threads of this process take shorter turns while one of them is in a transaction.

    Every statement gives up Python's lock. If other threads are searching, the writer would wait
    for 5 ms or more after each statement, and all other writers with it.
    """
    change_transactions(1)
    try:
        yield
    finally:
        change_transactions(-1)


def change_transactions(change: int) -> None:
    global _transactions
    with _transactions_lock:
        _transactions += change
        if _transactions:
            sys.setswitchinterval(_SHORT_TURN)
        else:
            sys.setswitchinterval(_NORMAL_TURN)


# -- the log ---


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
