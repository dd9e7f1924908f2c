"""Threads and their messages as contract 2 shows them, by whichever door."""

from __future__ import annotations

from html import escape
from typing import Any

from recollect.language.text import iso
from recollect.model.audience import HUMAN_ONLY
from recollect.model.documents import Passage, Summary
from recollect.model.search import Hit
from recollect.serve.masking import Reader, shown_hit, shown_passage

NO_THREAD = "Thread not found"
NEW_THREAD = "discuss"
"""The state of a thread that says nothing of it."""


def thread_shape(thread: Summary) -> dict[str, Any]:
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
    return status if isinstance(status, str) else NEW_THREAD


def message_shape(reader: Reader, passage: Passage) -> dict[str, Any]:
    shown = shown_passage(reader, passage)
    return {
        "id": shown.id,
        "author": shown.author or shown.role,
        "role": shown.role,
        "content": shown.content,
        "seq": shown.position + 1,
        "created_at": iso(shown.created_at),
        "metadata": dict(shown.metadata) or None,
        "human_only": passage.visibility == HUMAN_ONLY,
    }


def result_shape(reader: Reader, hit: Hit) -> dict[str, Any]:
    shown = shown_hit(reader, hit)
    return {
        "message_id": hit.message_id,
        "thread_id": hit.conversation_id,
        "thread_topic": hit.title,
        "author": hit.author or hit.role,
        "seq": hit.position + 1,
        "created_at": iso(hit.created_at),
        "snippet": marked(shown.snippet, shown.marks),
    }


def marked(text: str, marks: tuple[tuple[int, int], ...]) -> str:
    """Text as HTML in which nothing but the marks is markup: escaped first, marked second."""
    done, at = [], 0
    for start, end in marks:
        done += [escape(text[at:start]), "<mark>", escape(text[start:end]), "</mark>"]
        at = end
    return "".join(done) + escape(text[at:])
