"""Exchanges: a message of a person, and everything until that person speaks again.

Only the canonical branch of a conversation counts, without hidden messages such as system prompts.
Human-only messages are masked and not dropped, so that line numbers do not depend on the reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.language.symbols import has_terminal_codes, without_terminal_codes
from recollect.memory.formats import format_date
from recollect.model.audience import MASK, is_human_only
from recollect.model.documents import Document, Passage

_COMMAND = re.compile(r"\s*<command-(?:name|message)>")
_MAX_GROUP_EXCHANGE = 8
"""How many messages an exchange among people may have before the next person starts a new one."""


@dataclass(frozen=True)
class Exchange:
    number: int
    passages: tuple[Passage, ...]
    """Human-only messages are masked."""

    @cached_property
    def quotable(self) -> tuple[Passage, ...]:
        """The passages that everybody may read."""
        return tuple(passage for passage in self.passages if not is_human_only(passage))


def is_from_person(passage: Passage) -> bool:
    """Whether this is a message or a slash command of a person."""
    if passage.role != "user" or not passage.content.strip():
        return False
    if passage.type == "message":
        return True
    return passage.type == "context" and _COMMAND.match(passage.content) is not None


def person_text(passage: Passage) -> str:
    """What the person typed: the message, or the slash command with its arguments."""
    if passage.type == "message":
        return passage.content
    parts = []
    for tag in ("command-name", "command-args"):
        part, end, _ = passage.content.partition(f"<{tag}>")[2].partition(f"</{tag}>")
        if end and part.strip():
            parts.append(part.strip())
    return " ".join(parts)


def split_exchanges(document: Document) -> list[Exchange]:
    """The exchanges of a conversation, in order.

    Among people, an exchange goes on until the person who started it speaks again.
    """
    parts: list[list[Passage]] = []
    for passage in document.canonical:
        if passage.visibility == "hidden" or not (passage.content.strip() or passage.attachments):
            continue
        if not parts or (is_from_person(passage) and starts_exchange(passage, parts[-1])):
            parts.append([])
        if is_human_only(passage):
            passage = passage._replace(content=MASK, attachments=())
        elif has_terminal_codes(passage.content):
            passage = passage._replace(content=without_terminal_codes(passage.content))
        parts[-1].append(passage)
    return [Exchange(number, tuple(part)) for number, part in enumerate(parts, 1)]


def starts_exchange(passage: Passage, previous: Sequence[Passage]) -> bool:
    is_among_people = passage.author is not None and all(
        p.role == "user" and p.type == "message" for p in previous
    )
    if not is_among_people:
        return True
    if previous and previous[0].author == passage.author:
        return True
    return len(previous) >= _MAX_GROUP_EXCHANGE


# -- the text of a conversation ---

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
    lines = header(document)
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
            lines += content_lines(passage)
            passages[passage.id] = (start, len(lines))
        spans.append((first, len(lines)))
    return ConversationText(tuple(lines), passages, tuple(spans))


def header(document: Document) -> list[str]:
    title = " ".join(document.title.split()) or document.id or document.source_id
    return [
        f"# Conversation: {title}",
        f"# Project: {document.project}",
        f"# Date: {format_date(document.created_at)}",
    ]


def content_lines(passage: Passage) -> list[str]:
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
