"""All replicas of a database, and the threads that check them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import psycopg

from recollect.store.postgres.connections.capabilities import Server
from recollect.store.postgres.connections.server_errors import first_line, location_of
from recollect.store.postgres.connections.sessions import CONNECTION_OPTIONS, Session
from recollect.store.postgres.replicas.freshness import LogPositions, OwnWrites
from recollect.store.postgres.replicas.replica import (
    BEGIN_SECONDS,
    Identity,
    Replica,
    ReplicaStatus,
)

log = logging.getLogger(__name__)

# What has been committed is in the part of the log that was flushed.
_PRIMARY_STATE = """select (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint,
  (select system_identifier from pg_control_system()),
  (select oid::bigint from pg_database where datname = current_database()),
  pg_walfile_name(pg_current_wal_lsn())"""
_TIMELINE_DIGITS = 8
_LONGEST_INTERVAL = 2.0
_CHECKS_PER_LIMIT = 5
_CLOSE_SECONDS = 2.0
_POLL_SECONDS = 0.1
_CLUSTER = "a cluster does not use replicas"


class Replicas:
    """Thread-safe. The first search starts the checks; until they have run, it uses the primary."""

    def __init__(self, url: str, server: Server, addresses: Sequence[str], seconds: float) -> None:
        self._url = url
        self._is_cluster = server.is_cluster
        self._interval = min(_LONGEST_INTERVAL, seconds / _CHECKS_PER_LIMIT)
        self.writes = OwnWrites(seconds)
        self._primary: Identity | None = None
        self._positions = LogPositions()
        self._session: Session | None = None
        """The connection to the primary."""
        self._replicas: list[Replica] = []
        self._addresses = addresses
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        if addresses and server.is_cluster:
            log.warning("RECOLLECT_REPLICAS is ignored: %s.", _CLUSTER)
        elif addresses:
            self._replicas = [
                Replica(address, server, seconds, self._positions) for address in addresses
            ]

    def __bool__(self) -> bool:
        return bool(self._replicas)

    def statuses(self) -> list[ReplicaStatus]:
        if self._is_cluster:
            return [ReplicaStatus(location_of(address), _CLUSTER) for address in self._addresses]
        return [replica.status() for replica in self._replicas]

    def choose(self, owner: int) -> Replica | None:
        """A replica that can be used. A user has the same one as long as none fails."""
        if self._replicas and not self._threads:
            self._start()
        usable = [replica for replica in self._replicas if not replica.problem]
        if not usable:
            return None
        return usable[owner % len(usable)]

    # -- checks ---

    def check(self) -> None:
        """Check the primary and all replicas now."""
        self.check_primary()
        for replica in self._replicas:
            self._check(replica)

    def _check(self, replica: Replica) -> None:
        replica.check(self._primary)

    def check_primary(self) -> None:
        """Note where its log ends."""
        at = time.monotonic()
        try:
            if self._session is None:
                self._session = Session.connect(self._url, **CONNECTION_OPTIONS)
                self._session.response_timeout = BEGIN_SECONDS
            ((position, system, database, file),) = self._session.execute(_PRIMARY_STATE).fetchall()
        except psycopg.Error as error:
            if self._primary is not None:
                log.warning(
                    "No replica is used: the state of the primary cannot be read (%s).",
                    first_line(error),
                )
            self._disconnect()
            self._primary = None
            self._positions.clear()
            return
        primary = Identity(system, database, int(file[:_TIMELINE_DIGITS], 16))
        if self._primary not in (None, primary):
            self._positions.clear()
        self._primary = primary
        self._positions.add(at, position)

    def wait(self, seconds: float) -> None:
        """Let replicas catch up with what `check_primary` noted."""
        deadline = time.monotonic() + seconds
        while any(replica.may_catch_up for replica in self._replicas):
            time.sleep(_POLL_SECONDS)
            for replica in self._replicas:
                self._check(replica)
            if time.monotonic() > deadline:
                return

    def _start(self) -> None:
        # A thread for each server: one that does not answer must not delay the others.
        checks = [self.check_primary, *(partial(self._check, each) for each in self._replicas)]
        with self._lock:
            if self._threads or self._closing.is_set():
                return
            self._threads = [
                threading.Thread(
                    target=self._repeat, args=[check], name="recollect-replica", daemon=True
                )
                for check in checks
            ]
            for thread in self._threads:
                thread.start()

    def _repeat(self, check: Callable[[], None]) -> None:
        # A command ends before the first check, and connects to no replica.
        while not self._closing.wait(self._interval):
            check()

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            threads = self._threads
        for thread in threads:
            thread.join(_CLOSE_SECONDS)
        for replica in self._replicas:
            replica.close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def inspect_replicas(
    url: str, server: Server, addresses: Sequence[str], seconds: float
) -> list[ReplicaStatus]:
    """Check the replicas once. Waits for those that lag, as long as they may lag."""
    with closing(Replicas(url, server, addresses, seconds)) as replicas:
        if replicas:
            replicas.check()
            replicas.wait(seconds)
        return replicas.statuses()
