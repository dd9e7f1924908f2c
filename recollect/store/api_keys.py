"""API keys and console sessions: who may use the network interfaces, and what for.

Only hashes of keys and session ids are stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from recollect.errors import NotFound, StoreUnavailable
from recollect.language.text import from_micros, micros, truncate

T = TypeVar("T")
R = TypeVar("R", "ApiKey", "Session")
Rows = list[tuple[Any, ...]]

USED_AT_INTERVAL = 3_600_000_000
"""Microseconds between two updates of a key's `used_at`, so that most requests write nothing."""
SESSION_USED_AT_INTERVAL = 300_000_000
"""The same for sessions."""
MAX_SESSIONS_EACH_USER = 100
"""Beyond that, the sessions that were used least recently end."""


class KeysUnavailable(StoreUnavailable):
    """The API keys cannot be read, so nobody can be let in."""

    def __init__(self, place: str, reason: str, advice: str) -> None:
        super().__init__(f"The API keys in {place} cannot be read: {reason}. {advice}")
        self.reason = reason
        """For clients. It names neither folders nor servers."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key: `id` is its public part, `hash` the hash of its secret part."""

    id: str
    hash: bytes
    user: str
    name: str
    scopes: tuple[str, ...]
    toolsets: tuple[str, ...] | None
    """The groups of routes and tools that the key is for; None means all."""
    agent: bool
    """Whether the key belongs to an agent, which does not see human-only messages."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A login to the console. It may do what its API key or token may do."""

    id: str
    """Names the session in lists. It is not secret."""
    hash: bytes
    """The hash of the secret in the cookie."""
    key: str
    """The id of the API key; empty if the person logged in with a token."""
    user: str
    scopes: tuple[str, ...]
    toolsets: tuple[str, ...] | None
    agent: bool
    credential: str
    """Names the API key or token in logs."""
    created_at: datetime
    used_at: datetime
    expires_at: datetime
    user_agent: str
    address: str
    """The network of the client: its last part is left out."""


COLUMNS, SESSION_COLUMNS = (
    tuple(field.name for field in fields(kind)) for kind in (ApiKey, Session)
)

SCHEMA = """
create table if not exists api_key (
  id text primary key,
  hash {bytes} not null,
  "user" text not null,
  name text not null,
  scopes text not null,
  toolsets text,
  agent {flag} not null,
  created_at bigint not null,
  expires_at bigint,
  revoked_at bigint,
  used_at bigint
);
create table if not exists replacement (id text primary key, successor text not null);
create table if not exists session (
  id text primary key,
  hash {bytes} not null unique,
  key text not null,
  "user" text not null,
  scopes text not null,
  toolsets text,
  agent {flag} not null,
  credential text not null,
  created_at bigint not null,
  used_at bigint not null,
  expires_at bigint not null,
  user_agent text not null,
  address text not null
);
"""
"""The tables, with the types of binary values and flags, which differ."""
_TABLES: dict[type[Any], str] = {ApiKey: "api_key", Session: "session"}
_DROP_SESSIONS = """
delete from session where expires_at <= ? or id in (
  select id from session where "user" = ? order by used_at desc limit 1000000 offset ?
)
"""


