"""Connections to one SQLite file: how they are opened, shared and bounded.

Writes take turns on one connection. Whoever gets the turn commits everything
that is waiting in one transaction (group commit), because a durable commit
costs a disk flush however much it holds. Reads use a small pool, each in a
snapshot of its own and under a deadline. Nothing but SQLite ever opens the
file: a plain open() and close() would drop SQLite's locks on it.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from recollect.errors import DamagedLibrary, RecollectError, SearchTimeout, StoreBusy
from recollect.language.stem import stem
from recollect.language.text import fold, indexable, storable
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql.encoding import filter_columns
from recollect.store.sqlite.filters import document_conditions, passage_conditions

T = TypeVar("T")

_PRAGMAS = """
pragma synchronous = full;
pragma foreign_keys = on;
pragma secure_delete = on;
pragma trusted_schema = off;
pragma temp_store = memory;
pragma cache_size = -16384;
pragma journal_size_limit = 67108864;
"""
_GROUP = 256
_STEPS = 2_000
_REMEMBERED = 16  # values; each may list many thousand keys


class Connection(apsw.Connection):
    """What the statements that all databases share need of this one (see store.database)."""

    _remembered: tuple[int, dict[Hashable, Any]] = (0, {})

    def remembered(self, what: Hashable, make: Callable[[], T]) -> T:
        """A value that holds until somebody writes; for connections that only read."""
        version: int = self.pragma("data_version")
        if self._remembered[0] != version or len(self._remembered[1]) >= _REMEMBERED:
            self._remembered = (version, {})
        values = self._remembered[1]
        if what not in values:
            values[what] = make()
        value: T = values[what]
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

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        return "select value from json_each(?)", json.dumps(values)

    def mark_outdated(self, passages: Sequence[int]) -> None:
        pass  # triggers see to it

    def delete_derived(self, passages: Sequence[int]) -> None:
        pass

    def derived_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return filter_columns(row)

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        where, values = document_conditions(filter)
        if search:
            where += " and (contains(d.title, ?) or contains(d.id, ?))"
            values += [fold(search)] * 2
        if filter.of_passages:
            of_passage, more = passage_conditions(filter)
            where += (
                f" and exists (select 1 from passage p where p.document = d.key and {of_passage})"
            )
            values += more
        return where, values


def connect(path: Path) -> Connection:
    """A connection as every part of the store expects it."""
    db = Connection(str(path))
    try:
        db.set_busy_handler(_patience())
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        _until_free(
            lambda: db.execute("pragma page_size = 8192; pragma journal_mode = wal").fetchall()
        )
        db.execute(_PRAGMAS)
        db.create_scalar_function("contains", _contains, 2, deterministic=True)
        db.create_scalar_function(
            "stem", lambda *values: stem(str(values[0])), 1, deterministic=True
        )
        db.create_scalar_function("folded", _folded, 1, deterministic=True)
        db.create_scalar_function("titled", _titled, 2, deterministic=True)
    except BaseException:
        db.close()
        raise
    return db


def _contains(*values: Any) -> bool:
    text, folded = values
    return text is not None and folded in fold(text)


def _folded(*values: Any) -> str:
    """Of bytes, since what JSON holds may be no text that Python could take."""
    return fold(storable(bytes(values[0]).decode("utf-8", "replace")))


def _titled(*values: Any) -> bool:
    """Whether a title has a word or phrase, or with a star one that begins so."""
    title, words = (" ".join(re.findall(r"[^\W_]+", indexable(v))) for v in values)
    end = "" if values[1].endswith("*") else " "
    return f" {words}{end}" in f" {title} "


def _patience() -> Callable[[int], bool]:
    """Wait for another process's transaction: short random naps, up to the deadline."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        if tries == 0:
            started = time.monotonic()
        if time.monotonic() - started > LIMITS.write_wait_seconds:
            return False
        time.sleep(random.uniform(0.0005, min(0.02, 0.001 * 1.3 ** min(tries, 20))))  # noqa: S311
        return True

    return wait


def _until_free(action: Callable[[], T]) -> T:
    """Switching to WAL reports "busy" without asking the busy handler; ask again ourselves."""
    wait = _patience()
    tries = 0
    while True:
        try:
            return action()
        except apsw.BusyError:
            if not wait(tries):
                raise
            tries += 1


