"""Large spaces of vectors: their signs choose the rows that are compared with a query."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from messages import message
from numpy.typing import NDArray
from random_libraries import random_documents, random_filter
from random_vectors import conversation, embed_all, keys, unit

from recollect import Filter
from recollect.store.sqlite import SqliteStore, vector_search
from recollect.store.values import Space

BLOCK = 128


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_search, "ROWS_PER_BLOCK", BLOCK)
    monkeypatch.setattr(vector_search, "MIN_ROWS", BLOCK)
    monkeypatch.setattr(vector_search, "SEARCHES_WITHOUT_SIGNS", 2)
    monkeypatch.setattr(vector_search, "_MAX_PASSAGES_READ_SINGLY", 0)


def compared_one_by_one(
    store: SqliteStore, space: Space, query: NDArray[np.float32], filter: Filter
) -> list[int]:
    """The 20 nearest passages that pass a filter."""
    passages = [candidate.key for candidate in store.candidates(range(1, 5_000), filter)]
    cosines = store.cosines(space, query, passages)
    return sorted(cosines, key=lambda key: (-cosines[key], key))[:20]


def test_a_search_by_signs_finds_what_an_exact_comparison_finds(sqlite_store: SqliteStore) -> None:
    store, rng = sqlite_store, Random(4)
    store.save(random_documents(rng, 400))
    # 70 dimensions need two numbers of 64 bits.
    space = store.add_space("test", "1", 70, None)
    embed_all(store, space, unit(6, 2_800, 70))
    store.refresh()
    store.save([conversation("new", message("new", "walrus"))])  # not in the files
    embed_all(store, space, unit(8, 1, 70))
    filters = [Filter(), *(random_filter(rng) for _ in range(60))]
    for query, filter in zip(unit(7, len(filters), 70), filters, strict=True):
        expected = compared_one_by_one(store, space, query, filter)
        assert keys(store.nearest(space, query, filter, 20)) == expected, filter
