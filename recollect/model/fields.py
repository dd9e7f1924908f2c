"""Conversations and messages as contract 1 shapes them: exactly its fields, for REST and for Python."""

from __future__ import annotations

from recollect.language.text import iso
from recollect.model.documents import Document, Json, Passage, Summary

OWN = "recollect"
"""The origin of what was written through Recollect itself."""


def session_of(document: Document | Summary) -> str:
    """The session that a conversation belongs to: of our own it is what they are known by."""
    own = document.source_id if document.source == OWN else document.id or document.source_id
    return str(document.metadata.get("session_id") or own)


def conversation_shape(document: Document | Summary) -> dict[str, Json]:
    count = document.message_count if isinstance(document, Summary) else len(document.passages)
    return {
        "id": document.id or document.source_id,
        "session_id": session_of(document),
        "title": document.title,
        "namespace": document.project,
        "created_at": iso(document.created_at),
        "updated_at": iso(document.updated_at),
        "message_count": count,
        "metadata": dict(document.metadata),
    }


def message_shape(passage: Passage, conversation_id: str) -> dict[str, Json]:
    return {
        "id": passage.id,
        "conversation_id": conversation_id,
        "role": passage.role,
        "content": passage.content,
        "model": passage.model,
        "tool_used": passage.tool,
        "attachments": list(passage.attachments),
        "citations": list(passage.citations),
        "timestamp": iso(passage.created_at),
    }
