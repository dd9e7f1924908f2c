"""API keys in a small SQLite database beside the libraries. It is created with the first key."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import apsw

from recollect.errors import NotFound
from recollect.language.text import micros, truncate
from recollect.store.api_keys import (
    COLUMNS,
    USED_AT_INTERVAL,
    ApiKey,
    ApiKeys,
    from_row,
    to_row,
)
from recollect.store.sqlite.connection import Connection, connect, translate_error

T = TypeVar("T")

_SCHEMA = """
create table if not exists api_key (
  id text primary key,
  hash blob not null,
  user text not null,
  name text not null,
  scopes text not null,
  toolsets text,
  agent integer not null,
  created_at integer not null,
  expires_at integer,
  revoked_at integer,
  used_at integer
)
"""
_SELECT = f"select {', '.join(COLUMNS)} from api_key"


class SqliteKeys(ApiKeys):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: Connection | None = None
        self._lock = threading.Lock()

    def add(self, key: ApiKey) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not self._path.exists()

        def work(db: Connection) -> None:
            if is_new:
                # By name: closing a file descriptor would drop SQLite's locks.
                os.chmod(self._path, 0o600)  # noqa: PTH101
            db.run(_SCHEMA)
            db.insert("api_key", COLUMNS, [to_row(key)])

        self._run(work)

    def find(self, id: str) -> ApiKey | None:
        if not self._path.exists():
            return None

        def work(db: Connection) -> ApiKey | None:
            rows = db.rows(f"{_SELECT} where id = ?", (id,))
            if not rows:
                return None
            key = from_row(rows[0])
            now = micros(datetime.now(UTC)) or 0
            if now - (micros(key.used_at) or 0) > USED_AT_INTERVAL:
                db.run("update api_key set used_at = ? where id = ?", (now, id))
            return key

        return self._run(work)

    def all_keys(self) -> list[ApiKey]:
        if not self._path.exists():
            return []
        return self._run(
            lambda db: [from_row(row) for row in db.rows(f"{_SELECT} order by created_at, id")]
        )

    def revoke(self, id: str, at: datetime) -> None:
        def work(db: Connection) -> object:
            return db.get(
                "update api_key set revoked_at = coalesce(revoked_at, ?) where id = ? returning id",
                (micros(at), id),
            )

        if not self._path.exists() or self._run(work) is None:
            raise NotFound(
                f"There is no key {truncate(id, 40)!r}. `recollect keys list` shows them."
            )

    def has_any(self) -> bool:
        return self._path.exists() and self._run(
            lambda db: bool(db.get("select exists (select 1 from api_key)"))
        )

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self._lock:
            try:
                if self._db is None:
                    self._db = connect(self._path)
                return work(self._db)
            except apsw.Error as error:
                raise translate_error(error, self._path) from error
