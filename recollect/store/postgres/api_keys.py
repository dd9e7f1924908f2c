"""API keys and sessions in a PostgreSQL database.

The keys have their own schema, which is created with the first key. They are read with the role
that logs in, because the application's role has no access to them. A login other than the one that
created the first key needs the role `recollect_keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect.errors import StoreUnavailable
from recollect.language.text import micros
from recollect.settings import READ_ONLY
from recollect.store.api_keys import (
    COLUMNS,
    MAX_SESSIONS_EACH_USER,
    SESSION_COLUMNS,
    SESSION_USED_AT_INTERVAL,
    USED_AT_INTERVAL,
    ApiKey,
    ApiKeys,
    KeysUnavailable,
    Session,
    from_row,
    no_key,
    no_session,
    session_from_row,
    to_row,
)
from recollect.store.postgres.server_errors import explain_error, location_of

T = TypeVar("T")
Database = psycopg.Connection[Any]

ROLE = "recollect_keys"
_TABLE = "recollect_keys.api_key"
_SESSIONS = "recollect_keys.session"
_REPLACEMENTS = "recollect_keys.replacement"
_LOCK = 0x5265636B
_SCHEMA = f"""
create schema if not exists recollect_keys;
create table if not exists {_TABLE} (
  id text primary key,
  hash bytea not null,
  "user" text not null,
  name text not null,
  scopes text not null,
  toolsets text,
  agent boolean not null,
  created_at bigint not null,
  expires_at bigint,
  revoked_at bigint,
  used_at bigint
);
create table if not exists {_REPLACEMENTS} (id text primary key, successor text not null);
create table if not exists {_SESSIONS} (
  id text primary key,
  hash bytea not null unique,
  key text not null,
  "user" text not null,
  scopes text not null,
  toolsets text,
  agent boolean not null,
  credential text not null,
  created_at bigint not null,
  used_at bigint not null,
  expires_at bigint not null,
  user_agent text not null,
  address text not null
);
revoke all on schema recollect_keys from public;
"""
_GRANTS = f"""
grant usage on schema recollect_keys to {ROLE};
grant select, insert, update on {_TABLE} to {ROLE};
grant select, insert on {_REPLACEMENTS} to {ROLE};
grant select, insert, update, delete on {_SESSIONS} to {ROLE};
"""
_COLUMN_NAMES = ", ".join(f'"{column}"' for column in COLUMNS)
_SELECT = f"select {_COLUMN_NAMES} from {_TABLE}"
_SESSION_COLUMN_NAMES = ", ".join(f'"{column}"' for column in SESSION_COLUMNS)
_SELECT_SESSION = f"select {_SESSION_COLUMN_NAMES} from {_SESSIONS}"
_DROP_SESSIONS = f"""
delete from {_SESSIONS} where expires_at <= %s or id in (
  select id from {_SESSIONS} where "user" = %s order by used_at desc offset %s
)
"""


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
            kwargs={"autocommit": True, "connect_timeout": 5, "application_name": "recollect keys"},
        )
        self._exists = False

    def add(self, key: ApiKey) -> None:
        def work(db: Database) -> None:
            self._require_tables(db)
            _insert(db, _TABLE, _COLUMN_NAMES, to_row(key))

        self._run(work)

    def replace(self, id: str, key: ApiKey, until: datetime) -> None:
        def work(db: Database) -> None:
            self._require_tables(db)
            with db.transaction():
                row = db.execute(
                    f"update {_TABLE} set expires_at = least(expires_at, %s) where id = %s "
                    "returning id",
                    [micros(until), id],
                ).fetchone()
                if row is None:
                    raise no_key(id)
                _insert(db, _TABLE, _COLUMN_NAMES, to_row(key))
                _insert(db, _REPLACEMENTS, "id, successor", (id, key.id))

        if "\0" in id:
            raise no_key(id)
        self._run(work)

    def replacements(self) -> dict[str, str]:
        def work(db: Database) -> dict[str, str]:
            if not self._has_tables(db):
                return {}
            return dict(db.execute(f"select id, successor from {_REPLACEMENTS}").fetchall())

        return self._run(work)

    def find(self, id: str) -> ApiKey | None:
        def work(db: Database) -> ApiKey | None:
            if "\0" in id or not self._has_tables(db):
                return None
            row = db.execute(f"{_SELECT} where id = %s", [id]).fetchone()
            if row is None:
                return None
            key = from_row(row)
            now = _now()
            if now - (micros(key.used_at) or 0) > USED_AT_INTERVAL and not READ_ONLY.get():
                db.execute(f"update {_TABLE} set used_at = %s where id = %s", [now, id])
            return key

        return self._run(work)

    def all_keys(self) -> list[ApiKey]:
        def work(db: Database) -> list[ApiKey]:
            if not self._has_tables(db):
                return []
            rows = db.execute(f"{_SELECT} order by created_at, id").fetchall()
            return [from_row(row) for row in rows]

        return self._run(work)

    def revoke(self, id: str, at: datetime) -> None:
        def work(db: Database) -> object:
            if "\0" in id or not self._has_tables(db):
                return None
            return db.execute(
                f"update {_TABLE} set revoked_at = coalesce(revoked_at, %s) where id = %s "
                "returning id",
                [micros(at), id],
            ).fetchone()

        if self._run(work) is None:
            raise no_key(id)

    def has_any(self) -> bool:
        def work(db: Database) -> bool:
            if not self._has_tables(db):
                return False
            return db.execute(f"select 1 from {_TABLE} limit 1").fetchone() is not None

        return self._run(work)

    def add_session(self, session: Session) -> None:
        def work(db: Database) -> None:
            self._require_tables(db)
            with db.transaction():
                db.execute(_DROP_SESSIONS, [_now(), session.user, MAX_SESSIONS_EACH_USER - 1])
                _insert(db, _SESSIONS, _SESSION_COLUMN_NAMES, to_row(session))

        self._run(work)

    def find_session(self, hash: bytes) -> Session | None:
        def work(db: Database) -> Session | None:
            if not self._has_tables(db):
                return None
            row = db.execute(f"{_SELECT_SESSION} where hash = %s", [hash]).fetchone()
            if row is None:
                return None
            session = session_from_row(row)
            now = _now()
            is_due = now - (micros(session.used_at) or 0) > SESSION_USED_AT_INTERVAL
            if is_due and not READ_ONLY.get():
                db.execute(f"update {_SESSIONS} set used_at = %s where hash = %s", [now, hash])
            return session

        return self._run(work)

    def all_sessions(self) -> list[Session]:
        def work(db: Database) -> list[Session]:
            if not self._has_tables(db):
                return []
            statement = f"{_SELECT_SESSION} where expires_at > %s order by used_at desc, id"
            return [session_from_row(row) for row in db.execute(statement, [_now()]).fetchall()]

        return self._run(work)

    def end_session(self, id: str) -> None:
        def work(db: Database) -> object:
            if "\0" in id or not self._has_tables(db):
                return None
            statement = f"delete from {_SESSIONS} where id = %s returning id"
            return db.execute(statement, [id]).fetchone()

        if self._run(work) is None:
            raise no_session(id)

    def close(self) -> None:
        self._pool.close()

    def _require_tables(self, db: Database) -> None:
        if not self._has_tables(db):
            create_tables(db)

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


def _insert(db: Database, table: str, columns: str, row: Sequence[Any]) -> None:
    parameters = ", ".join(["%s"] * len(row))
    db.execute(f"insert into {table} ({columns}) values ({parameters})", row)


def _now() -> int:
    return micros(datetime.now(UTC)) or 0
