"""Messages and conversations for tests of stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from recollect import Document, Filter, Passage
from recollect.store.base import Store
from recollect.store.values import Candidate

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)


def message(
    id: str,
    content: str = "hello",
    role: str | None = "user",
    minutes: int = 0,
    **fields: Any,
) -> Passage:
    return Passage(id, role, content, created_at=NOON + timedelta(minutes=minutes), **fields)


def conversation(*passages: Passage, id: str = "c1", **fields: Any) -> Document:
    """A conversation in which every message replies to the one before it."""
    chain: list[Passage] = []
    for passage in passages:
        if passage.parent is None and chain:
            passage = passage._replace(parent=chain[-1].id)
        chain.append(passage)
    defaults = {"title": "A conversation", "created_at": NOON, "updated_at": NOON}
    return Document("test", id, passages=tuple(chain), **(defaults | fields))


def header(store: Store, id: str) -> Document:
    return store.document(id, with_passages=False)


def recent(
    store: Store, text: str | None, filter: Filter, limit: int, where: str = "anywhere"
) -> list[Candidate]:
    return store.newest(filter, limit, text=text, where=where, counted=False).candidates
