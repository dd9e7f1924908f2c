"""How much of a library is indexed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recollect.index.background import paused_since
from recollect.index.refresh import has_work
from recollect.models import embeddings as models
from recollect.store.base import Store
from recollect.store.values import Space


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """The vectors of one embedding model."""

    name: str
    version: str
    dimensions: int
    share: float
    """The share of the messages that has vectors, from 0 to 1."""
    searched: bool
    """Whether searches use these vectors."""


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The index of a library. Its words are indexed in the transaction that stores a message."""

    passages: int
    """Messages, parts of items, and observations; slightly more if some were deleted."""
    embedded: int
    """How many of them have vectors of the current model."""
    has_work: bool
    """Whether there is anything to index."""
    is_background: bool
    """Whether this process indexes in the background."""
    paused_since: datetime | None
    models: tuple[EmbeddingStatus, ...] = ()
    """Every embedding model that was used, oldest first."""
    problem: str = ""
    """Why indexing in the background has stopped; empty if it has not."""

    @property
    def share(self) -> float:
        """The share of the passages that has vectors, from 0 to 1."""
        if not self.passages:
            return 1.0
        return self.embedded / self.passages


def index_status(store: Store, is_background: bool, problem: str = "") -> IndexStatus:
    """The status of the index, with what the caller knows about indexing in the background."""
    setting = models.embedding_setting()
    passages = store.size()
    spaces = [space for space in store.spaces() if space.name == setting]
    embedded = passages - queued(store, spaces[-1]) if spaces else 0
    has_more = has_work(store, setting)
    searched, size = models.space_to_search(store.spaces()), max(passages, 1)
    statuses = [
        EmbeddingStatus(
            space.name,
            space.version,
            space.dimensions,
            round(1 - queued(store, space) / size, 4),
            searched is not None and space.id == searched.id,
        )
        for space in store.spaces()
    ]
    return IndexStatus(
        passages, embedded, has_more, is_background, paused_since(store), tuple(statuses), problem
    )


def queued(store: Store, space: Space) -> int:
    """How many passages have no vector yet. The queue may still count deleted messages."""
    batch, count = store.unembedded(space, 1)
    return min(count, store.size()) if batch else 0
