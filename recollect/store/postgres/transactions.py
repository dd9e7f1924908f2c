"""One user's transactions on a PostgreSQL server.

Every transaction sets its owner first, and row-level security hides all other rows. If the
connection breaks, a transaction is retried on a new connection until the deadline.

A search makes several reads. Inside `snapshot`, the reads of a thread share one transaction, which
begins with the first of them.

The writes of a user run one after another, because each of them locks the user's row of `last_key`.
Each commit stores a random token in `last_key.marks`. If the reply to COMMIT is lost, we look the
token up, so a write is never repeated and never confirmed without being stored. (Transaction ids
cannot be used for this: after a crash, the server assigns lost ids again.)
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from recollect.errors import (
    LibraryMoved,
    NotFound,
    ReadOnlyLibrary,
    RecollectError,
    SearchTimeout,
    StoreUnavailable,
)
from recollect.priority import searching
from recollect.settings import LIMITS
from recollect.store.postgres.connection import (
    MARKS,
    Connection,
    set_owner,
)
from recollect.store.postgres.functions import TOKENS
from recollect.store.postgres.pool import Pool
from recollect.store.postgres.schema import (
    APP,
    PROPAGATE_SETTINGS,
    Server,
    connect_as_login,
    is_created,
    is_distributed,
)
from recollect.store.postgres.server_errors import (
    explain_error,
    explain_errors,
    is_worker_lost,
    location_of,
)
from recollect.store.sql.transfer import closed_error, parse_closure

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

# A transaction that breaks its connection this often is given up: it may be the cause.
_ATTEMPTS = 5
# Seconds to wait for a worker that is away, at first and at most.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
# The level is set explicitly: at a stricter one, a write that waited for the lock would fail.
_BEGIN = "begin isolation level read committed"
_LOCK = "select marks, closed from last_key"
_AUDIT_LOCK = 0x52656175
# Distinguishes our advisory locks from others in the same database ("Reco" in ASCII).
_LOCK_SPACE = 0x5265636F


@dataclass(slots=True)
class _Snapshot:
    """The shared transaction of the reads of one thread."""

    depth: int = 0
    """How many blocks `with snapshot()` the thread is in."""
    db: Connection | None = None
    """None if no transaction is open."""
    resources: ExitStack | None = None
    """Gives the connection back to the pool."""

    def end(self) -> None:
        db, self.db = self.db, None
        resources, self.resources = self.resources, None
        if resources is not None:
            with resources:
                if db is not None:
                    db.end_reading()


class Transactions:
    def __init__(self, url: str, user: str, read_only: bool = False) -> None:
        self._pool = Pool.acquire(url)
        self._is_closed = False
        self._local = threading.local()
        self.owner = 0
        self.user = user
        self.read_only = read_only
        self.is_mover = False
        """Whether this may write to a library that is closed."""
        try:
            self.owner = self._find_account() if read_only else self._get_or_create_account()
        except BaseException:  # nobody else would close the pool
            self.close()
            raise

    @property
    def server(self) -> Server:
        return self._pool.server

    @property
    def location(self) -> str:
        return self._pool.location

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._pool.release()

    def connect_as_login(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A separate connection with the role that logs in, which may own the tables."""
        return connect_as_login(self._pool.url, self.location)

    def _find_account(self) -> int:
        def attempt(db: Connection, _: Rows) -> int:
            db.run("select set_config('recollect.user', ?, true)", [self.user])
            owner: int | None = db.get("select id from account where name = ?", [self.user])
            db.commit()
            if owner is None:
                raise NotFound(f"There is no library of {self.user!r} at {self.location}.")
            return owner

        return self._retry(lambda: ["begin read only", "select 1"], attempt, new_deadline())

    def _get_or_create_account(self) -> int:
        """The number of the user, assigned on first use."""
        select_id = "select id from account where name = ?"

        def attempt(db: Connection, _: Rows) -> int:
            db.run("select set_config('recollect.user', ?, true)", [self.user])
            if db.get(select_id, [self.user]) is None:
                db.run("insert into account (name) values (?) on conflict do nothing", [self.user])
            owner = int(db.get(select_id, [self.user]))
            db.run(set_owner(owner))
            db.run("insert into last_key (owner) values (?) on conflict do nothing", [owner])
            db.commit()
            return owner

        return self._retry(lambda: [_BEGIN, "select 1"], attempt, new_deadline())

    # -- reading ---

    def read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        """Run `work` on a snapshot. With `seconds`, no statement may take much longer.

        A server limits the time of a statement, not its CPU time. On a busy computer, statements
        take several times as long, so the limit is longer as well.
        """
        if self._snapshot.depth:
            return self._read_in_snapshot(work)
        begin = [*self._begin_read_sql(seconds), "select 1"]

        def attempt(db: Connection, _: Rows) -> T:
            db.is_reading = True
            value = work(db) if seconds is None else search(work, db)
            db.commit()
            return value

        return self._retry(lambda: begin, attempt, new_deadline())

    def _begin_read_sql(self, seconds: float | None) -> list[str]:
        limit = (seconds or 0.0) * LIMITS.search_slowdown
        return [
            "begin isolation level repeatable read read only",
            set_owner(self.owner),
            f"set local statement_timeout = {limit * 1000:.0f}",
        ]

    @property
    def _snapshot(self) -> _Snapshot:
        """The snapshot of this thread."""
        snapshot: _Snapshot | None = getattr(self._local, "snapshot", None)
        if snapshot is None:
            snapshot = self._local.snapshot = _Snapshot()
        return snapshot

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the reads of this thread share a transaction, with the time limit of a search."""
        snapshot = self._snapshot
        snapshot.depth += 1
        try:
            with searching():
                yield
        finally:
            snapshot.depth -= 1
            if not snapshot.depth:
                snapshot.end()
                self._local.snapshot = None

    def _read_in_snapshot(self, work: Callable[[Connection], T]) -> T:
        snapshot = self._snapshot
        if snapshot.db is not None:
            try:
                return search(work, snapshot.db)
            except SearchTimeout:
                snapshot.end()
                raise
            except psycopg.Error as error:
                is_broken = snapshot.db.is_broken
                snapshot.end()
                if not is_broken and not is_worker_lost(error):
                    raise explain_error(error, self.location) from error
        begin = self._begin_read_sql(LIMITS.search_seconds)

        def attempt(db: Connection, _: Rows) -> T:
            db.is_reading = True
            return search(work, db)

        return self._retry(lambda: begin, attempt, new_deadline(), snapshot)

    # -- writing ---

    def write(self, work: Callable[[Connection], T], *, lock_query: str = "") -> T:
        """Run `work` in a transaction, and return its value when it is stored durably.

        `work` may run more than once, so it must not rely on anything it did before. `lock_query`
        locks the library and returns a row with the columns of `_LOCK` and others, which is then
        `Connection.locked_row`.
        """
        if self.read_only:
            raise ReadOnlyLibrary(
                "This library is read-only (the setting `read_only` is on), so nothing was "
                "written. Searching and reading work."
            )
        deadline = new_deadline()

        def attempt(db: Connection, rows: Rows) -> T:
            return self._work_and_commit(work, db, rows)

        while True:
            try:
                return self._retry(
                    lambda: self._begin_write_sql(deadline, lock_query), attempt, deadline
                )
            except _ReplyLost as lost:
                if self._was_committed(lost):
                    return lost.value  # type: ignore[no-any-return]
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"The connection to the PostgreSQL server {self.location} was lost, and "
                        "nothing was saved. Try again."
                    ) from lost

    def _work_and_commit(self, work: Callable[[Connection], T], db: Connection, rows: Rows) -> T:
        tokens = self._require_writable(rows)
        (db.locked_row,) = rows
        token = db.token = secrets.randbits(62)
        value = work(db)
        last_statement = ""
        if not db.is_token_stored:
            last_statement = f"update last_key set {MARKS} where owner = {self.owner}; "
        try:
            db.commit(last_statement.replace("?", str(token)))
        except psycopg.Error as error:
            if db.is_broken or is_worker_lost(error):
                raise _ReplyLost(token, tokens, value) from error
            raise
        self._pool.changes.announce(self.user)
        return value

    def _require_writable(self, rows: Rows) -> list[int]:
        """The commit tokens, unless the library is closed or gone."""
        if not rows:
            raise LibraryMoved(
                f"The library of {self.user} in {self.location} has been removed. If it was moved, "
                "use it at its new place."
            )
        ((tokens, closed, *_),) = rows
        reason = parse_closure(closed)
        if reason is not None and not self.is_mover:
            raise closed_error(f"{self.location}, user {self.user}", reason)
        return list(tokens)

    def append(self, work: Callable[[Connection], None], durable: bool) -> None:
        """Run `work`, which adds to the audit log. It does not count as a change of the library.

        If the connection breaks at the wrong moment, the records are added twice. Without
        `durable`, the server may lose them in a crash.
        """
        begin = [
            _BEGIN,
            set_owner(self.owner),
            f"set local synchronous_commit = {'on' if durable else 'off'}",
            f"select pg_advisory_xact_lock({_AUDIT_LOCK}, {self.owner:d})",
        ]

        def attempt(db: Connection, _: Rows) -> None:
            work(db)
            db.commit()

        self._retry(lambda: begin, attempt, new_deadline())

    def _begin_write_sql(self, deadline: float, lock_query: str = "") -> list[str]:
        """Begin when no other write of the user is in progress, and read the commit tokens."""
        timeout = max(1, round((deadline - time.monotonic()) * 1000))
        return [
            _BEGIN,
            set_owner(self.owner),
            f"set local lock_timeout = {timeout}",
            lock_query or f"{_LOCK} where owner = {self.owner} for update",
        ]

    def _was_committed(self, lost: _ReplyLost) -> bool:
        """Look up the token of a write. If the write is still running, it holds the user's lock."""

        def attempt(db: Connection, rows: Rows) -> bool:
            if not rows:
                # The library has been removed, by this write or after it.
                return True
            ((tokens, _),) = rows
            if lost.token in tokens:
                return True
            if len(tokens) < TOKENS or lost.earlier_tokens[0] in tokens:
                return False
            raise StoreUnavailable("Too many other writes have been committed since.")

        deadline = new_deadline()
        try:
            return self._retry(lambda: self._begin_write_sql(deadline), attempt, deadline)
        except RecollectError as error:
            raise StoreUnavailable(
                f"The connection to the PostgreSQL server {self.location} was lost while saving, "
                f"and it is not known whether this was saved. ({error}) Check, or try again: "
                "a message with the same id is stored once."
            ) from error

    @contextmanager
    def indexing_lock(self) -> Iterator[bool]:
        """See Store.indexing_lock. Indexing takes minutes, so it has a connection of its own.

        The server forgets the lock when it restarts. Another process can then acquire it.
        """
        if self._is_closed:
            raise RecollectError("This library is closed.")
        statement = "select pg_try_advisory_lock(%s, %s)"
        with explain_errors(self.location):
            connection = self._pool.connect()
        try:
            with explain_errors(self.location):
                ((is_locked,),) = connection.execute(statement, [_LOCK_SPACE, self.owner])
            yield is_locked
        finally:
            # Unlock even before disconnecting: the server may notice a closed connection late.
            with suppress(psycopg.Error):
                connection.execute("select pg_advisory_unlock_all()")
            connection.close()

    # -- attempts ---

    def _retry(
        self,
        begin_sql: Callable[[], Sequence[str]],
        attempt: Callable[[Connection, Rows], T],
        deadline: float,
        snapshot: _Snapshot | None = None,
    ) -> T:
        """Run `attempt` in a new transaction, with the rows that `begin_sql` returns.

        If the connection breaks, try again on another one. In a cluster, the coordinator may have
        lost the connection to a worker; then wait a little until the worker is back. A snapshot
        keeps the transaction open.
        """
        if self._is_closed:
            raise RecollectError("This library is closed.")
        # A thread that holds a connection and waits for another one could wait for itself.
        self._snapshot.end()
        attempts = pauses = 0
        while True:
            with ExitStack() as resources:
                session = resources.enter_context(self._pool.connection(deadline))
                db = Connection(session, self.owner, self.server)
                try:
                    rows = db.begin(begin_sql())
                    attempts += 1
                    value = attempt(db, rows)
                    if snapshot is not None:
                        snapshot.db, snapshot.resources = db, resources.pop_all()
                    return value
                except psycopg.Error as error:
                    is_lost = db.is_broken or is_worker_lost(error)
                    if not is_lost or time.monotonic() >= deadline:
                        raise explain_error(error, self.location) from error
                    if db.is_broken and attempts >= _ATTEMPTS:
                        raise explain_error(error, self.location) from error
                    pauses += not db.is_broken
            if pauses:
                time.sleep(min(_FIRST_PAUSE * 2**pauses, _LONGEST_PAUSE))