class KeyDatabase(Protocol):
    """A connection to the keys. Statements have `?` for values."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Rows: ...

    def run(self, sql: str, values: Sequence[Any] = ()) -> None: ...


class ApiKeys(ABC):
    """The API keys of a place. Safe to use from any thread and process.

    Raises KeysUnavailable if they exist but cannot be read.
    """

    # -- what a database provides ---

    @abstractmethod
    def _read(self, work: Callable[[KeyDatabase], T], missing: T) -> T:
        """Run `work`, or return `missing` if there never was a key or session."""

    @abstractmethod
    def _write(self, work: Callable[[KeyDatabase], T]) -> T:
        """Run `work` in a transaction. Creates the tables."""

    @abstractmethod
    def _touch(self, db: KeyDatabase, sql: str, values: Sequence[Any]) -> None:
        """Update a time of last use, if that is possible. The key is valid all the same."""

    @abstractmethod
    def close(self) -> None: ...

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        missing: Rows = []
        return self._read(lambda db: db.rows(sql, values), missing)

    def _find(self, kind: type[R], column: str, value: Any, interval: int) -> R | None:
        def work(db: KeyDatabase) -> R | None:
            rows = db.rows(f"{select(kind)} where {column} = ?", (value,))
            if not rows:
                return None
            record = decode(kind, rows[0])
            now = _now()
            if now - (micros(record.used_at) or 0) > interval:
                sql = f"update {_TABLES[kind]} set used_at = ? where id = ?"
                self._touch(db, sql, (now, record.id))
            return record

        return self._read(work, None)

    # -- keys ---

    def add(self, key: ApiKey) -> None:
        """Store a new key."""
        self._write(lambda db: insert(db, key))

    def replace(self, id: str, key: ApiKey, until: datetime) -> None:
        """Store a new key in place of another one, which expires. Raises NotFound."""

        def work(db: KeyDatabase) -> None:
            time = micros(until)
            rows = db.rows(
                "update api_key set "
                "expires_at = case when expires_at < ? then expires_at else ? end "
                "where id = ? returning id",
                (time, time, id),
            )
            if not rows:
                raise no_key(id)
            insert(db, key)
            db.run("insert into replacement (id, successor) values (?, ?)", (id, key.id))

        if not self.has_any():
            raise no_key(id)
        self._write(work)

    def replacements(self) -> dict[str, str]:
        """The ids of keys that were replaced, and of those that replaced them."""
        return dict(self._rows("select id, successor from replacement"))

    def find(self, id: str) -> ApiKey | None:
        """The key with this public part. Updates its `used_at` at most once an hour."""
        return None if "\0" in id else self._find(ApiKey, "id", id, USED_AT_INTERVAL)

    def all_keys(self) -> list[ApiKey]:
        """All keys, oldest first, including revoked ones."""
        rows = self._rows(f"{select(ApiKey)} order by created_at, id")
        return [decode(ApiKey, row) for row in rows]

    def revoke(self, id: str, at: datetime) -> None:
        """Revoke a key. Raises NotFound."""
        sql = "update api_key set revoked_at = coalesce(revoked_at, ?) where id = ? returning id"
        if "\0" in id or not self._rows(sql, (micros(at), id)):
            raise no_key(id)

    def has_any(self) -> bool:
        """Whether a key was ever created here."""
        return bool(self._rows("select 1 from api_key limit 1"))

    # -- sessions ---

    def add_session(self, session: Session) -> None:
        """Store a session, and forget expired ones."""

        def work(db: KeyDatabase) -> None:
            db.run(_DROP_SESSIONS, (_now(), session.user, MAX_SESSIONS_EACH_USER - 1))
            insert(db, session)

        self._write(work)

    def find_session(self, hash: bytes) -> Session | None:
        """The session with this hash. Updates its `used_at` at most every five minutes."""
        return self._find(Session, "hash", hash, SESSION_USED_AT_INTERVAL)

    def all_sessions(self) -> list[Session]:
        """All sessions, most recently used first, including those whose key was revoked."""
        sql = f"{select(Session)} where expires_at > ? order by used_at desc, id"
        return [decode(Session, row) for row in self._rows(sql, (_now(),))]

    def end_session(self, id: str) -> None:
        """Forget a session. Raises NotFound."""
        sql = "delete from session where id = ? returning id"
        if "\0" in id or not self._rows(sql, (id,)):
            raise no_session(id)


def names(kind: type[Any]) -> str:
    return ", ".join(f'"{field.name}"' for field in fields(kind))


def select(kind: type[Any]) -> str:
    return f"select {names(kind)} from {_TABLES[kind]}"


def insert(db: KeyDatabase, record: ApiKey | Session) -> None:
    values: list[Any] = []
    for value in astuple(record):
        if isinstance(value, tuple):
            value = " ".join(value)
        elif isinstance(value, datetime):
            value = micros(value)
        values.append(value)
    kind = type(record)
    places = ", ".join("?" * len(values))
    db.run(f"insert into {_TABLES[kind]} ({names(kind)}) values ({places})", values)


def decode(kind: type[R], row: Sequence[Any]) -> R:
    record: dict[str, Any] = {}
    for field, value in zip(fields(kind), row, strict=True):
        if field.name.endswith("_at"):
            value = from_micros(value)
        elif field.name in ("scopes", "toolsets") and value is not None:
            value = tuple(value.split())
        elif field.name == "hash":
            value = bytes(value)
        elif field.name == "agent":
            value = bool(value)
        record[field.name] = value
    return kind(**record)


def no_key(id: str) -> NotFound:
    return NotFound(f"There is no key {truncate(id, 40)!r}. `recollect keys list` shows them.")


def no_session(id: str) -> NotFound:
    return NotFound(
        f"There is no session {truncate(id, 40)!r}. `recollect keys sessions` shows them."
    )


def _now() -> int:
    return micros(datetime.now(UTC)) or 0
