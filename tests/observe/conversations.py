"""Builders of short conversations for the tests of observations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from recollect import Document, Passage
from recollect.model.documents import arrange

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def exchange(*messages: tuple[str, str], **more: Any) -> Document:
    """A conversation of (role, content) pairs."""
    return conversation(
        *(Passage(id="", role=role, content=content) for role, content in messages), **more
    )


def conversation(*passages: Passage, **more: Any) -> Document:
    numbered = [
        p._replace(
            id=p.id or f"p{n}",
            parent=f"p{n - 1}" if n else None,
            created_at=START + timedelta(minutes=n),
        )
        for n, p in enumerate(passages)
    ]
    fields = {
        "source": "test",
        "source_id": "c1",
        "id": "c1",
        "project": "/work/shop",
        "created_at": START,
    } | more
    return arrange(Document(passages=tuple(numbered), **fields))


def message(role: str, content: str, **more: Any) -> Passage:
    return Passage(id="", role=role, content=content, **more)


def tool_call(
    tool: str, content: str, result: str = "", **metadata: Any
) -> tuple[Passage, Passage]:
    """A tool call and its result."""
    return (
        Passage(id="", role="assistant", content=content, type="tool_call", tool=tool),
        Passage(
            id="",
            role="tool",
            content=result or "ok",
            type="tool_result",
            tool=tool,
            metadata=metadata,
        ),
    )


def edit(path: str, old: str, new: str) -> tuple[Passage, Passage]:
    return tool_call(
        "Edit",
        f"file_path: {path}\nold_string: {old}\nnew_string: {new}",
        f"The file {path} has been updated.",
    )
