"""API keys: who may use the network interfaces, and what for. Only hashes of keys are stored."""

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
USED_AT_INTERVAL = 3_600_000_000
"""Microseconds between two updates of `used_at`, so that most requests write nothing."""


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


class ApiKeys(ABC):
    """The API keys of a place. Safe to use from any thread and process."""

    @abstractmethod
    def add(self, key: ApiKey) -> None:
        """Store a new key."""

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
    def close(self) -> None: ...


def to_row(key: ApiKey) -> tuple[Any, ...]:
    toolsets = None
    if key.toolsets is not None:
        toolsets = " ".join(key.toolsets)
    return (
        key.id,
        key.hash,
        key.user,
        key.name,
        " ".join(key.scopes),
        toolsets,
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
    if toolsets is not None:
        toolsets = tuple(toolsets.split())
    return ApiKey(
        id_,
        bytes(hash_),
        user,
        name,
        tuple(scopes.split()),
        toolsets,
        bool(agent),
        created_at,
        from_micros(expires),
        from_micros(revoked),
        from_micros(used),
    )
