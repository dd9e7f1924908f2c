"""API keys in a PostgreSQL database.

The keys have their own schema, which is created with the first key. They are read with the role
that logs in, because the application's role has no access to them. A login other than the one that
created the first key needs the role `recollect_keys`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect.errors import NotFound, RecollectError, StoreUnavailable
from recollect.language.text import micros, truncate
from recollect.store.api_keys import (
    COLUMNS,
    USED_AT_INTERVAL,
    ApiKey,
    ApiKeys,
    from_row,
    to_row,
)
from recollect.store.postgres.server_errors import explain_error, location_of

T = TypeVar("T")
Session = psycopg.Connection[Any]

ROLE = "recollect_keys"
_TABLE = "recollect_keys.api_key"
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
revoke all on schema recollect_keys from public;
"""
_GRANTS = f"""
grant usage on schema recollect_keys to {ROLE};
grant select, insert, update on {_TABLE} to {ROLE};
"""
_COLUMN_NAMES = ", ".join(f'"{column}"' for column in COLUMNS)
_SELECT = f"select {_COLUMN_NAMES} from {_TABLE}"


class PostgresKeys(ApiKeys):
    def __init__(self, url: str) -> None:
        self._location = location_of(url)
        self._pool: ConnectionPool[Session] = ConnectionPool(
            url,
            min_size=0,
            max_size=4,
            timeout=5,
            open=False,
            check=ConnectionPool.check_connection,
            kwargs={"autocommit": True, "connect_timeout": 5, "application_name": "recollect keys"},
        )
        self._table_exists = False

    def add(self, key: ApiKey) -> None:
        def work(db: Session) -> None:
            if not self._has_table(db):
                _set_up(db)
            parameters = ", ".join(["%s"] * len(COLUMNS))
            db.execute(f"insert into {_TABLE} ({_COLUMN_NAMES}) values ({parameters})", to_row(key))

        self._run(work)

    def find(self, id: str) -> ApiKey | None:
        def work(db: Session) -> ApiKey | None:
            if "\0" in id or not self._has_table(db):
                return None
            row = db.execute(f"{_SELECT} where id = %s", [id]).fetchone()
            if row is None:
                return None
            key = from_row(row)
            now = micros(datetime.now(UTC)) or 0
            if now - (micros(key.used_at) or 0) > USED_AT_INTERVAL:
                db.execute(f"update {_TABLE} set used_at = %s where id = %s", [now, id])
            return key

        return self._run(work)

    def all_keys(self) -> list[ApiKey]:
        def work(db: Session) -> list[ApiKey]:
            if not self._has_table(db):
                return []
            rows = db.execute(f"{_SELECT} order by created_at, id").fetchall()
            return [from_row(row) for row in rows]

        return self._run(work)

    def revoke(self, id: str, at: datetime) -> None:
        def work(db: Session) -> object:
            if "\0" in id or not self._has_table(db):
                return None
            return db.execute(
                f"update {_TABLE} set revoked_at = coalesce(revoked_at, %s) where id = %s "
                "returning id",
                [micros(at), id],
            ).fetchone()

        if self._run(work) is None:
            raise NotFound(
                f"There is no key {truncate(id, 40)!r}. `recollect keys list` shows them."
            )

    def has_any(self) -> bool:
        def work(db: Session) -> bool:
            if not self._has_table(db):
                return False
            return db.execute(f"select 1 from {_TABLE} limit 1").fetchone() is not None

        return self._run(work)

    def close(self) -> None:
        self._pool.close()

    def _has_table(self, db: Session) -> bool:
        if not self._table_exists:
            row = db.execute("select from pg_tables where schemaname = %s", [ROLE]).fetchone()
            self._table_exists = row is not None
        return self._table_exists

    def _run(self, work: Callable[[Session], T]) -> T:
        self._pool.open()
        try:
            with self._pool.connection() as db:
                return work(db)
        except PoolTimeout as error:
            raise StoreUnavailable(
                f"The PostgreSQL server {self._location} cannot be reached."
            ) from error
        except errors.InsufficientPrivilege as error:
            raise RecollectError(
                f"This login may not use the API keys of {self._location} "
                f"({error.diag.message_primary}). The login that created the first key can allow "
                f"it: grant {ROLE} to this login (docs/accounts.md)."
            ) from error
        except psycopg.Error as error:
            raise explain_error(error, self._location) from error


def _set_up(db: Session) -> None:
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
