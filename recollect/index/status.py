"""How much of a library has vectors."""

from __future__ import annotations

from dataclasses import dataclass

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


def embedding_status(store: Store) -> list[EmbeddingStatus]:
    """The status of every embedding model that was used, oldest first."""
    spaces = store.spaces()
    searched = models.space_to_search(spaces)
    return [
        EmbeddingStatus(
            space.name,
            space.version,
            space.dimensions,
            _share(store, space),
            searched is not None and space.id == searched.id,
        )
        for space in spaces
    ]


def _share(store: Store, space: Space) -> float:
    batch, queued = store.unembedded(space, 1)
    if not batch:  # The queue may still count messages that were deleted.
        return 1.0
    return round(max(0.0, 1 - queued / max(store.size(), 1)), 4)
