"""Changes of a conversation that can be undone for some time, and the log of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

RENAME, TAG, UNTAG, PIN, UNPIN, DELETE = "rename", "tag", "untag", "pin", "unpin", "delete"
ACTIONS = (RENAME, TAG, UNTAG, PIN, UNPIN, DELETE)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a document. Fields that are left out stay the same."""

    action: str = ""
    """What the undo log calls the change: one of ACTIONS."""
    title: str | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    pinned: bool | None = None
    project: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The keys that change; the value None removes a key."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that can be undone until it expires."""

    number: int
    action: str
    """One of ACTIONS."""
    id: str
    """The id of the conversation or item."""
    title: str
    """Its title after the change; for a deletion, before it."""
    changed_at: datetime
    expires_at: datetime
