"""A conversation as Markdown, with the line numbers to which observations point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recollect.memory.formats import format_date
from recollect.memory.observe.exchanges import Exchange, split_exchanges
from recollect.model.documents import Document, Passage

_ROLES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}


@dataclass(frozen=True, slots=True)
class ConversationText:
    """The lines of a conversation, and the lines of each passage and exchange, counted from 1."""

    lines: tuple[str, ...]
    passages: Mapping[str, tuple[int, int]]
    exchanges: tuple[tuple[int, int], ...]

    def span(self, passages: tuple[str, ...]) -> tuple[int, int]:
        """The first and the last line of these passages; all lines if none of them is here."""
        spans = [self.passages[id_] for id_ in passages if id_ in self.passages]
        if not spans:
            return 1, len(self.lines)
        return min(first for first, _ in spans), max(last for _, last in spans)


def conversation_text(
    document: Document, exchanges: list[Exchange] | None = None
) -> ConversationText:
    """The text of a conversation. The same passages always give the same lines."""
    if exchanges is None:
        exchanges = split_exchanges(document)
    lines = _header(document)
    passages: dict[str, tuple[int, int]] = {}
    spans: list[tuple[int, int]] = []
    for exchange in exchanges:
        if spans:
            lines += ["", "---"]
        lines.append("")
        first = len(lines) + 1
        lines.append(f"## Exchange {exchange.number}")
        for passage in exchange.passages:
            lines.append("")
            start = len(lines) + 1
            lines.append(f"**{speaker(passage)}:**")
            lines += _content_lines(passage)
            passages[passage.id] = (start, len(lines))
        spans.append((first, len(lines)))
    return ConversationText(tuple(lines), passages, tuple(spans))


def _header(document: Document) -> list[str]:
    title = " ".join(document.title.split()) or document.id or document.source_id
    return [
        f"# Conversation: {title}",
        f"# Project: {document.project}",
        f"# Date: {format_date(document.created_at)}",
    ]


def _content_lines(passage: Passage) -> list[str]:
    content = passage.content.strip("\n").replace("\r\n", "\n").replace("\r", "\n")
    return content.split("\n")


def speaker(passage: Passage) -> str:
    """The name in the line above the content of a passage."""
    tool = ""
    if passage.tool:
        tool = f" ({passage.tool})"
    if passage.type == "tool_call":
        return f"Tool call{tool}"
    if passage.type == "tool_result":
        return f"Tool result{tool}"
    if passage.type == "thinking":
        return "Thinking"
    if passage.type == "summary":
        return "Summary"
    return passage.author or _ROLES.get(passage.role or "", passage.role or "Unknown")
