"""The candidates that were read lately."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from recollect.store.sqlite.passages import candidate_cache
from recollect.store.sqlite.passages.candidate_cache import CandidateCache
from recollect.store.values import Candidate


class Reader:
    """Reads candidates, and remembers which. Odd keys have none."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    def __call__(self, keys: Sequence[int]) -> list[tuple[int, Candidate]]:
        self.keys += keys
        return [(key, candidate(key)) for key in keys if key % 2 == 0]


def candidate(key: int, content: str = "walrus") -> Candidate:
    return Candidate(
        key,
        f"m-{key}",
        "c",
        "",
        "user",
        None,
        "text",
        None,
        "",
        "conversation",
        "",
        0,
        True,
        1,
        content,
    )


def test_candidates_come_in_the_order_of_their_keys() -> None:
    cache = CandidateCache()
    version = object()
    for _ in range(2):
        candidates = cache.get(version, [6, 1, 2, 4], Reader())
        assert [each.key for each in candidates] == [6, 2, 4]


def test_what_was_read_is_not_read_again_in_the_same_version() -> None:
    cache, reader = CandidateCache(), Reader()
    version = object()
    cache.get(version, [2, 1], reader)
    cache.get(version, [1, 2, 3], reader)
    assert reader.keys == [1, 2, 3]
    cache.get(object(), [2], reader)
    assert reader.keys == [1, 2, 3, 2]


def test_candidates_that_are_used_stay_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_cache, "_MAX_CANDIDATES", 10)
    cache, reader = CandidateCache(), Reader()
    version = object()
    for key in range(100, 200):
        cache.get(version, [2, key], reader)
    assert reader.keys.count(2) == 1
    cache.get(version, [100], reader)
    assert reader.keys.count(100) == 2


def test_a_very_long_text_is_read_each_time() -> None:
    cache = CandidateCache()
    version = object()
    long = candidate(2, "walrus " * 10_000)
    for _ in range(2):
        assert cache.get(version, [2], lambda keys: [(2, long)]) == [long]
    assert cache.get(version, [2], lambda keys: []) == []
