"""Combine a new version of a document with the stored one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect.language.text import fold, identifier
from recollect.model.documents import Document, Passage
from recollect.model.fields import (
    PERSONAL_METADATA,
    edited_fields,
    edited_metadata,
    set_edited_fields,
)
from recollect.model.kinds import CONVERSATION


def merge_fields(document: Document, stored: Document) -> Document:
    """The document with the identity of the stored one, and its title and dates where missing."""
    return replace(
        document,
        id=stored.id,
        source=stored.source,
        source_id=stored.source_id,
        kind=stored.kind,
        title=document.title or stored.title,
        created_at=document.created_at or stored.created_at,
        updated_at=document.updated_at or stored.updated_at,
    )


def merge_headers(document: Document, stored: Document) -> Document:
    """The fields of a stored conversation that this version of it replaces."""
    document = keep_personal_fields(document, stored)
    return replace(merge_fields(document, stored), head=document.head or stored.head)


def keep_personal_fields(document: Document, stored: Document) -> Document:
    """The document of a source, with what was set or removed in the stored one.

    A document that was edited as well, in another library, replaces the fields that were edited
    there.
    """
    edited = edited_fields(stored.metadata) - edited_fields(document.metadata)
    metadata = keep_personal_metadata(document, stored, edited)
    if not edited:
        return replace(document, metadata=metadata)
    if "tags" in edited:
        tags = merge_tags(stored.metadata.get("tags"), document.metadata.get("tags"))
        metadata = {**metadata, "tags": tags} if tags else metadata
    metadata = keep_values(metadata, stored.metadata, edited_metadata(edited))
    metadata = set_edited_fields(metadata, edited | edited_fields(document.metadata))
    document = replace(document, metadata=metadata)
    if "title" in edited:
        document = replace(document, title=stored.title)
    if "project" in edited:
        document = replace(document, project=stored.project)
    return document


def keep_personal_metadata(
    document: Document, stored: Document, edited: Collection[str]
) -> Mapping[str, Any]:
    """The metadata with the stored personal values that the source does not have."""
    personal = {
        name: stored.metadata[name]
        for name in PERSONAL_METADATA
        if name in stored.metadata and name not in document.metadata
    }
    if stored.kind != CONVERSATION and "tags" not in edited:
        personal.pop("tags", None)  # items have tags in their files
    if not personal:
        return document.metadata
    return {**document.metadata, **personal}


def keep_values(
    metadata: Mapping[str, Any], stored: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    """The metadata with the stored values of these names, and without those that have none."""
    merged = {name: value for name, value in metadata.items() if name not in names}
    return merged | {name: stored[name] for name in names if name in stored}


def merge_tags(*lists: Any) -> list[str]:
    """The tags of all lists, each once. Case does not matter."""
    tags: dict[str, str] = {}
    for names in lists:
        if isinstance(names, list):
            for tag in names:
                if isinstance(tag, str):
                    tags.setdefault(fold(tag), tag)
    return list(tags.values())


def keep_creation_date(document: Document, stored: Document) -> Document:
    """The document with the earlier of the two creation dates. Touching a file changes its date."""
    if document.created_at is None or stored.created_at is None:
        return document
    if document.created_at <= stored.created_at:
        return document
    passages = []
    for passage in document.passages:
        if passage.created_at == document.created_at:
            passage = passage._replace(created_at=stored.created_at)
        passages.append(passage)
    return replace(document, created_at=stored.created_at, passages=tuple(passages))


def merge_outlines(
    stored: Mapping[str, Passage], document: Document, new: Sequence[Passage], replaces: bool
) -> dict[str, Passage]:
    """The outline of a conversation from stored and new passages.

    If the document replaces the stored one, its order comes first. Passages that are copies of
    another document's are not stored here, so they are left out.
    """
    if not replaces:
        return dict(stored) | {identifier(p.id): outline(p) for p in new}
    stored_or_new = stored.keys() | {identifier(p.id) for p in new}
    outlines = {identifier(p.id): outline(p) for p in document.passages}
    merged = {id_: passage for id_, passage in outlines.items() if id_ in stored_or_new}
    return merged | {id_: passage for id_, passage in stored.items() if id_ not in outlines}


def outline(passage: Passage) -> Passage:
    """What the order of passages depends on, with ids as they are stored."""
    parent = passage.parent
    if parent is not None:
        parent = identifier(parent)
    return Passage(identifier(passage.id), None, "", parent=parent, created_at=passage.created_at)


def unique_passages(passages: tuple[Passage, ...]) -> tuple[Passage, ...]:
    """One passage per id: the last one, at the position of the first."""
    ids = {passage.id for passage in passages}
    if len(ids) == len(passages) and "".join(ids).isascii():
        return passages
    unique: dict[str, Passage] = {}
    for passage in passages:
        unique[identifier(passage.id)] = passage
    if len(unique) == len(passages):
        return passages
    return tuple(unique.values())


def is_older(document: Document, stored: Document) -> bool:
    if document.updated_at is None or stored.updated_at is None:
        return False
    return document.updated_at < stored.updated_at
