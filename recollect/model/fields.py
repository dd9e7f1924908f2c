"""The fields of a conversation and of a message in JSON: one list for the APIs and for exports.

The Persistence API (docs/contracts/persistence-api.md) sees the shapes. Exports add what a library
needs to restore a document unchanged, and leave out fields that hold their default.
"""

from __future__ import annotations

from recollect.language.text import iso
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.edited_fields import without_edited_fields
from recollect.model.kinds import CONVERSATION
from recollect.model.sources import PROXY, RECOLLECT

EXPORT_HEADER = {"format": "recollect", "version": 2}
"""What a file of exported conversations begins with. Version 1 used other names; see `own.py`."""

_CONVERSATION_DEFAULTS = {
    "kind": CONVERSATION,
    "head": None,
    "partial": False,
    "shared_ids": False,
}
_MESSAGE_DEFAULTS: dict[str, Json] = {
    "author": None,
    "type": "message",
    "visibility": "all",
    "updated_at": None,
    "canonical": True,
    "metadata": {},
}


def session_of(document: Document | Summary) -> str:
    """The session of a conversation. Those that Recollect itself saves are known by theirs."""
    session = document.metadata.get("session_id")
    if session:
        return str(session)
    if document.source in (RECOLLECT.name, PROXY.name):
        return document.source_id
    return document.id or document.source_id


def conversation_shape(document: Document | Summary) -> dict[str, Json]:
    if isinstance(document, Summary):
        count = document.message_count
    else:
        count = len(document.passages)
    return {
        "id": document.id or document.source_id,
        "session_id": session_of(document),
        "title": document.title,
        "namespace": document.project,
        "created_at": iso(document.created_at),
        "updated_at": iso(document.updated_at),
        "message_count": count,
        "metadata": without_edited_fields(document.metadata),
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


def export_shape(document: Document) -> dict[str, Json]:
    """The whole document, with its messages."""
    conversation = without_defaults(conversation_fields(document), _CONVERSATION_DEFAULTS)
    conversation["messages"] = [
        without_defaults(message_fields(passage, conversation["id"]), _MESSAGE_DEFAULTS)
        for passage in document.passages
    ]
    return conversation


def conversation_fields(document: Document) -> dict[str, Json]:
    return conversation_shape(document) | {
        "metadata": dict(document.metadata),
        "source": document.source,
        "source_id": document.source_id,
        "kind": document.kind,
        "head": document.head,
        "partial": document.partial,
        "shared_ids": document.shared_ids,
    }


def message_fields(passage: Passage, conversation_id: str) -> dict[str, Json]:
    # The parent is always written: messages without one are read as a plain sequence.
    return message_shape(passage, conversation_id) | {
        "parent_id": passage.parent,
        "author": passage.author,
        "type": passage.type,
        "visibility": passage.visibility,
        "updated_at": iso(passage.updated_at),
        "canonical": passage.canonical,
        "metadata": dict(passage.metadata),
    }


def without_defaults(fields: dict[str, Json], defaults: dict[str, Json]) -> dict[str, Json]:
    return {
        name: value
        for name, value in fields.items()
        if name not in defaults or value != defaults[name]
    }


CONVERSATION_FIELDS = frozenset({*conversation_fields(Document("", "")), "messages"})
MESSAGE_FIELDS = frozenset(message_fields(Passage("", None, ""), ""))
