"""Search by meaning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recollect.model.search import Filter
from recollect.store.contract.marks import reader, writer
from recollect.store.values import (
    Space,
    Unembedded,
)


class Vectors(ABC):
    """Search by meaning: vector spaces, the queue of passages to embed, nearest neighbours."""

    @reader
    @abstractmethod
    def spaces(self) -> list[Space]:
        """All spaces, oldest first."""

    @writer
    @abstractmethod
    def add_space(
        self, name: str, version: str, dimensions: int, model_state: bytes | None
    ) -> Space:
        """The space of a model, created on first use."""

    @writer
    @abstractmethod
    def drop_space(self, space: Space) -> None:
        """Delete a space and its vectors."""

    @reader
    @abstractmethod
    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        """A batch of passages that have no vectors in this space yet, and the number of all."""

    @reader
    @abstractmethod
    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        """A batch of passages, following key `after`, that were embedded but have no vector.

        Most of them contain no word that the model knows.
        """

    @writer
    @abstractmethod
    def queue(self, space: Space, passages: Sequence[int]) -> None:
        """Queue passages for embedding, given by their keys."""

    @writer
    @abstractmethod
    def add_vectors(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        """Store the vectors of passages from `unembedded`: any number of vectors for each.

        The passages leave the queue. Vectors of passages that were deleted or changed in the
        meantime are not stored.
        """

    @writer
    @abstractmethod
    def mark_space_ready(self, space: Space) -> None:
        """Mark a space as ready: every passage has been embedded."""

    @writer
    @abstractmethod
    def calibrate_space(self, space: Space, noise_floor: float, size: int) -> None:
        """Store the noise floor of a space, measured when the library had `size` passages."""

    @reader
    @abstractmethod
    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """The keys of the passages nearest to a unit vector with their cosines, nearest first."""

    @reader
    @abstractmethod
    def highest_cosines(self, space: Space, vectors: Sequence[Any]) -> list[float]:
        """The cosine between each unit vector and the passage nearest to it, hidden ones apart.

        Nothing if the space has no such passage.
        """

    @reader
    @abstractmethod
    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        """The cosines between a unit vector and these passages, if they have vectors."""

    @reader
    @abstractmethod
    def vectors(self, space: Space, key: int) -> list[Any]:
        """The vectors of a passage."""

    @reader
    @abstractmethod
    def sample(self, limit: int) -> Iterator[str]:
        """Texts of passages spread evenly over the library, for models that learn from it."""
