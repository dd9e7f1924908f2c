"""The schema `recollect_server`, which the servers of a PostgreSQL installation share.

It is used with the role that logs in, because the application's role has no access to it. A login
other than the one that created the schema needs the role `recollect_server`. On a cluster, the
tables stay on the coordinator.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect.errors import ReadOnlyLibrary, RecollectError, StoreUnavailable
from recollect.language.text import storable
from recollect.settings import LIMITS, READ_ONLY
from recollect.store.postgres.connection import number_parameters
from recollect.store.postgres.notifications import CHANNEL, topic_of_tables
from recollect.store.postgres.schema import connection_options
from recollect.store.postgres.server_errors import explain_error, location_of
from recollect.store.shared.database import CONCEPTS, Rows, SharedDatabase, Tables

log = logging.getLogger(__name__)

ROLE = "recollect_server"
_LOCK = 0x52656373
_NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
_TYPES = {
    "bytes": "bytea",
    "identity": "bigint generated always as identity primary key",
}
_GRANTS = f"""
grant usage on schema {ROLE} to {ROLE};
grant select, insert, update, delete on all tables in schema {ROLE} to {ROLE};
"""
_WAIT_SECONDS = 2.5
_LAST_WAIT_SECONDS = 0.5  # when the process ends
_MAX_CONNECTIONS = 8


Connection = psycopg.Connection[Any]


def _storable(values: Sequence[Any]) -> list[Any]:
    """Values without NUL, which PostgreSQL refuses; the id of a job in a URL may contain it."""
    return [storable(value) if isinstance(value, str) else value for value in values]


class _Transaction:
    """See `store.shared.database.Transaction`."""

    now = _NOW
    for_update = "for update"
    skip_locked = "for update skip locked"

    def __init__(self, session: Connection) -> None:
        self._cursor = psycopg.RawCursor(session)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        self._cursor.execute(number_parameters(sql), _storable(values))
        if self._cursor.description is None:
            return []
        return self._cursor.fetchall()

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        for row in self.rows(sql, values):
            return row[0]
        return None

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._cursor.execute(number_parameters(sql), _storable(values))

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self._cursor.executemany(number_parameters(sql), list(values))

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        is_text = len(values) > 0 and isinstance(values[0], str)
        type_name = "text" if is_text else "bigint"
        return f"select unnest(?::{type_name}[])", list(values)


class PostgresSharedDatabase(SharedDatabase):
    engine = "postgresql"
    now = _NOW

    def __init__(self, url: str) -> None:
        self._location = location_of(url)
        self._existing_tables: set[str] = set()
        self._is_ending = False
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            kwargs=connection_options("server"),
            min_size=0,
            max_size=_MAX_CONNECTIONS,
            timeout=_WAIT_SECONDS,
            configure=configure,
            check=ConnectionPool.check_connection,
            open=False,
            name=f"recollect server {self._location}",
        )

    @contextmanager
    def transaction(self, tables: Tables) -> Iterator[_Transaction]:
        with self._session(tables) as session:
            # Without a wait for the disk, if the tables need none.
            begin = "begin"
            if not tables.is_durable:
                begin += "; set local synchronous_commit = off"
            session.execute(begin)
            try:
                yield _Transaction(session)
                session.execute("commit")
            except BaseException:  # whatever happened, nothing is committed
                with suppress(psycopg.Error):
                    session.execute("rollback")
                raise

    def execute(self, tables: Tables, sql: str, values: Sequence[Any] = ()) -> Rows:
        with self._session(tables, is_reading=sql.lstrip().startswith("select")) as session:
            return _Transaction(session).rows(sql, values)

    def announce(self, tables: Tables) -> None:
        try:
            self.execute(tables, "select pg_notify(?, ?)", (CHANNEL, topic_of_tables(tables)))
        except RecollectError as error:
            log.info("A change was not announced: %s", type(error).__name__)

    def stop_waiting(self) -> None:
        self._is_ending = True

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _session(self, tables: Tables, is_reading: bool = False) -> Iterator[Connection]:
        is_read_only = READ_ONLY.get()
        if is_read_only and not is_reading:
            raise read_only_error()
        try:
            session = self._get_session()
            try:
                if tables.name not in self._existing_tables:
                    if is_read_only and not has_tables(session, tables):
                        raise read_only_error()
                    create_tables(session, tables)
                    self._existing_tables.add(tables.name)
                yield session
            finally:
                self._pool.putconn(session)
        except errors.InsufficientPrivilege as error:
            raise RecollectError(
                f"The database login may not use what the servers at {self._location} share. "
                f"PostgreSQL says: {error.diag.message_primary}. The login of the first server can "
                f"allow it: grant {ROLE} to this login (docs/postgres.md)."
            ) from error
        except psycopg.Error as error:
            raise explain_error(error, self._location) from error

    def _get_session(self) -> Connection:
        """A connection. Waits for the server as long as a write does, or while the process runs."""
        self._pool.open()
        deadline = time.monotonic() + LIMITS.write_wait_seconds
        while True:
            try:
                return self._pool.getconn(_LAST_WAIT_SECONDS if self._is_ending else _WAIT_SECONDS)
            except PoolTimeout as error:
                if self._is_ending or time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"The PostgreSQL server {self._location} cannot be reached."
                    ) from error


def read_only_error() -> ReadOnlyLibrary:
    return ReadOnlyLibrary(f"Recollect is in read-only mode ({READ_ONLY.name}).")


def create_shared_tables(url: str, concepts: Iterable[Tables]) -> None:
    """Create the tables of these concepts, and the role that may use them."""
    with psycopg.connect(url, **connection_options("server")) as session:
        configure(session)
        for tables in concepts:
            create_tables(session, tables)


def configure(session: Connection) -> None:
    session.execute(f"set search_path = {ROLE}, pg_temp; set client_min_messages = warning")


def create_tables(session: Connection, tables: Tables) -> None:
    if has_tables(session, tables):
        return
    with session.transaction():
        # Another process may be doing the same.
        session.execute("select pg_advisory_xact_lock(%s, 0)", [_LOCK])
        session.execute(f"create schema if not exists {ROLE}")
        session.execute(f"revoke all on schema {ROLE} from public")
        session.execute(CONCEPTS)
        if not has_tables(session, tables):
            for statement in tables.statements:
                session.execute(statement.format(**_TYPES))
            session.execute("insert into concept (name) values (%s)", [tables.name])
        grant_access(session)


def has_tables(session: Connection, tables: Tables) -> bool:
    statement = "select to_regclass(%s) is not null"
    ((exists,),) = session.execute(statement, [f"{ROLE}.concept"]).fetchall()
    if not exists:
        return False
    rows = session.execute("select 1 from concept where name = %s", [tables.name]).fetchall()
    return bool(rows)


def grant_access(session: Connection) -> None:
    with (
        suppress(errors.InsufficientPrivilege, errors.DuplicateObject, errors.UniqueViolation),
        session.transaction(),
    ):
        session.execute(f"create role {ROLE} nologin nobypassrls")
    with suppress(errors.InsufficientPrivilege, errors.UndefinedObject), session.transaction():
        session.execute(_GRANTS)
