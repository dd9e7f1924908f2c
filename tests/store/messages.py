"""Messages and conversations for tests of stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from recollect import Document, Passage

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
