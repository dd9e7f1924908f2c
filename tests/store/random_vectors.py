"""Libraries with random vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from messages import NOON
from numpy.typing import NDArray

from recollect import Document, Passage
from recollect.store.base import Store
from recollect.store.values import Space


def conversation(id: str, *passages: Passage, **fields: Any) -> Document:
    return Document(
        "test", id, passages=passages, **({"created_at": NOON, "updated_at": NOON} | fields)
    )


def unit(seed: int, count: int, dimensions: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    unit_vectors: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit_vectors


def embed_all(
    store: Store, space: Space, vectors: NDArray[np.float32]
) -> dict[int, NDArray[np.float32]]:
    """Give each unembedded passage the next of these vectors, and return them by key."""
    by_key: dict[int, NDArray[np.float32]] = {}
    batch, _ = store.unembedded(space, 1_000)
    while batch:
        for passage in batch:
            by_key[passage.key] = vectors[len(by_key)]
        store.add_vectors(space, {passage: [by_key[passage.key]] for passage in batch})
        batch, _ = store.unembedded(space, 1_000)
    return by_key


def keys(hits: list[tuple[int, float]]) -> list[int]:
    return [key for key, _ in hits]