def explained(error: apsw.Error, path: Path) -> RecollectError:
    """What an engine's error means for the person."""
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
        case apsw.CorruptError() | apsw.NotADBError():
            return DamagedLibrary(f"{path} is damaged ({error}). Run `recollect doctor`.")
        case apsw.FullError():
            return RecollectError(
                f"The disk is full: nothing was written to {path}. Free some space and try again."
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError():
            return RecollectError(
                f"{path} cannot be opened for writing ({error}). Check the folder's permissions."
            )
        case _:
            return RecollectError(f"The database reported: {error}")


class _Job(Generic[T]):
    __slots__ = ("done", "error", "value", "work")

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = False

    def finish(self, error: BaseException | None = None) -> None:
        self.error = self.error or error
        self.done = True


class Connections:
    """The writer and the readers of one database file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: Connection | None = None
        self._turn = threading.Lock()
        self._waiting: deque[_Job[Any]] = deque()
        self._idle: list[Connection] = []
        self._looking = threading.Lock()
        self._watcher: Connection | None = None
        self._closed = False

    def close(self) -> None:
        with self._turn, self._looking:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            if self._watcher is not None:
                self._watcher.close()
            self._drop_writer()

    # -- writing ---

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and return its value once that is durable.

        Work of several threads shares a commit; each part stands alone: one
        that raises is rolled back without touching the others.
        """
        job: _Job[T] = _Job(work)
        self._waiting.append(job)
        with self._turn:
            while not job.done:  # else whoever had the turn before committed it with theirs
                self._commit(
                    [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]
                )
        if job.error is not None:
            raise job.error
        return job.value  # type: ignore[return-value]

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            db = self._open_writer()
            db.execute("begin immediate")
            for job in jobs:
                self._run(db, job)
            db.execute("commit")
        except BaseException as error:
            failure = explained(error, self.path) if isinstance(error, apsw.Error) else error
            self._abandon(error)
            for job in jobs:
                job.finish(failure)
            if not isinstance(error, Exception):
                raise
        else:
            for job in jobs:
                job.finish()

    def _run(self, db: Connection, job: _Job[Any]) -> None:
        db.execute("savepoint job")
        try:
            job.value = job.work(db)
        except Exception as error:  # whatever it is, it is that caller's alone
            if not db.in_transaction:  # but where SQLite has rolled back all, as on a full disk
                raise
            db.execute("rollback to job")
            job.error = explained(error, self.path) if isinstance(error, apsw.Error) else error
        db.execute("release job")

    def _open_writer(self) -> Connection:
        if self._closed:
            raise RecollectError("This library is closed.")
        if self._writer is None:
            self._writer = connect(self.path)
        return self._writer

    def _abandon(self, error: BaseException) -> None:
        """Roll back; after an error of the disk the connection is not trusted again."""
        if self._writer is None:
            return
        if self._writer.in_transaction:
            try:
                self._writer.execute("rollback")
            except apsw.Error:
                self._drop_writer()
        if isinstance(error, (apsw.IOError, apsw.CorruptError, apsw.FullError)):
            self._drop_writer()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close(True)
            self._writer = None

    def purge_log(self) -> None:
        """Empty the write-ahead log, so that deleted text is in no file any more."""
        with self._turn:
            self._open_writer().execute("pragma wal_checkpoint(truncate)").fetchall()

    # -- reading ---

    def version(self) -> int:
        """A number that changes with every commit of any other connection. Each connection counts for
        itself, so one of them is kept for this and never writes."""
        with self._looking:
            if self._closed:
                raise RecollectError("This library is closed.")
            try:
                if self._watcher is None:
                    self._watcher = connect(self.path)
                return int(self._watcher.pragma("data_version"))
            except apsw.Error as error:
                raise explained(error, self.path) from error

    @contextmanager
    def read(self, seconds: float | None = None) -> Iterator[Connection]:
        """A snapshot to read from; with `seconds`, one that ends in SearchTimeout."""
        if self._closed:
            raise RecollectError("This library is closed.")
        try:
            db = self._idle.pop()
        except IndexError:
            db = connect(self.path)
        try:
            if seconds is not None:
                deadline = time.monotonic() + seconds
                db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            db.execute("begin")
            yield db
        except apsw.Error as error:
            raise explained(error, self.path) from error
        finally:
            db.set_progress_handler(None)
            if db.in_transaction:
                db.execute("rollback")
            if self._closed:
                db.close(True)
            else:
                self._idle.append(db)
