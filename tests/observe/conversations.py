"""Conversations for the tests of observations, made of a few words each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from recollect.model.documents import Document, Passage, arrange

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def talk(*said: tuple[str, str], **more: Any) -> Document:
    """A chat: who says what."""
    return conversation(
        *(Passage(id="", role=role, content=content) for role, content in said), **more
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
    told = {
        "source": "test",
        "source_id": "c1",
        "id": "c1",
        "project": "/work/shop",
        "created_at": START,
    } | more
    return arrange(Document(passages=tuple(numbered), **told))


def said(role: str, content: str, **more: Any) -> Passage:
    return Passage(id="", role=role, content=content, **more)


def called(tool: str, content: str, result: str = "", **notes: Any) -> tuple[Passage, Passage]:
    """A tool call and what came of it."""
    return (
        Passage(id="", role="assistant", content=content, type="tool_call", tool=tool),
        Passage(
            id="",
            role="tool",
            content=result or "ok",
            type="tool_result",
            tool=tool,
            metadata=notes,
        ),
    )


def edited(path: str, old: str, new: str) -> tuple[Passage, Passage]:
    return called(
        "Edit",
        f"file_path: {path}\nold_string: {old}\nnew_string: {new}",
        f"The file {path} has been updated.",
    )
