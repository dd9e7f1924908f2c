"""Connections to a PostgreSQL server."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

T = TypeVar("T")

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

# A name of a file of the log begins with it. A replica has none.
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
