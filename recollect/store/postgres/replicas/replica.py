"""One replica: whether it can be used, and connections to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import psycopg
from psycopg_pool import PoolTimeout

from recollect.errors import RecollectError
from recollect.settings import LIMITS
from recollect.store.postgres.connections.capabilities import Server
from recollect.store.postgres.connections.server_errors import first_line, location_of
from recollect.store.postgres.connections.sessions import (
    CONNECTION_OPTIONS,
    SESSION_SETTINGS,
    Session,
    new_session_pool,
    return_session,
)
from recollect.store.postgres.replicas.freshness import LogPositions
from recollect.store.postgres.schema.versions import require_supported

log = logging.getLogger(__name__)

BEGIN_SECONDS = 2.0
"""How long a replica may take to begin a transaction."""
_CONNECTION_SECONDS = 1.0
_NOT_CHECKED = "it has not been checked yet"
_UNKNOWN_LAG = "it is not known yet how old it is"
_UNKNOWN_PRIMARY = "the state of the primary is not known"
_NOT_A_REPLICA = "it is not a replica: it accepts writes"
# These are no news: the program has just started, or the primary is away.
_UNREPORTED = (_NOT_CHECKED, _UNKNOWN_LAG, _UNKNOWN_PRIMARY)
REPLAYED_POSITION = """case when pg_is_in_recovery()
  then (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint end"""
"""Where the log ends that a replica has replayed. Null if the server is not a replica."""
# The timelines of a replica are those of its last restart points: after a failover, they are late.
_STATE = f"""select {REPLAYED_POSITION},
  (select system_identifier from pg_control_system()),
  (select oid::bigint from pg_database where datname = current_database()),
  (select greatest(c.timeline_id, r.min_recovery_end_timeline)
   from pg_control_checkpoint() c, pg_control_recovery() r)"""


class Identity(NamedTuple):
    """What a primary and its replicas have in common."""

    system: int
    database: int
    timeline: int
    """Another one begins when a replica becomes the primary."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    location: str
    problem: str
    """Why it is not used. Empty if it is."""
    seconds_behind: float | None = None
    """How old its state was at most, when it was last checked. None if that is not known."""
    searches: int = 0
    """Transactions that it ran for this process."""
    refusals: int = 0
    """Transactions that were begun there and then ran on the primary."""


class Replica:
    """Thread-safe."""

    def __init__(
        self, url: str, server: Server, seconds: float, primary_positions: LogPositions
    ) -> None:
        self._url = url
        self._server = server
        self._seconds = seconds
        self._primary_positions = primary_positions
        self.location = location_of(url)
        self.problem = _NOT_CHECKED
        self._seconds_behind: float | None = None
        self._searches = 0
        self._refusals = 0
        self._lock = threading.Lock()
        self._session: Session | None = None
        """The connection for checks."""
        self._pool = new_session_pool(
            url, self.location, LIMITS.server_connections, self._configure_for_search
        )
        self._primary: Identity | None = None
        """As of the last check."""
        self._is_closed = False

    def status(self) -> ReplicaStatus:
        return ReplicaStatus(
            self.location, self.problem, self._seconds_behind, self._searches, self._refusals
        )

    @property
    def may_catch_up(self) -> bool:
        """Whether it may only need a little more time to be used."""
        return self.problem == _UNKNOWN_LAG

    def _configure(self, session: Session) -> None:
        self._server.configure(session)
        session.execute(SESSION_SETTINGS)
        require_supported(session, self.location)

    def _configure_for_search(self, session: Session) -> None:
        """Refuse a server that is not the one that was checked: its owners are other people."""
        self._configure(session)
        ((position, *identity),) = session.execute(_STATE).fetchall()
        if position is None or Identity(*identity) != self._primary:
            raise RecollectError("the address leads to another server now")
        session.timeline = self._primary.timeline

    # -- checks ---

    def check(self, primary: Identity | None) -> None:
        """Find out whether the replica can be used. `primary` is None if it is not known."""
        try:
            problem = self._find_problem(primary)
            if not problem and self.problem:
                self._prepare_pool()
        except (psycopg.Error, RecollectError) as error:
            self._disconnect()
            self._seconds_behind = None
            problem = f"it cannot be used ({_reason(error)})"
        self._set_problem(problem)

    def _find_problem(self, primary: Identity | None) -> str:
        if self._session is None:
            self._session = Session.connect(self._url, **CONNECTION_OPTIONS)
            self._session.response_timeout = BEGIN_SECONDS
            self._configure(self._session)
        ((position, *identity),) = self._session.execute(_STATE).fetchall()
        self._seconds_behind = None
        self._primary = primary
        if position is None:
            return _NOT_A_REPLICA
        if primary is None:
            return _UNKNOWN_PRIMARY
        system, database, timeline = identity
        if (system, database) != (primary.system, primary.database):
            return "it is not a replica of this database"
        if timeline != primary.timeline:
            return "it does not follow the primary since the last failover"
        self._seconds_behind = self._primary_positions.seconds_behind(position)
        return self.problem_of_position(position)

    def problem_of_position(self, position: int | None) -> str:
        """Why a state with this position cannot be used. Empty if it can."""
        if position is None:
            return _NOT_A_REPLICA
        seconds = self._primary_positions.seconds_behind(position)
        if seconds is None and self._primary_positions.history_seconds() < self._seconds:
            return _UNKNOWN_LAG
        if seconds is None or seconds > self._seconds:
            return f"it is more than {self._seconds:g} seconds behind the primary"
        return ""

    def _prepare_pool(self) -> None:
        """Open it, or discard connections that broke while the replica was not used."""
        with self._lock:
            if self._is_closed:
                raise RecollectError("the program ends")
            self._pool.open()
        self._pool.check()

    def _set_problem(self, problem: str) -> None:
        with self._lock:
            previous, self.problem = self.problem, problem
        if problem not in ("", previous, *_UNREPORTED):
            log.warning(
                "The replica %s is not used: %s. Searches use the primary, and the replica is "
                "checked again.",
                self.location,
                problem,
            )
        elif previous and not problem:
            log.info("The replica %s answers searches.", self.location)

    # -- use ---

    @contextmanager
    def connection(self) -> Iterator[Session]:
        """Raises psycopg.Error if there is none soon."""
        session = self._get_connection()
        try:
            yield session
        finally:
            return_session(self._pool, session)

    def _get_connection(self) -> Session:
        return self._pool.getconn(_CONNECTION_SECONDS)

    def add_search(self) -> None:
        with self._lock:
            self._searches += 1

    def add_refusal(self, problem: str = "") -> None:
        """A search must use the primary. With a problem, so must all others until a check."""
        with self._lock:
            self._refusals += 1
        if problem:
            self._set_problem(problem)

    def report_error(self, error: psycopg.Error, is_broken: bool) -> None:
        """A search failed on the replica, and continues on the primary.

        It may be the fault of the search, unless the connection is broken.
        """
        self.add_refusal(f"a connection failed ({_reason(error)})" if is_broken else "")

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._pool.close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _reason(error: Exception) -> str:
    if isinstance(error, PoolTimeout):
        return f"there was no connection within {_CONNECTION_SECONDS:g} second"
    if isinstance(error, psycopg.Error):
        return first_line(error)
    return str(error)
