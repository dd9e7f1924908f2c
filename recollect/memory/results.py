"""What the memory returns: observations, conversations, and what a deletion covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from recollect.model.documents import Summary
from recollect.model.observations import Observation


class ObservationHit(NamedTuple):
    """An observation and the path of its conversation."""

    observation: Observation
    path: str
    score: float = 0.0
    snippet: str = ""
    terms: tuple[str, ...] = ()
    """The words of the query that it contains."""


class ConversationHit(NamedTuple):
    """A conversation, or one exchange of it."""

    path: str
    project: str
    title: str
    created_at: datetime | None
    score: float
    snippets: tuple[str, ...]
    lines: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class MemoryResults:
    """The results of a search.

    One concept finds observations, or exchanges if no observation matches. Several concepts find
    conversations.
    """

    kind: str
    """"observations", "exchanges" or "conversations"."""
    observations: tuple[ObservationHit, ...] = ()
    conversations: tuple[ConversationHit, ...] = ()
    total: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What `Memory.forget` deleted, or would delete."""

    conversations: tuple[Summary, ...]
    """Deleted with their messages and observations."""
    observations: tuple[ObservationHit, ...]
    """Deleted alone: their conversations stay."""
    message_count: int
    """The messages of the deleted conversations."""
    observation_count: int
    """The observations of the deleted conversations."""
