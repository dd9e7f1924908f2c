"""The fields of a conversation and of a message in JSON: one list for the APIs and for exports.

The Persistence API (docs/contracts/persistence-api.md) sees the shapes. Exports add what a library
needs to restore a document unchanged, and leave out fields that hold their default.

Imports leave the fields alone that a person or a program has set. Their names are in the metadata,
so they are exported, moved and backed up with the document.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from recollect.language.text import iso
from recollect.model.documents import Document, Json, Passage, Summary
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


# -- edited fields ---------------------------------------------------------

EDITED_FIELDS = "edited_fields"
"""The key of the metadata with the names: a list of `title`, `project`, `tags` and others."""
PERSONAL_METADATA = ("tags", "pinned", "forgotten")
"""Metadata that belongs to the person. Imports only replace it if the source has it as well."""
_METADATA = "metadata."
"""What the names of other keys of the metadata begin with: `metadata.status`."""


def edited_fields(metadata: Mapping[str, Json]) -> frozenset[str]:
    names = metadata.get(EDITED_FIELDS)
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))


def edited_metadata(names: Collection[str]) -> list[str]:
    """The keys of the metadata that are among the names of edited fields."""
    return sorted(name.removeprefix(_METADATA) for name in names if name.startswith(_METADATA))


def without_edited_fields(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """The metadata as interfaces show it."""
    return {key: value for key, value in metadata.items() if key != EDITED_FIELDS}


def set_edited_fields(metadata: Mapping[str, Json], names: Collection[str]) -> dict[str, Json]:
    """The metadata with these names, and no others."""
    changed = without_edited_fields(metadata)
    if names:
        changed[EDITED_FIELDS] = sorted(names)
    return changed


def mark_edited_fields(before: Document, after: Document) -> dict[str, Json]:
    """The metadata of a document that somebody has changed, with the names of what changed."""
    names = set(edited_fields(after.metadata))
    if after.title != before.title:
        names.add("title")
    if after.project != before.project:
        names.add("project")
    if after.metadata.get("tags") != before.metadata.get("tags"):
        names.add("tags")
    for key in before.metadata.keys() | after.metadata.keys():
        is_own_field = key == EDITED_FIELDS or key in PERSONAL_METADATA
        if not is_own_field and after.metadata.get(key) != before.metadata.get(key):
            names.add(f"{_METADATA}{key}")
    return set_edited_fields(after.metadata, names)


CONVERSATION_FIELDS = frozenset({*conversation_fields(Document("", "")), "messages"})
MESSAGE_FIELDS = frozenset(message_fields(Passage("", None, ""), ""))
