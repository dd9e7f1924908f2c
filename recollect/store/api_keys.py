"""API keys and console sessions: who may use the network interfaces, and what for.

Only hashes of keys and session ids are stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from typing import Any

from recollect.errors import NotFound, StoreUnavailable
from recollect.language.text import from_micros, micros, truncate

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


COLUMNS = tuple(field.name for field in fields(ApiKey))
SESSION_COLUMNS = tuple(field.name for field in fields(Session))


class ApiKeys(ABC):
    """The API keys of a place. Safe to use from any thread and process.

    Raises KeysUnavailable if they exist but cannot be read.
    """

    @abstractmethod
    def add(self, key: ApiKey) -> None:
        """Store a new key."""

    @abstractmethod
    def replace(self, id: str, key: ApiKey, until: datetime) -> None:
        """Store a new key in place of another one, which expires. Raises NotFound."""

    @abstractmethod
    def replacements(self) -> dict[str, str]:
        """The ids of keys that were replaced, and of those that replaced them."""

    @abstractmethod
    def find(self, id: str) -> ApiKey | None:
        """The key with this public part. Updates its `used_at` at most once an hour."""

    @abstractmethod
    def all_keys(self) -> list[ApiKey]:
        """All keys, oldest first, including revoked ones."""

    @abstractmethod
    def revoke(self, id: str, at: datetime) -> None:
        """Revoke a key. Raises NotFound."""

    @abstractmethod
    def has_any(self) -> bool:
        """Whether a key was ever created here."""

    @abstractmethod
    def add_session(self, session: Session) -> None:
        """Store a session, and forget expired ones."""

    @abstractmethod
    def find_session(self, hash: bytes) -> Session | None:
        """The session with this hash. Updates its `used_at` at most every five minutes."""

    @abstractmethod
    def all_sessions(self) -> list[Session]:
        """All sessions, most recently used first, including those whose key was revoked."""

    @abstractmethod
    def end_session(self, id: str) -> None:
        """Forget a session. Raises NotFound."""

    @abstractmethod
    def close(self) -> None: ...


def no_key(id: str) -> NotFound:
    return NotFound(f"There is no key {truncate(id, 40)!r}. `recollect keys list` shows them.")


def no_session(id: str) -> NotFound:
    return NotFound(
        f"There is no session {truncate(id, 40)!r}. `recollect keys sessions` shows them."
    )


def to_row(record: ApiKey | Session) -> tuple[Any, ...]:
    return tuple(_to_column(value) for value in astuple(record))


def _to_column(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, datetime):
        return micros(value)
    return value


def from_row(row: Sequence[Any]) -> ApiKey:
    return ApiKey(**_record(COLUMNS, row))


def session_from_row(row: Sequence[Any]) -> Session:
    return Session(**_record(SESSION_COLUMNS, row))


def _record(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    record = dict(zip(columns, row, strict=True))
    record["hash"] = bytes(record["hash"])
    record["agent"] = bool(record["agent"])
    record["scopes"] = tuple(record["scopes"].split())
    if record["toolsets"] is not None:
        record["toolsets"] = tuple(record["toolsets"].split())
    for name, value in record.items():
        if name.endswith("_at"):
            record[name] = from_micros(value)
    return record
