"""The connections of this process to a PostgreSQL server, shared by the libraries of all its users."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from recollect.errors import DamagedLibrary, RecollectError, StoreBusy, StoreUnavailable
from recollect.settings import LIMITS
from recollect.store.postgres.server import prepare, reached

T = TypeVar("T")

_ATTEMPT = 2.5  # seconds to wait for a connection before looking whether the deadline has passed
_PREPARED = 3  # uses of a statement from which the server keeps its plan
_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": _PREPARED,
    "application_name": "recollect",
    "connect_timeout": 5,
    # A machine that vanished without a word is noticed after a minute, by us and by the server.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# Whoever administers the server may have it acknowledge what is not on the disk yet; that is not for us to do.
_SETTINGS = """set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10; set tcp_keepalives_count = 3;
  select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"""


class Session(psycopg.Connection[Any]):
    """A connection that does not wait for ever."""

    patience: float | None = None
    """How many seconds an answer is waited for."""

    def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        return super().wait(
            gen if self.patience is None else self._soon(gen, self.patience), *arguments, **options
        )

    def _soon(self, gen: PQGen[T], patience: float) -> PQGen[T]:
        """The same, ended when nothing has come for too long; psycopg looks in several times a second."""
        end = time.monotonic() + patience
        try:
            operation = next(gen)
            while True:
                ready = yield operation
                if not ready and time.monotonic() > end:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server does not answer")
                operation = gen.send(ready)
        except StopIteration as done:
            value: T = done.value
            return value


class Pool:
    """The connections of this process to one server."""

    _open: dict[str, Pool] = {}  # noqa: RUF012 - shared on purpose, by address
    _turn = threading.Lock()

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = place(url)
        with explaining(self.place):
            self.server = prepare(url, self.place)
        self.locks = Locks(self)
        self._users = 0
        self._pool = ConnectionPool(
            url,
            connection_class=Session,
            kwargs=_OPTIONS,
            min_size=0,
            max_size=LIMITS.server_connections,
            timeout=_ATTEMPT,
            reconnect_timeout=2.0,
            configure=self._configure,
            num_workers=2,
            open=False,
            name=f"recollect {self.place}",
        )

    @classmethod
    def take(cls, url: str) -> Pool:
        """The pool of a server, opened by the first who asks and closed by the last who returns it."""
        with cls._turn:
            is_open = url in cls._open
        pool = (
            None if is_open else cls(url)
        )  # not in turn: a server that does not answer holds up nobody else
        with cls._turn:
            pool = cls._open.get(url) or pool
            if pool is not None:
                if pool._users == 0:
                    cls._open[url] = pool
                    pool._pool.open()
                pool._users += 1
                return pool
        return cls.take(url)  # closed in between

    def give_back(self) -> None:
        with self._turn:
            self._users -= 1
            if self._users:
                return
            del self._open[self.url]
        self._pool.close()
        self.locks.close()

    def connect(self) -> Session:
        """A connection that the pool does not count."""
        connection = Session.connect(self.url, **_OPTIONS)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: Session) -> None:
        self.server.configure(connection)
        connection.execute(_SETTINGS)

    @contextmanager
    def connection(self, deadline: float) -> Iterator[Session]:
        """A connection, waited for until the deadline; one that broke is not used again."""
        connection = self._wait(deadline)
        try:
            yield connection
        finally:
            self._return(connection)

    def _wait(self, deadline: float) -> Session:
        while True:
            try:
                return self._pool.getconn(max(min(_ATTEMPT, deadline - time.monotonic()), 0.05))
            except PoolClosed:
                raise RecollectError("This library is closed.") from None
            except PoolTimeout as error:
                if time.monotonic() >= deadline:
                    raise self._why_none() from error

    def _return(self, connection: Session) -> None:
        try:
            if connection.pgconn.transaction_status not in (
                TransactionStatus.IDLE,
                TransactionStatus.UNKNOWN,
            ):
                with suppress(psycopg.Error):
                    connection.execute("rollback")
        finally:
            self._pool.putconn(connection)

    def _why_none(self) -> RecollectError:
        """Why there was no connection in time, as the server says to one who asks now."""
        try:
            with reached(self.url, self.place):
                return StoreBusy(
                    f"There was no connection to {self.place} for {LIMITS.write_wait_seconds:g} seconds: all "
                    f"{LIMITS.server_connections} are in use, or it was away until now. Try again."
                )
        except RecollectError as error:
            return error


class Locks:
    """Locks of users that last while this process holds them, all on one connection beside the pool:
    indexing holds one for minutes, and however many users index, none of them shall wait for that.

    The server forgets them when it goes away. Then another process may get the same lock.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._turn = threading.Lock()
        self._held: set[int] = set()
        self._connection: Session | None = None

    def take(self, owner: int) -> bool:
        with self._turn, explaining(self._pool.place):
            if owner in self._held:
                return False
            if self._try(owner):
                self._held.add(owner)
            elif not self._held:
                self._hang_up()
            return owner in self._held

    def let_go(self, owner: int) -> None:
        with self._turn:
            self._held.discard(owner)
            if self._connection is not None:
                # Even before hanging up: the server notices only later that a connection was closed.
                with suppress(psycopg.Error):  # if the connection is broken, so is the lock
                    self._connection.execute("select pg_advisory_unlock(%s, %s)", [_LOCK, owner])
            if not self._held:
                self._hang_up()

    def close(self) -> None:
        with self._turn:
            self._held.clear()
            self._hang_up()

    def _try(self, owner: int) -> bool:
        if self._connection is not None:
            with suppress(psycopg.Error):  # it may have ended long ago, unnoticed
                self._connection.execute("select 1")
            if self._connection.closed:
                self._connection = None
        self._connection = self._connection or self._pool.connect()
        ((done,),) = self._connection.execute(
            "select pg_try_advisory_lock(%s, %s)", [_LOCK, owner]
        ).fetchall()
        return bool(done)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_LOCK = 0x5265636F  # "Reco": keeps our locks apart from those of others in the same database


def place(url: str) -> str:
    """The server and database as they may be shown: without user and password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise RecollectError(
            "The address cannot be read; it looks like postgresql://user:password@host:5432/database."
        ) from None  # what the library says repeats the password
    host = str(parts.get("host") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


@contextmanager
def explaining(place: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, place) from error


def explained(error: psycopg.Error, place: str) -> RecollectError:
    """What the server's error means for the person."""
    message = error.diag.message_primary or next(
        iter(str(error).splitlines()), type(error).__name__
    )
    match error:
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreBusy(
                f"Another program has been writing to this library at {place} for more than "
                f"{LIMITS.write_wait_seconds:g} seconds. Try again when it is done."
            )
        case errors.QueryCanceled():
            return StoreBusy(
                f"The server {place} stopped this ({message}); nothing was changed. Try again."
            )
        case errors.DiskFull():
            return RecollectError(
                f"The server's disk is full: nothing was written to {place}. Free some space there."
            )
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return DamagedLibrary(
                f"The server {place} reports damaged data ({message}). Restore a backup."
            )
        case errors.InsufficientPrivilege():
            return RecollectError(
                f"The role that opened {place} may not do this ({message}). See docs/postgres.md."
            )
    if (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        and (error.sqlstate or "08")[:2] in _GONE
    ):
        return StoreUnavailable(
            f"The PostgreSQL server {place} went away ({message}). Try again; what was saved stays saved."
        )
    return RecollectError(f"The database {place} reported: {message}")


_GONE = ("08", "57")  # states of a connection, and what an operator does, as a shutdown
