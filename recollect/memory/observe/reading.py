"""A conversation as it is read line by line: the lines to which observations point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recollect.memory.observe.exchanges import Exchange, exchanges
from recollect.model.documents import Document, Passage

_ROLES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}


@dataclass(frozen=True, slots=True)
class Reading:
    """The lines of a conversation, and where each passage and exchange lies in them, counted from 1."""

    lines: tuple[str, ...]
    passages: Mapping[str, tuple[int, int]]
    exchanges: tuple[tuple[int, int], ...]

    def span(self, passages: tuple[str, ...]) -> tuple[int, int]:
        """From the first line of these passages to the last."""
        found = [self.passages[id_] for id_ in passages if id_ in self.passages]
        return (
            (min(first for first, _ in found), max(last for _, last in found))
            if found
            else (1, len(self.lines))
        )


def reading(document: Document, parts: list[Exchange] | None = None) -> Reading:
    """A conversation in Markdown, exchange by exchange. The same passages always give the same lines."""
    date = f"{document.created_at:%Y-%m-%d}" if document.created_at else "unknown"
    title = " ".join(document.title.split()) or document.id or document.source_id
    lines = [f"# Conversation: {title}", f"# Project: {document.project}", f"# Date: {date}"]
    places: dict[str, tuple[int, int]] = {}
    spans: list[tuple[int, int]] = []
    for exchange in exchanges(document) if parts is None else parts:
        lines += ["", "---", ""] if spans else [""]
        first = len(lines) + 1
        lines.append(f"## Exchange {exchange.number}")
        for passage in exchange.passages:
            lines.append("")
            start = len(lines) + 1
            lines.append(f"**{speaker(passage)}:**")
            lines += (
                passage.content.strip("\n").replace("\r\n", "\n").replace("\r", "\n").split("\n")
            )
            places[passage.id] = (start, len(lines))
        spans.append((first, len(lines)))
    return Reading(tuple(lines), places, tuple(spans))


def speaker(passage: Passage) -> str:
    """Who speaks, as the line above the words names them."""
    tool = f" ({passage.tool})" if passage.tool else ""
    if passage.type == "tool_call":
        return f"Tool call{tool}"
    if passage.type == "tool_result":
        return f"Tool result{tool}"
    if passage.type == "thinking":
        return "Thinking"
    if passage.type == "summary":
        return "Summary"
    return passage.author or _ROLES.get(passage.role or "", passage.role or "Unknown")