class _ReplyLost(Exception):
    """COMMIT was sent, and the connection broke before the reply arrived."""

    def __init__(self, token: int, earlier_tokens: list[int], value: Any) -> None:
        super().__init__(token)
        self.token = token
        self.earlier_tokens = earlier_tokens
        self.value = value


def search(work: Callable[[Connection], T], db: Connection) -> T:
    try:
        return work(db)
    except errors.QueryCanceled as error:
        raise SearchTimeout(
            "The search took too long and was stopped. Use rarer words or a narrower filter."
        ) from error


def new_deadline() -> float:
    return time.monotonic() + LIMITS.write_wait_seconds


# -- accounts ---


def has_account(url: str, user: str) -> bool:
    """Whether the user has a library in the database. Creates nothing."""
    location = location_of(url)
    with explain_errors(location), connect_as_login(url, location) as connection:
        if not is_created(connection, location):
            return False
        if is_distributed(connection):
            connection.execute(PROPAGATE_SETTINGS)
        return has_library(connection, user)


def has_library(connection: psycopg.Connection[Any], user: str) -> bool:
    with connection.transaction():
        connection.execute(f"set local role {APP}")
        connection.execute("select set_config('recollect.user', %s, true)", [user])
        account = connection.execute(
            "select id from recollect.account where name = %s", [user]
        ).fetchone()
        if account is None:
            return False
        # An account is never deleted. Only a library has a row in `last_key`.
        (owner,) = account
        connection.execute(set_owner(owner))
        library = connection.execute(
            "select 1 from recollect.last_key where owner = %s", [owner]
        ).fetchone()
        return library is not None
