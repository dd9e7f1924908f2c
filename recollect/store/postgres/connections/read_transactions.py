"""The reads of one user on a PostgreSQL server, and how broken transactions are retried.

Every transaction sets its owner first, and row-level security hides all other rows. If the
connection breaks, a transaction is retried on a new connection until the deadline.

A search makes several reads. Inside `snapshot`, the reads of a thread share one transaction, which
begins with the first of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from recollect.errors import RecollectError, SearchTimeout
from recollect.priority import searching
from recollect.settings import LIMITS
from recollect.store.postgres.connections.capabilities import Server
from recollect.store.postgres.connections.connection import GENERIC_PLANS, Connection, set_owner
from recollect.store.postgres.connections.pool import Pool
from recollect.store.postgres.connections.server_errors import explain_error, is_worker_lost

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

# A transaction that breaks its connection this often is given up: it may be the cause.
_ATTEMPTS = 5
# Seconds to wait for a worker that is away, at first and at most.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
# The server should cancel a search at its time limit. If it does not, we stop waiting this many
# seconds later.
_HANG_SECONDS = 5.0


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


class ReadTransactions:
    """The reads, and what they have in common with the writes."""

    def __init__(self, url: str) -> None:
        self._pool = Pool.acquire(url)
        self.owner = 0
        self._is_closed = False
        self._local = threading.local()

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

    def read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        """Run `work` on a snapshot. With `seconds`, no statement may take much longer.

        A server limits the time of a statement, not its CPU time. On a busy computer, statements
        take several times as long, so the limit is longer as well.
        """
        if self._snapshot.depth:
            return self._read_in_snapshot(work)
        timeout = 0
        response_timeout = None
        if seconds is not None:
            timeout, response_timeout = _time_limits(seconds)
        begin = [*self._begin_read_sql(timeout), "select 1"]

        def attempt(db: Connection, _: Rows) -> T:
            db.is_reading = True
            if seconds is None:
                value = work(db)
            else:
                value = _search(work, db)
            db.commit()
            return value

        return self._retry(lambda: begin, attempt, new_deadline(), response_timeout)

    def _begin_read_sql(self, timeout: int) -> list[str]:
        return [
            "begin isolation level repeatable read read only",
            set_owner(self.owner),
            f"set local statement_timeout = {timeout}",
        ]

    # -- snapshots ---

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

    def release_snapshot(self) -> None:
        """Give the connection back. The next read begins another transaction."""
        self._snapshot.end()

    def _read_in_snapshot(self, work: Callable[[Connection], T]) -> T:
        snapshot = self._snapshot
        if snapshot.db is not None:
            try:
                return _search(work, snapshot.db)
            except SearchTimeout:
                snapshot.end()
                raise
            except psycopg.Error as error:
                is_broken = snapshot.db.is_broken
                snapshot.end()
                if not is_broken and not is_worker_lost(error):
                    raise explain_error(error, self.location) from error
        timeout, response_timeout = _time_limits(LIMITS.search_seconds)
        begin = [*self._begin_read_sql(timeout), *self._plan_settings(generic_plans=True)]

        def attempt(db: Connection, _: Rows) -> T:
            db.is_reading = True
            return _search(work, db)

        return self._retry(lambda: begin, attempt, new_deadline(), response_timeout, snapshot)

    # -- attempts ---

    def _plan_settings(self, generic_plans: bool) -> list[str]:
        # In a cluster, the workers plan.
        if generic_plans and not self.server.is_cluster:
            return [GENERIC_PLANS]
        return []

    def _retry(
        self,
        begin_sql: Callable[[], Sequence[str]],
        attempt: Callable[[Connection, Rows], T],
        deadline: float,
        response_timeout: float | None = None,
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
                session.response_timeout = response_timeout
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


def _time_limits(seconds: float) -> tuple[int, float]:
    """The time limit of a statement in milliseconds, and that of waiting for it in seconds."""
    limit = seconds * LIMITS.search_slowdown
    return max(1, round(limit * 1000)), limit + _HANG_SECONDS


def _search(work: Callable[[Connection], T], db: Connection) -> T:
    try:
        return work(db)
    except errors.QueryCanceled as error:
        raise SearchTimeout(
            "The search took too long and was stopped. Use rarer words or a narrower filter."
        ) from error


def new_deadline() -> float:
    return time.monotonic() + LIMITS.write_wait_seconds
