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
    quote: str = ""
    """What one of its messages says about the query, if its own text does not say it."""
    successor: Observation | None = None
    """The later decision by which it was superseded."""


class ConversationHit(NamedTuple):
    """A conversation, or one exchange of it."""

    path: str
    project: str
    title: str
    created_at: datetime | None
    score: float
    snippets: tuple[str, ...]
    lines: tuple[int, int] | None
    terms: tuple[str, ...] = ()
    """The words of the query that the best message contains."""


MemoryHit = ObservationHit | ConversationHit


@dataclass(frozen=True, slots=True)
class MemoryResults:
    """The results of a search, best first.

    One concept finds observations, and exchanges that no observation was made of. Several concepts
    find conversations.
    """

    kind: str
    """"observations", "exchanges", "mixed" (both) or "conversations"."""
    hits: tuple[MemoryHit, ...] = ()
    total: int = 0
    """How many results there are without the limit."""
    is_exact: bool = True
    """Whether `total` is exact; otherwise it is a lower bound."""
    note: str = ""
    nearest: tuple[MemoryHit, ...] = ()
    """If there are no hits: up to three results that are the closest in meaning."""

    @property
    def observations(self) -> tuple[ObservationHit, ...]:
        return tuple(hit for hit in self.hits if isinstance(hit, ObservationHit))

    @property
    def conversations(self) -> tuple[ConversationHit, ...]:
        """The conversations or exchanges."""
        return tuple(hit for hit in self.hits if isinstance(hit, ConversationHit))


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
