"""A server returns freed memory, and runs as many searches at once as the processors can."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest

from recollect.serve import memory
from recollect.serve.http import edge
from recollect.settings import LIMITS


def test_freed_memory_is_returned_only_while_requests_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = iter([0, 5, 5, 5, 6])
    trims: list[int] = []
    monkeypatch.setattr(memory, "INTERVAL", 0)
    monkeypatch.setattr(memory, "trim", lambda: trims.append(1))

    def count_requests() -> int:
        try:
            return next(counts)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(memory.trim_regularly(count_requests))
    assert len(trims) == 2


def test_without_glibc_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not memory.limit_heaps() and not memory.trim()


@pytest.mark.parametrize(
    ("processors", "limit", "searches"), [(1, 4, 2), (2, 4, 2), (3, 4, 3), (64, 4, 4), (64, 1, 1)]
)
def test_few_processors_run_few_searches(
    monkeypatch: pytest.MonkeyPatch, processors: int, limit: int, searches: int
) -> None:
    monkeypatch.setattr(edge.os, "cpu_count", lambda: processors)
    monkeypatch.setattr(edge, "LIMITS", replace(LIMITS, searches_at_once=limit))
    assert edge.searches_at_once() == searches
