"""Connections to a PostgreSQL server: one pool a server, shared by the libraries of all users.

Every transaction begins by saying whose it is; row-level security lets it see
nothing else. Writes of one user take turns on the user's row of `last_key`, as
they do on the one writer of SQLite. When the server goes away, what was not
committed is done again on a new connection until the deadline; and where the
answer to COMMIT was lost, the server is asked what became of the transaction,
so that nothing is done twice and nothing acknowledged that was not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect.errors import DamagedLibrary, RecollectError, SearchTimeout, StoreBusy, StoreUnavailable
from recollect.model import Filter
from recollect.settings import LIMITS
from recollect.store.postgres.filters import document_conditions
from recollect.store.postgres.migrations import APP, is_prepared, works_as_app
from recollect.store.postgres.server import Server, prepare, reached
from recollect.text import fold

T = TypeVar("T")

_ATTEMPT = 2.5  # seconds to wait for a connection before looking whether the deadline has passed
_PREPARED = 3  # uses of a statement from which the server keeps its plan


class Connection:
    """One user's transaction (see store.database for what the methods do)."""

    def __init__(self, connection: psycopg.Connection[Any], owner: int, server: Server) -> None:
        self.owner = owner
        self.server = server
        self._connection = connection
        self._cursor = psycopg.RawCursor(connection)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._execute(sql, values).fetchall()

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        row = self._execute(sql, values).fetchone()
        return None if row is None else row[0]

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._execute(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        listed = list(values)
        if listed:
            self._cursor.executemany(numbered(sql), listed)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """One statement for any number of rows, a column as one array; without those that nobody has."""
        types = self.server.types[table]
        told = {name: values for name, values in zip(columns, zip(*rows, strict=True), strict=True)
                if any(value is not None for value in values)}  # fmt: skip
        arrays = ", ".join(f"?::{types[name]}[]" for name in told)
        self._execute(f"insert into {table} ({', '.join(told)}) select * from unnest({arrays})",
                      [list(values) for values in told.values()])  # fmt: skip

    def among(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        kind = "text" if values and isinstance(values[0], str) else "bigint"
        return f"select unnest(?::{kind}[])", list(values)

    def derived(self, row: Mapping[str, Any]) -> dict[str, Any]:
        from recollect.store.postgres.filters import derived

        return derived(row)

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        where, values = document_conditions(filter)
        if search:
            where += " and (strpos(d.folded_title, ?) > 0 or strpos(d.folded_id, ?) > 0)"
            values += [fold(search)] * 2
        return where, values

    def _execute(self, sql: str, values: Sequence[Any]) -> psycopg.RawCursor[Any]:
        # A plan that is kept is one for any owner, and reads every partition's statistics. Statements that name the
        # owner are planned each time, for the one partition that they touch.
        kept = False if "owner = ?" in sql else None
        return self._cursor.execute(numbered(sql), values, prepare=kept, binary=True)

    def begin(self, start: str) -> list[tuple[Any, ...]]:
        """Statements without values, in one message to the server; gives the rows of the last."""
        self._cursor.execute(start)
        while self._cursor.nextset():
            pass
        return self._cursor.fetchall()

    def commit(self) -> None:
        self._cursor.execute("commit")
        if self._cursor.statusmessage != "COMMIT":  # an error inside was overlooked, and all of it is undone
            raise psycopg.InternalError("the transaction was rolled back")


@lru_cache(2_000)
def numbered(sql: str) -> str:
    """Values as PostgreSQL numbers them; a `?` is never anything else in our statements."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if c == "?" else c for c in sql)


class Pool:
    """The connections of this process to one server."""

    _open: dict[str, Pool] = {}  # noqa: RUF012 - shared on purpose, by address
    _turn = threading.Lock()

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = place(url)
        self.server = prepare(url, self.place)
        self._users = 0
        self._pool = ConnectionPool(
            url,
            kwargs={"autocommit": True, "prepare_threshold": _PREPARED, "application_name": "recollect",
                    "connect_timeout": 5, "keepalives_idle": 30},
            min_size=0,
            max_size=LIMITS.server_connections,
            timeout=_ATTEMPT,
            reconnect_timeout=2.0,
            configure=self.server.configure,
            num_workers=2,
            open=True,
            name=f"recollect {self.place}",
        )  # fmt: skip

    @classmethod
    def take(cls, url: str) -> Pool:
        """The pool of a server, opened by the first who asks and closed by the last who returns it."""
        with cls._turn:
            if url not in cls._open:
                cls._open[url] = cls(url)
            pool = cls._open[url]
            pool._users += 1
            return pool

    def give_back(self) -> None:
        with self._turn:
            self._users -= 1
            if self._users == 0:
                del self._open[self.url]
                self._pool.close()

    @contextmanager
    def connection(self, deadline: float) -> Iterator[psycopg.Connection[Any]]:
        """A connection, waited for until the deadline; one that broke is not used again."""
        while True:
            try:
                connection = self._pool.getconn(max(min(_ATTEMPT, deadline - time.monotonic()), 0.05))
                break
            except PoolTimeout as error:
                if time.monotonic() >= deadline:
                    raise self._unavailable() from error
        try:
            yield connection
        finally:
            if connection.pgconn.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                with suppress(psycopg.Error):
                    connection.execute("rollback")
            self._pool.putconn(connection)

    def _unavailable(self) -> RecollectError:
        busy = self._pool.get_stats().get("pool_size", 0) >= LIMITS.server_connections
        if busy:
            return StoreBusy(
                f"All {LIMITS.server_connections} connections to {self.place} were in use for too long. Try again."
            )
        return StoreUnavailable(
            f"The PostgreSQL server {self.place} cannot be reached. Check that it runs; what was saved stays saved."
        )


def place(url: str) -> str:
    """The server and database as they may be shown: without user and password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise RecollectError(
            "The address cannot be read; it looks like postgresql://user:password@host:5432/database."
        ) from error
    host = str(parts.get("host") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


def has_account(url: str, user: str) -> bool:
    """Whether a user has a library there; nothing is created."""
    with reached(url, place(url)) as connection, connection.transaction():
        if not is_prepared(connection):
            return False
        if works_as_app(connection):
            connection.execute(f"set local role {APP}")
        connection.execute("select set_config('recollect.user', %s, true)", [user])
        return connection.execute("select 1 from recollect.account where name = %s", [user]).fetchone() is not None


class Connections:
    """One user's way to the server."""

    def __init__(self, url: str, user: str) -> None:
        self._pool = Pool.take(url)
        self.user = user
        self._closed = False
        try:
            self.owner = self._account()
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> Server:
        return self._pool.server

    @property
    def place(self) -> str:
        return self._pool.place

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pool.give_back()

    def _account(self) -> int:
        """The number of the user, given on first use."""
        find = "select id from account where name = %s"
        with self._pool.connection(time.monotonic() + LIMITS.write_wait_seconds) as connection:
            try:
                with connection.transaction():
                    connection.execute("select set_config('recollect.user', %s, true)", [self.user])
                    row = connection.execute(find, [self.user]).fetchone()
                    if row is None:
                        connection.execute("insert into account (name) values (%s) on conflict do nothing", [self.user])
                        row = connection.execute(find, [self.user]).fetchone()
                    assert row is not None
                    owner = int(row[0])
                    connection.execute("select set_config('recollect.owner', %s, true)", [str(owner)])
                    connection.execute("insert into last_key (owner) values (%s) on conflict do nothing", [owner])
                    return owner
            except psycopg.Error as error:
                raise explained(error, self.place) from error

    # -- writing ---

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and return its value once that is durable. It may be run
        again, so it must begin from what the database says."""
        start = (
            f"begin; {self._whose()}, set_config('lock_timeout', '{LIMITS.write_wait_seconds * 1000:.0f}', true); "
            f"select pg_current_xact_id()::text from last_key where owner = {self.owner} for update"
        )

        def attempt(connection: psycopg.Connection[Any], deadline: float) -> T:
            db = Connection(connection, self.owner, self.server)
            ((transaction,),) = db.begin(start)
            value = work(db)
            try:
                db.commit()
            except psycopg.OperationalError:
                if not connection.broken or not self._was_committed(transaction, deadline):
                    raise
            return value

        return self._again_and_again(attempt)

    def _was_committed(self, transaction: str, deadline: float) -> bool:
        while True:
            try:
                with self._pool.connection(deadline) as connection:
                    cursor = connection.execute("select pg_xact_status(%s::xid8)", [transaction])
                    status = (cursor.fetchone() or ("",))[0]
            except psycopg.OperationalError:
                if time.monotonic() >= deadline:
                    raise
                continue
            if status != "in progress":
                return bool(status == "committed")

    # -- reading ---

    def read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        """Run `work` on a snapshot; with `seconds`, no statement of it may take longer."""
        timeout = 0 if seconds is None else max(1, round(seconds * 1000))
        start = (
            "begin isolation level repeatable read read only; "
            f"{self._whose()}, set_config('statement_timeout', '{timeout}', true)"
        )

        def attempt(connection: psycopg.Connection[Any], deadline: float) -> T:
            db = Connection(connection, self.owner, self.server)
            db.begin(start)
            value = work(db)
            db.commit()
            return value

        return self._again_and_again(attempt)

    def _whose(self) -> str:
        return f"select set_config('recollect.owner', '{self.owner:d}', true)"

    def _again_and_again(self, attempt: Callable[[psycopg.Connection[Any], float], T]) -> T:
        if self._closed:
            raise RecollectError("This library is closed.")
        deadline = time.monotonic() + LIMITS.write_wait_seconds
        while True:
            with self._pool.connection(deadline) as connection:
                try:
                    return attempt(connection, deadline)
                except psycopg.Error as error:
                    if not connection.broken or time.monotonic() >= deadline:
                        raise explained(error, self.place) from error

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """True while nobody else, in any process, has this lock of the user's."""
        with self._pool.connection(time.monotonic() + LIMITS.write_wait_seconds) as connection:
            held = False
            try:
                row = connection.execute("select pg_try_advisory_lock(%s, %s)", [_LOCK, self.owner]).fetchone()
                held = bool(row and row[0])
                yield held
            finally:
                if held and not connection.broken:
                    with suppress(psycopg.Error):
                        connection.execute("select pg_advisory_unlock(%s, %s)", [_LOCK, self.owner])


_LOCK = 0x5265636F  # "Reco": keeps our locks apart from those of others in the same database


def explained(error: psycopg.Error, place: str) -> RecollectError:
    """What the server's error means for the person."""
    said = error.diag.message_primary or str(error).splitlines()[0] if str(error) else type(error).__name__
    match error:
        case errors.QueryCanceled():
            return SearchTimeout("The search took too long and was stopped. Use rarer words or a narrower filter.")
        case errors.LockNotAvailable():
            return StoreBusy(
                f"Another program has been writing to this library at {place} for more than "
                f"{LIMITS.write_wait_seconds:g} seconds. Try again when it is done."
            )
        case errors.DiskFull():
            return RecollectError(f"The server's disk is full: nothing was written to {place}. Free some space there.")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return DamagedLibrary(f"The server {place} reports damaged data ({said}). Restore a backup.")
        case errors.InsufficientPrivilege():
            return RecollectError(f"The role that opened {place} may not do this ({said}). See docs/postgres.md.")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnavailable(
                f"The PostgreSQL server {place} went away ({said}). Try again; what was saved stays saved."
            )
        case _:
            return RecollectError(f"The database reported: {said}")
