"""API keys and sessions in a PostgreSQL database.

The keys have their own schema, which is created with the first key. They are read with the role
that logs in, because the application's role has no access to them. A login other than the one that
created the first key needs the role `recollect_keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect.errors import StoreUnavailable
from recollect.settings import READ_ONLY
from recollect.store.api_keys import SCHEMA, ApiKeys, KeyDatabase, KeysUnavailable
from recollect.store.postgres.connection import number_parameters
from recollect.store.postgres.schema import connection_options
from recollect.store.postgres.server_errors import explain_error, location_of

T = TypeVar("T")
Database = psycopg.Connection[Any]

ROLE = "recollect_keys"
_LOCK = 0x5265636B
_SCHEMA = f"""
create schema if not exists {ROLE};
set local search_path = {ROLE};
{SCHEMA.format(bytes="bytea", flag="boolean")}
revoke all on schema {ROLE} from public;
"""
_GRANTS = f"""
grant usage on schema {ROLE} to {ROLE};
grant select, insert, update on {ROLE}.api_key to {ROLE};
grant select, insert on {ROLE}.replacement to {ROLE};
grant select, insert, update, delete on {ROLE}.session to {ROLE};
"""


class _Keys:
    """A connection, as a `KeyDatabase`."""

    def __init__(self, db: Database) -> None:
        self._cursor = psycopg.RawCursor(db)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._cursor.execute(number_parameters(sql), values).fetchall()

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._cursor.execute(number_parameters(sql), values)


class PostgresKeys(ApiKeys):
    def __init__(self, url: str) -> None:
        self._location = location_of(url)
        self._pool: ConnectionPool[Database] = ConnectionPool(
            url,
            min_size=0,
            max_size=4,
            timeout=5,
            open=False,
            check=ConnectionPool.check_connection,
            configure=configure,
            kwargs=connection_options("keys"),
        )
        self._exists = False

    def close(self) -> None:
        self._pool.close()

    def _read(self, work: Callable[[KeyDatabase], T], missing: T) -> T:
        return self._run(lambda db: work(_Keys(db)) if self._has_tables(db) else missing)

    def _write(self, work: Callable[[KeyDatabase], T]) -> T:
        def run(db: Database) -> T:
            if not self._has_tables(db):
                create_tables(db)
            with db.transaction():
                return work(_Keys(db))

        return self._run(run)

    def _touch(self, db: KeyDatabase, sql: str, values: Sequence[Any]) -> None:
        if not READ_ONLY.get():
            db.run(sql, values)

    def _has_tables(self, db: Database) -> bool:
        """Whether there are keys. The catalog shows this to any login."""
        if not self._exists:
            statement = "select 1 from pg_tables where schemaname = %s limit 1"
            self._exists = db.execute(statement, [ROLE]).fetchone() is not None
        return self._exists

    def _run(self, work: Callable[[Database], T]) -> T:
        self._pool.open()
        try:
            with self._pool.connection() as db:
                return work(db)
        except PoolTimeout as error:
            raise StoreUnavailable(
                f"The PostgreSQL server {self._location} cannot be reached."
            ) from error
        except errors.InsufficientPrivilege as error:
            raise KeysUnavailable(
                self._location,
                "the database login may not use them",
                f"PostgreSQL says: {error.diag.message_primary}. The login that created the first "
                f"key can allow it: grant {ROLE} to this login (docs/accounts.md).",
            ) from error
        except psycopg.Error as error:
            raise explain_error(error, self._location) from error


def create_tables(db: Database) -> None:
    """Create the schema of the API keys and the role that may use it."""
    with db.transaction():
        # Another process may be doing the same.
        db.execute("select pg_advisory_xact_lock(%s, 0)", [_LOCK])
        db.execute(_SCHEMA)
        with (
            suppress(errors.InsufficientPrivilege, errors.DuplicateObject, errors.UniqueViolation),
            db.transaction(),
        ):
            db.execute(f"create role {ROLE} nologin nobypassrls")
        with suppress(errors.InsufficientPrivilege, errors.UndefinedObject), db.transaction():
            db.execute(_GRANTS)


def configure(db: Database) -> None:
    db.execute(f"set search_path = {ROLE}, pg_temp")
