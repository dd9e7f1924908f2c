"""Threads, messages and search results as the Bus contract specifies them (docs/contracts/bus.md).

The REST routes and the MCP tools of the bus share these.
"""

from __future__ import annotations

from html import escape
from typing import Any

from recollect.language.text import iso
from recollect.model import sources
from recollect.model.audience import Audience, is_human_only
from recollect.model.documents import Passage, Summary
from recollect.model.search import Hit
from recollect.serve.masking import mask_hit, mask_passage

BUS_SOURCE = sources.BUS.name
NO_THREAD = "Thread not found"
DEFAULT_STATUS = "discuss"


def thread_json(thread: Summary) -> dict[str, Any]:
    return {
        "thread_id": thread.id,
        "topic": thread.title,
        "status": thread_status(thread),
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
        "message_count": thread.message_count,
        "last_seq": thread.message_count,
    }


def thread_status(thread: Summary) -> str:
    status = thread.metadata.get("status")
    if isinstance(status, str):
        return status
    return DEFAULT_STATUS


def message_json(passage: Passage, audience: Audience) -> dict[str, Any]:
    visible = mask_passage(passage, audience)
    return {
        "id": visible.id,
        "author": visible.author or visible.role,
        "role": visible.role,
        "content": visible.content,
        "seq": visible.position + 1,
        "created_at": iso(visible.created_at),
        "metadata": dict(visible.metadata) or None,
        "human_only": is_human_only(passage),
    }


def result_json(hit: Hit, audience: Audience) -> dict[str, Any]:
    visible = mask_hit(hit, audience)
    return {
        "message_id": visible.message_id,
        "thread_id": visible.conversation_id,
        "thread_topic": visible.title,
        "author": visible.author or visible.role,
        "seq": visible.position + 1,
        "created_at": iso(visible.created_at),
        "snippet": highlight(visible.snippet, visible.marks),
    }


def highlight(text: str, marks: tuple[tuple[int, int], ...]) -> str:
    """The text as HTML with `<mark>` around the matches. Everything else is escaped."""
    parts: list[str] = []
    position = 0
    for start, end in marks:
        parts.append(escape(text[position:start]))
        parts.append(f"<mark>{escape(text[start:end])}</mark>")
        position = end
    parts.append(escape(text[position:]))
    return "".join(parts)
