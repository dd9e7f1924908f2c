"""Connections to a PostgreSQL server, and a pool of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

T = TypeVar("T")

WAIT_SECONDS = 2.5
"""How long to wait for a connection before checking the deadline again."""
CONNECTION_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    # Prepare a statement on the server when it has been used this often.
    "prepare_threshold": 3,
    "application_name": "recollect",
    "connect_timeout": 5,
    # Both sides notice after a minute that the other machine has disappeared.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# Compiling a plan (`jit`) takes longer than any of our statements.
# With synchronous_commit off, the server would confirm commits that are not on its disk yet.
SESSION_SETTINGS = """set jit = off;
  set tcp_keepalives_idle = 30; set tcp_keepalives_interval = 10;
  set tcp_keepalives_count = 3;
  select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') = 'off'"""

# A name of a file of the log begins with it. A replica has none, but searches there are checked.
TIMELINE = """case when pg_is_in_recovery() then 0
  else ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer end"""


class Session(psycopg.Connection[Any]):
    """A connection that can give up waiting for the server."""

    response_timeout: float | None = None
    """In seconds. None waits without limit."""
    timeline = 0
    """Another one begins when a replica becomes the primary."""
    transaction_count = 0
    """How many transactions could have used generic plans."""

    def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        if self.response_timeout is not None:
            gen = self._limit_wait(gen, self.response_timeout)
        return super().wait(gen, *arguments, **options)

    def _limit_wait(self, gen: PQGen[T], seconds: float) -> PQGen[T]:
        """Wrap a generator that waits for the server.

        psycopg resumes it several times a second, even when nothing has arrived.
        """
        deadline = time.monotonic() + seconds
        try:
            operation = next(gen)
            while True:
                ready = yield operation
                if not ready and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server does not answer")
                operation = gen.send(ready)
        except StopIteration as stop:
            value: T = stop.value
            return value


def new_session_pool(
    url: str, location: str, connections: int, configure: Callable[[Session], None]
) -> ConnectionPool[Session]:
    """A pool that is not open yet, with at most this many connections.

    It connects when one is needed.
    """
    return ConnectionPool(
        url,
        connection_class=Session,
        kwargs=CONNECTION_OPTIONS,
        min_size=0,
        max_size=connections,
        timeout=WAIT_SECONDS,
        reconnect_timeout=2.0,
        configure=configure,
        num_workers=2,
        open=False,
        name=f"recollect {location}",
    )


def return_session(pool: ConnectionPool[Session], session: Session) -> None:
    """Give a connection back. The pool discards it if it is broken."""
    status = session.pgconn.transaction_status
    try:
        if status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
            with suppress(psycopg.Error):
                session.execute("rollback", prepare=False)
    finally:
        pool.putconn(session)
