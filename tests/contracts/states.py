"""The states that the index of a user's library can be in.

The contracts hold in each of them. The fixture `state` activates one; `settle` then brings a
library into it, after a test has written and before it searches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from recollect import Library
from recollect.index import background
from recollect.index.refresh import has_work
from recollect.models import embeddings as models
from recollect.store.sqlite import sealing

FRESH = "fresh"
"""Nothing is indexed beyond what saving does."""
SEALED = "sealed"
"""The text index is sealed. There are no vectors."""
EMBEDDED = "embedded"
"""`recollect index` has run: everything has vectors."""
BACKGROUND = "background"
"""The background thread has embedded everything."""

STATES = (FRESH, SEALED, EMBEDDED, BACKGROUND)
BY_DEFAULT = (BACKGROUND,)
WITH_VECTORS = (EMBEDDED, BACKGROUND)
PATIENCE = 180.0
"""Seconds after which the background thread counts as stuck."""

_active = FRESH


@contextmanager
def activate(state: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make libraries that are opened from now on reach this state."""
    global _active
    if state == SEALED:
        monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
        # SQLite seals only large libraries, and those of tests are small.
        monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 1)
    if state == BACKGROUND:
        monkeypatch.setenv("RECOLLECT_INDEXING", "background")
        # Tests write and then wait for the index, message by message.
        monkeypatch.setattr(background, "PAUSE", 0.02)
    _active = state
    yield
    _active = FRESH


def settle(library: Library) -> None:
    """Bring everything written so far into the active state."""
    if _active == FRESH:
        return
    if _active == BACKGROUND:
        # Later the thread observes the conversations, which adds more to embed.
        wait_until(lambda: not has_pending_work(library))
    else:
        for _ in range(2):  # a second pass merges the small volumes of the first
            if has_pending_work(library):
                library.index()
        assert not has_pending_work(library)
    assert bool(library._store.spaces()) == (_active != SEALED and library._store.size() > 0)


def has_pending_work(library: Library) -> bool:
    """Whether anything must still be sealed or embedded."""
    return has_work(library._store, models.embedding_setting())


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds. Fail if it does not become true."""
    deadline = time.monotonic() + PATIENCE
    clock = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the background thread did not finish its work"
        clock.wait(0.01)
