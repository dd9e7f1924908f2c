"""Limits that are lower than usual, so that tests reach them with few messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

import recollect
from recollect.errors import RecollectError
from recollect.models import embeddings
from recollect.search import candidates, deadline, rerank
from recollect.settings import LIMITS
from recollect.store import audience
from recollect.store.sqlite import sealing


def few_candidates(patch: pytest.MonkeyPatch, count: int) -> None:
    """Each arm of a search finds no more messages than this."""
    patch.setattr(candidates, "CANDIDATES", count)


def few_counted(patch: pytest.MonkeyPatch, count: int) -> None:
    """No more messages than this are read to count conversations."""
    patch.setattr(candidates, "_COUNTED_MATCHES", count)


def few_counted_for_agents(patch: pytest.MonkeyPatch, count: int) -> None:
    patch.setattr(audience, "MAX_COUNTED", count)


def no_time(patch: pytest.MonkeyPatch) -> None:
    """A search stops at once, after the first text that it reads."""
    patch.setattr(deadline, "LIMITS", replace(LIMITS, search_cpu_seconds=-1.0))
    patch.setattr(candidates, "_CHARACTERS_AT_ONCE", 1)


def no_model(patch: pytest.MonkeyPatch) -> None:
    """The embedding model is not available any more."""

    def unavailable(name: str, state: bytes | None) -> None:
        raise RecollectError("The model is gone.")

    patch.setattr(embeddings, "load_model", unavailable)


def seal(library: recollect.Library, patch: pytest.MonkeyPatch, smallest: int = 3) -> None:
    """Make sealed volumes, which normally need more messages, and vectors."""
    patch.setattr(sealing, "MIN_VOLUME_PASSAGES", smallest)
    library.index()


def reranker_that_reverses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rerank, "rerank", lambda query, ranking: ranking[::-1])
