"""A server runs as many searches at once as the processors can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recollect.serve.http import edge
from recollect.settings import LIMITS


@pytest.mark.parametrize(
    ("processors", "limit", "searches"), [(1, 4, 2), (2, 4, 2), (3, 4, 3), (64, 4, 4), (64, 1, 1)]
)
def test_few_processors_run_few_searches(
    monkeypatch: pytest.MonkeyPatch, processors: int, limit: int, searches: int
) -> None:
    monkeypatch.setattr(edge.os, "cpu_count", lambda: processors)
    monkeypatch.setattr(edge, "LIMITS", replace(LIMITS, searches_at_once=limit))
    assert edge.searches_at_once() == searches
