"""Connections to one SQLite file.

Writes take turns on one connection. The thread whose turn it is commits everything that is waiting
in one transaction (group commit), because a durable commit costs a disk flush no matter how much it
contains. Reads use a small pool of connections, each with its own snapshot and a time limit.

Only SQLite may open the file. A plain open() and close() would drop SQLite's locks on it.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from recollect.errors import (
    DAMAGE_ADVICE,
    DamagedLibrary,
    ReadOnlyLibrary,
    RecollectError,
    SearchTimeout,
    StorageFull,
    StoreBusy,
)
from recollect.language.text import fold, indexable, storable
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql.encoding import index_columns
from recollect.store.sqlite.compression import STORED_COLUMNS, Codec
from recollect.store.sqlite.encryption import DataKey, apply_key, data_key, is_encrypted
from recollect.store.sqlite.filters import document_conditions, passage_conditions
from recollect.store.sqlite.turns import Turns

T = TypeVar("T")

_PRAGMAS = """
pragma synchronous = full;
pragma foreign_keys = on;
pragma secure_delete = on;
pragma trusted_schema = off;
pragma temp_store = memory;
pragma cache_size = -4096;
pragma journal_size_limit = 67108864;
"""
_INSERT_PASSAGE = (
    f"insert into passage ({', '.join(STORED_COLUMNS)}) "
    f"values ({', '.join('?' * len(STORED_COLUMNS))})"
)
_UPDATE_PASSAGE = (
    f"update passage set {', '.join(f'{name} = ?' for name in STORED_COLUMNS[4:])} where key = ?"
)
# Bounds the time that the other threads wait for one commit.
_MAX_JOBS_PER_COMMIT = 256
# SQLite calls back after so many instructions of its virtual machine.
_STEPS_PER_TIME_CHECK = 2_000
# Seconds. A process that keeps its turn for longer is overtaken, if it does not write.
_TURN_PATIENCE = 10.0
# SQLite's own default is 1,000 pages of 4,096 bytes.
_PAGES_PER_CHECKPOINT = 1_000
# From this size on, the log starts over at the next moment without readers.
_MAX_LOG_PAGES = 8_000
# Seconds to wait for such a moment. Nobody can write in the meantime.
_RESTART_PATIENCE = 0.1
# Seconds after which a thread must let another one run.
_NORMAL_TURN = sys.getswitchinterval()
_SHORT_TURN = 0.0002
# Each value may list many thousand keys.
_MAX_CACHED_VALUES = 16


class Connection(apsw.Connection):
    """A connection with the methods that the shared SQL needs (see store.sql.database)."""

    _cache: tuple[int, dict[Hashable, Any]] = (0, {})
    codec: Codec
    unlocked_stamp: FileStamp | None = None
    """If this connection reads without locks: the files as they were when it was opened."""

    def memoize(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that is valid until anybody writes. Only for connections that never write."""
        version: int = self.pragma("data_version")
        if self._cache[0] != version or len(self._cache[1]) >= _MAX_CACHED_VALUES:
            self._cache = (version, {})
        values = self._cache[1]
        if key not in values:
            values[key] = compute()
        value: T = values[key]
        return value

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.execute(sql, values).fetchall()

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self.execute(sql, values).get

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.execute(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self.executemany(sql, values)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.executemany(
            f"insert into {table} ({', '.join(columns)}) values ({', '.join('?' * len(columns))})",
            rows,
        )

    def insert_passages(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.executemany(_INSERT_PASSAGE, self.codec.rows(rows))

    def update_passage(self, key: int, row: tuple[Any, ...]) -> None:
        self.execute(_UPDATE_PASSAGE, (*self.codec.row((key, None, None, None, *row))[4:], key))

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        return "select value from json_each(?)", json.dumps(values)

    def starts_with(self, column: str, prefix: str) -> tuple[str, list[str]]:
        return f"{column} >= ? and {column} < ?", [prefix, prefix + "\U0010ffff"]

    def mark_outdated(self, passages: Sequence[int]) -> None:
        pass  # done by triggers

    def delete_derived(self, passages: Sequence[int]) -> None:
        pass  # done by triggers

    def add_counts(self, counts: Mapping[tuple[str, str], int]) -> None:
        self.executemany(
            "insert into tally (name, value, count) values (?, ?, ?) "
            "on conflict (name, value) do update set count = count + excluded.count",
            [(name, value, count) for (name, value), count in counts.items()],
        )

    def derived_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return index_columns(row)

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        where, values = document_conditions(filter)
        if search:
            where += " and (contains(d.title, ?) or contains(d.id, ?))"
            values += [fold(search)] * 2
        if filter.of_passages:
            passage_where, passage_values = passage_conditions(filter)
            where += (
                " and exists (select 1 from passage p "
                f"where p.document = d.key and {passage_where})"
            )
            values += passage_values
        return where, values


def connect(path: Path) -> Connection:
    """Open a connection with the settings and SQL functions that the store needs."""
    return connect_with(data_key(path), path)


def connect_with(key: DataKey | None, path: Path) -> Connection:
    """Like `connect`, with this key instead of the one that its home has."""
    # Statements may name other files by address, with the key that encrypts them.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    db = Connection(str(path.absolute()), flags=flags)
    try:
        apply_key(db, key)
        db.set_busy_handler(_busy_handler())
        _retry_while_busy(
            lambda: db.execute("pragma page_size = 8192; pragma journal_mode = wal").fetchall()
        )
        _configure(db)
    except BaseException:
        db.close()
        raise
    return db


def connect_read_only(path: Path) -> Connection:
    """Open a connection that creates and changes no file, also on read-only media.

    In a write-ahead log, readers share a memory file (-shm). If there is none, no other program has
    the database open, and it is read without locks: with the log if there is one, and without one
    as an immutable file. Such a connection must not be used once the files have changed.
    """
    log = path.with_name(path.name + "-wal")
    memory = path.with_name(path.name + "-shm")
    if log.exists() and memory.exists():
        with suppress(apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
            return _open_read_only(path, "")
    stamp = file_stamp(path)
    if log.exists() and log.stat().st_size:
        db = _open_read_only(path, "&vfs=unix-none")
    else:
        db = _open_read_only(path, "&immutable=1")
    db.unlocked_stamp = stamp
    return db


def _open_read_only(path: Path, option: str) -> Connection:
    key = data_key(path)
    if key is not None:
        option = option.replace("vfs=", "vfs=multipleciphers-")
    uri = f"{path.absolute().as_uri()}?mode=ro{option}"
    db = Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        apply_key(db, key)
        db.set_busy_handler(_busy_handler())
        if "vfs" in option:
            # Then the index of the log is in memory instead of a file.
            db.execute("pragma locking_mode = exclusive").fetchall()
        _configure(db)
        db.execute("select count(*) from sqlite_schema").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def _configure(db: Connection) -> None:
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # Some of these return a row. Statements after it run only when it has been fetched.
    db.execute(_PRAGMAS).fetchall()
    db.codec = Codec()
    # Generated columns may only use functions that are declared innocuous.
    for name, function, arguments in (
        ("content_of", db.codec.content, 1),
        ("metadata_of", db.codec.metadata, -1),  # two in an older schema, now three
    ):
        db.create_scalar_function(
            name, function, arguments, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
        )
    db.create_scalar_function("contains", _contains, 2, deterministic=True)
    db.create_scalar_function("folded", _fold_bytes, 1, deterministic=True)
    db.create_scalar_function("titled", _is_titled, 2, deterministic=True)


FileStamp = tuple[tuple[int, int, int], ...]


def file_stamp(path: Path) -> FileStamp:
    """The inodes, sizes and times of a database and its log, by which changes are detected."""
    stamp = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        if status.st_size:
            stamp.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(stamp)


# -- SQL functions ---


def _contains(*values: Any) -> bool:
    text, folded = values
    return text is not None and folded in fold(text)


def _fold_bytes(*values: Any) -> str:
    """Takes bytes, because text in JSON may contain what Python cannot decode."""
    return fold(storable(bytes(values[0]).decode("utf-8", "replace")))


def _is_titled(*values: Any) -> bool:
    """Whether a title contains a word or phrase. With a final `*`, the last word is a prefix."""
    title, phrase = (" ".join(re.findall(r"[^\W_]+", indexable(value))) for value in values)
    end = " "
    if values[1].endswith("*"):
        end = ""
    return f" {phrase}{end}" in f" {title} "


# -- waiting and errors ---


def _busy_handler(patience: float = LIMITS.write_wait_seconds) -> Callable[[int], bool]:
    """Wait for the transaction of another process in short random sleeps, up to the time limit."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        if tries == 0:
            started = time.monotonic()
        if time.monotonic() - started >= patience:
            return False
        # Short: whoever sleeps longer is overtaken by those who do not.
        time.sleep(random.uniform(0.0005, 0.005))  # noqa: S311
        return True

    return wait


def _time_limit(seconds: float) -> Callable[[], bool]:
    """A function that says whether a search must stop.

    It counts CPU time, so that a search on a busy machine does as much as on an idle one.
    """
    end = time.thread_time() + seconds
    last_end = time.monotonic() + LIMITS.search_wall_seconds

    def is_over() -> bool:
        return time.thread_time() > end or time.monotonic() > last_end

    return is_over


def _retry_while_busy(action: Callable[[], T]) -> T:
    """Retry an action. Switching to WAL reports "busy" without calling the busy handler."""
    wait = _busy_handler()
    tries = 0
    while True:
        try:
            return action()
        except apsw.BusyError:
            if not wait(tries):
                raise
            tries += 1


def translate_error(error: apsw.Error, path: Path) -> RecollectError:
    """An SQLite error as an error that explains what to do."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"Another program has been writing to {path} for more than "
                f"{LIMITS.write_wait_seconds:g} seconds. Try again when it is done."
            )
        case apsw.InterruptError():
            return SearchTimeout(
                "The search took too long and was stopped. Use rarer words or a narrower filter."
            )
        case apsw.NotADBError() if is_encrypted(path):
            return DamagedLibrary(
                f"{path} cannot be decrypted: it is damaged, or not encrypted with the key of its "
                "home. Restore a backup with `recollect restore`."
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return DamagedLibrary(f"{path} is damaged ({error}). {DAMAGE_ADVICE}")
        case apsw.FullError():
            return StorageFull(STORAGE_FULL)
        case apsw.IOError() | apsw.CantOpenError() | apsw.ReadOnlyError() if is_disk_full(path):
            return StorageFull(STORAGE_FULL)
        case apsw.ReadOnlyError():
            return ReadOnlyLibrary(READ_ONLY.format(reason="its files cannot be written"))
        case apsw.CantOpenError():
            return RecollectError(
                f"{path} cannot be opened for writing ({error}). Check the folder's permissions."
            )
        case _:
            return RecollectError(f"The database reported: {error}")


def translate_os_error(error: OSError) -> RecollectError:
    """The error of a file beside the database as an error that explains what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(STORAGE_FULL)
    return RecollectError(f"A file of the library cannot be written ({error}).")


STORAGE_FULL = "The disk is full, so nothing was written. Free some space and try again."
READ_ONLY = (
    "This library is read-only ({reason}), so nothing was written. Searching and reading work."
)
# SQLite needs this much for the memory that its connections share.
_MIN_FREE_BYTES = 65_536


def is_disk_full(path: Path) -> bool:
    """Whether the disk of a file has too little space for another file."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    if disk.f_files and not disk.f_favail:
        return True
    return disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES


_transactions = 0
_transactions_lock = threading.Lock()


@contextmanager
def _short_thread_turns() -> Iterator[None]:
    """Let the threads of this process take shorter turns while one of them is in a transaction.

    Every statement gives up Python's lock. If other threads are searching, the writer would wait
    for 5 ms or more after each statement, and all other writers with it.
    """
    _change_transactions(1)
    try:
        yield
    finally:
        _change_transactions(-1)


def _change_transactions(change: int) -> None:
    global _transactions
    with _transactions_lock:
        _transactions += change
        if _transactions:
            sys.setswitchinterval(_SHORT_TURN)
        else:
            sys.setswitchinterval(_NORMAL_TURN)


# -- connections ---


class _Job(Generic[T]):
    """Work that waits for a transaction, and its result."""

    __slots__ = ("error", "is_finished", "value", "work")

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.value: T | None = None
        self.error: BaseException | None = None
        self.is_finished = False

    def finish(self, error: BaseException | None = None) -> None:
        self.error = self.error or error
        self.is_finished = True


class Connections:
    """The connection that writes and the connections that read one database file."""

    def __init__(self, path: Path, read_only: str = "") -> None:
        self.path = path
        self.read_only = read_only
        """Why nothing may be written; empty if that is allowed."""
        self._writer: Connection | None = None
        self._write_lock = threading.Lock()
        self._turns = Turns(path)
        self._waiting_jobs: deque[_Job[Any]] = deque()
        self._log_pages = 0
        self._copied_pages = 0
        """The length of the log at the last checkpoint."""
        self._checkpoint_lock = threading.Lock()
        self._idle_readers: list[Connection] = []
        self._version_lock = threading.Lock()
        self._version_reader: Connection | None = None
        self._is_closed = False

    def close(self) -> None:
        with self._checkpoint_lock, self._write_lock, self._version_lock:
            self._is_closed = True
            while self._idle_readers:
                self._idle_readers.pop().close()
            if self._version_reader is not None:
                self._version_reader.close()
            self._close_writer()

    def _require_open(self) -> None:
        if self._is_closed:
            raise RecollectError("This library is closed.")

    # -- writing ---

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and return its value once it is durable.

        Several threads may share a commit. If the work of one of them raises an error, only its own
        changes are rolled back.
        """
        job: _Job[T] = _Job(work)
        self._waiting_jobs.append(job)
        with self._write_lock:
            # Another thread may have committed this job while it waited for the lock.
            while not job.is_finished:
                count = min(len(self._waiting_jobs), _MAX_JOBS_PER_COMMIT)
                self._commit([self._waiting_jobs.popleft() for _ in range(count)])
        self._checkpoint_if_due()
        if job.error is not None:
            raise job.error
        return job.value  # type: ignore[return-value]

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            db = self._open_writer()
            with _short_thread_turns(), self._turns.take(_TURN_PATIENCE):
                db.execute("begin immediate")
                for job in jobs:
                    self._run(db, job)
                db.execute("commit")
        except BaseException as error:
            self._abort(error)
            failure = error
            if isinstance(error, apsw.Error):
                failure = translate_error(error, self.path)
                failure.__cause__ = error
            for job in jobs:
                job.finish(failure)
            if not isinstance(error, Exception):
                raise
        else:
            for job in jobs:
                job.finish()

    def _run(self, db: Connection, job: _Job[Any]) -> None:
        """Run one job of a transaction. Its error concerns only the thread that waits for it."""
        db.execute("savepoint job")
        try:
            job.value = job.work(db)
        except Exception as error:
            # On a full disk, SQLite rolls back the whole transaction, and all jobs fail.
            if not db.in_transaction:
                raise
            db.execute("rollback to job")
            job.error = error
            if isinstance(error, apsw.Error):
                job.error = translate_error(error, self.path)
                job.error.__cause__ = error
        db.execute("release job")

    def _open_writer(self) -> Connection:
        self._require_open()
        if self.read_only:
            raise ReadOnlyLibrary(READ_ONLY.format(reason=self.read_only))
        if self._writer is None:
            self._writer = connect(self.path)
            # This also ends SQLite's own checkpoints, for which the writer would have to wait.
            self._writer.set_wal_hook(self._count_log_pages)
        return self._writer

    def _count_log_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        if pages < self._copied_pages:  # the log has started over
            self._copied_pages = 0
        return apsw.SQLITE_OK

    def _checkpoint_if_due(self) -> None:
        """Copy the log into the database from time to time, so that it does not grow.

        A thread does it, unless writers are faster than the thread.
        """
        new_pages = self._log_pages - self._copied_pages
        if new_pages < _PAGES_PER_CHECKPOINT:
            return
        if new_pages >= _MAX_LOG_PAGES:
            self._checkpoint()
        elif not self._checkpoint_lock.locked():
            threading.Thread(target=self._checkpoint, name="recollect-checkpoint").start()

    def _checkpoint(self) -> None:
        with self._checkpoint_lock:
            if self._is_closed or self._log_pages - self._copied_pages < _PAGES_PER_CHECKPOINT:
                return
            self._copied_pages = self._log_pages
            # The next pages are counted in any case, so whatever prevents it now does no harm.
            with suppress(apsw.Error):
                db = connect(self.path)
                try:
                    ((_, pages, _),) = db.rows("pragma wal_checkpoint(passive)")
                    if pages >= _MAX_LOG_PAGES:
                        # Readers that never pause all at once would keep the old pages in use, and
                        # the log would grow with every commit.
                        db.set_busy_handler(_busy_handler(_RESTART_PATIENCE))
                        db.rows("pragma wal_checkpoint(restart)")
                finally:
                    db.close()

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
        if self._writer is not None:
            self._writer.close(True)
            self._writer = None
        self._turns.close()

    def truncate_log(self, patience: float = 0.0) -> bool:
        """Copy the write-ahead log into the database and truncate it.

        Returns False if another program reads an older snapshot for longer than `patience`, in
        seconds. Nobody can write in the meantime.
        """
        with self._checkpoint_lock, self._write_lock:
            db = self._open_writer()
            db.set_busy_handler(_busy_handler(patience))
            try:
                ((is_busy, _, _),) = db.rows("pragma wal_checkpoint(truncate)")
            except (apsw.BusyError, apsw.LockedError):
                return False
            except apsw.Error as error:
                raise translate_error(error, self.path) from error
            finally:
                db.set_busy_handler(_busy_handler())
            return not is_busy

    # -- reading ---

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
    def read(self, seconds: float | None = None) -> Iterator[Connection]:
        """A connection with a snapshot to read from. Raises SearchTimeout after `seconds`."""
        db = None
        try:
            db = self._take_reader()
            if seconds is not None:
                db.set_progress_handler(_time_limit(seconds), _STEPS_PER_TIME_CHECK)
            db.execute("begin")
            yield db
            if self._is_outdated(db):
                raise StoreBusy("The library was changed while it was read. Try again.")
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
        if db.in_transaction:
            db.execute("rollback")
        if self._is_closed:
            db.close(True)
        else:
            self._idle_readers.append(db)

    def _is_outdated(self, db: Connection | None) -> bool:
        """Whether a connection is missing, or reads without locks from files that have changed."""
        if db is None:
            return True
        return db.unlocked_stamp is not None and db.unlocked_stamp != file_stamp(self.path)
