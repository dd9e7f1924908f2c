"""A database in which every search exceeds its time limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from recollect.settings import LIMITS
from recollect.store.sql import store as transactions

MESSAGES = 3_000
"""Matching messages. Searching so many takes SQLite longer than the limit of zero seconds."""


@contextmanager
def slow_searches(place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the engine stop searches: SQLite gets no time, and a lock blocks PostgreSQL."""
    if place.startswith("postgresql"):
        with psycopg.connect(place) as other, monkeypatch.context() as patch:
            patch.setattr(transactions, "LIMITS", replace(LIMITS, search_seconds=0.05))
            other.execute("lock table recollect.passage_text in access exclusive mode")
            yield
            other.rollback()
        return
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "LIMITS", replace(LIMITS, search_seconds=0.0))
        yield
