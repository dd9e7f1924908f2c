"""API keys: who may come in through the network, and what for. Only the hash of a key is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect.language.text import from_micros, micros

COLUMNS = (
    "id",
    "hash",
    "user",
    "name",
    "scopes",
    "toolsets",
    "agent",
    "created_at",
    "expires_at",
    "revoked_at",
    "used_at",
)
USED_EVERY = 3_600_000_000  # microseconds after which it is noted again that a key is in use


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: `id` is its public part, `hash` that of its secret part."""

    id: str
    hash: bytes
    user: str
    name: str
    scopes: tuple[str, ...]
    toolsets: tuple[str, ...] | None
    """The groups of routes and tools it is for; None means all."""
    agent: bool
    """An agent's key does not see what only people may see."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None


class ApiKeys(ABC):
    """Every key of one place. Safe to use from any thread and process."""

    @abstractmethod
    def add(self, key: ApiKey) -> None:
        """Keep a new key."""

    @abstractmethod
    def find(self, id: str) -> ApiKey | None:
        """The key with this public part; that it is in use is noted, at most once an hour."""

    @abstractmethod
    def all_keys(self) -> list[ApiKey]:
        """All of them, the oldest first, revoked ones too."""

    @abstractmethod
    def revoke(self, id: str, at: datetime) -> None:
        """Let a key open nothing any more. Raises NotFound."""

    @abstractmethod
    def has_any(self) -> bool:
        """Whether there has ever been a key here."""

    @abstractmethod
    def close(self) -> None: ...


def to_row(key: ApiKey) -> tuple[Any, ...]:
    return (
        key.id,
        key.hash,
        key.user,
        key.name,
        " ".join(key.scopes),
        None if key.toolsets is None else " ".join(key.toolsets),
        key.agent,
        micros(key.created_at),
        micros(key.expires_at),
        micros(key.revoked_at),
        micros(key.used_at),
    )


def from_row(row: Sequence[Any]) -> ApiKey:
    id_, hash_, user, name, scopes, toolsets, agent, created, expires, revoked, used = row
    created_at = from_micros(created)
    assert created_at is not None
    return ApiKey(
        id_,
        bytes(hash_),
        user,
        name,
        tuple(scopes.split()),
        None if toolsets is None else tuple(toolsets.split()),
        bool(agent),
        created_at,
        from_micros(expires),
        from_micros(revoked),
        from_micros(used),
    )
