"""The connection pool of this process for one PostgreSQL server, shared by the users' libraries."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from recollect.errors import RecollectError, StoreBusy, StoreUnavailable
from recollect.settings import LIMITS
from recollect.store.postgres.notifications import ChangeSender
from recollect.store.postgres.schema import connect_as_login, connection_options, prepare
from recollect.store.postgres.server_errors import explain_errors, location_of

Session = psycopg.Connection[Any]

# Compiling a plan (`jit`) takes longer than any of our statements.
# With synchronous_commit off, the server would confirm commits that are not on its disk yet.
SESSION_SETTINGS = """set jit = off;
  set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10;
  set tcp_keepalives_count = 3;
  select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'"""

# How long to wait for a connection before checking the deadline again.
_WAIT_SECONDS = 2.5


class Pool:
    _pools: dict[str, Pool] = {}  # noqa: RUF012 - shared by all instances, keyed by URL
    _pools_lock = threading.Lock()

    def __init__(self, url: str) -> None:
        self.url = url
        self.location = location_of(url)
        with explain_errors(self.location):
            self.server = prepare(url, self.location)
        self.changes = ChangeSender(url)
        self._references = 0
        self._is_ending = False
        self._pool: ConnectionPool[Session] = ConnectionPool(
            url,
            kwargs=connection_options(),
            min_size=0,
            max_size=LIMITS.server_connections,
            timeout=_WAIT_SECONDS,
            reconnect_timeout=2.0,
            configure=self._configure,
            num_workers=2,
            open=False,
            name=f"recollect {self.location}",
        )

    @classmethod
    def acquire(cls, url: str) -> Pool:
        """The pool for a URL. The first caller opens it; the last to call `release` closes it."""
        with cls._pools_lock:
            exists = url in cls._pools
        pool = None
        if not exists:
            # Connect without the lock: a server that does not answer must not block others.
            pool = cls(url)
        with cls._pools_lock:
            pool = cls._pools.get(url, pool)
            if pool is not None:
                if pool._references == 0:
                    cls._pools[url] = pool
                    pool._pool.open()
                pool._references += 1
                pool._is_ending = False
                return pool
        # The pool existed at first but has been closed in the meantime.
        return cls.acquire(url)

    @classmethod
    def statistics(cls, url: str) -> dict[str, int]:
        """How the pool for a URL is used, as psycopg counts it. Empty if there is no pool."""
        with cls._pools_lock:
            pool = cls._pools.get(url)
        if pool is None:
            return {}
        return pool._pool.get_stats()

    @classmethod
    def stop_waiting(cls, url: str) -> None:
        """Let everybody fail soon who waits for a server that is away.

        For the end of a process. Whoever opens another library waits again.
        """
        with cls._pools_lock:
            pool = cls._pools.get(url)
        if pool is not None:
            pool._is_ending = True

    def release(self) -> None:
        with self._pools_lock:
            self._references -= 1
            if self._references:
                return
            del self._pools[self.url]
        self.changes.close()
        self._pool.close()

    def connect(self) -> Session:
        """A connection outside the pool, which does not count towards its size."""
        connection = psycopg.connect(self.url, **connection_options())
        try:
            self._configure(connection)
        except BaseException:  # nobody else would close the connection
            connection.close()
            raise
        return connection

    def _configure(self, connection: Session) -> None:
        self.server.configure(connection)
        connection.execute(SESSION_SETTINGS)

    @contextmanager
    def connection(self, deadline: float) -> Iterator[Session]:
        """A connection of the pool, which discards it afterwards if it is broken.

        Waits for one until the deadline.
        """
        connection = self._get_connection(deadline)
        try:
            yield connection
        finally:
            self._return(connection)

    def _return(self, connection: Session) -> None:
        status = connection.pgconn.transaction_status
        try:
            if status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                with suppress(psycopg.Error):
                    connection.execute("rollback", prepare=False)
        finally:
            self._pool.putconn(connection)

    def _get_connection(self, deadline: float) -> Session:
        while True:
            remaining = deadline - time.monotonic()
            try:
                return self._pool.getconn(max(min(_WAIT_SECONDS, remaining), 0.05))
            except PoolClosed:
                raise RecollectError("This library is closed.") from None
            except PoolTimeout as error:
                if self._is_ending:
                    raise StoreUnavailable(
                        f"The PostgreSQL server {self.location} was away when the program ended."
                    ) from error
                if time.monotonic() >= deadline:
                    raise self._timeout_error() from error

    def _timeout_error(self) -> RecollectError:
        """Find out why there was no connection in time, by connecting once more."""
        try:
            with connect_as_login(self.url, self.location):
                return StoreBusy(
                    f"There was no connection to {self.location} for "
                    f"{LIMITS.write_wait_seconds:g} seconds: all {LIMITS.server_connections} are "
                    "in use, or the server was unavailable until now. Try again."
                )
        except RecollectError as error:
            return error
