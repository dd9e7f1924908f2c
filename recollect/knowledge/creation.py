"""Create a conversation once, even if several processes try to, and continue existing ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from recollect.errors import Conflict, NotFound
from recollect.language.text import identifier
from recollect.model.documents import Document, Passage, Summary
from recollect.store.base import Store


def ensure_conversation(
    store: Store, conversation: Document, id: str | None, on_create: Callable[[], None]
) -> Summary:
    """The conversation with this source and source id. See `Library.ensure_conversation`."""
    source, source_id = conversation.source, conversation.source_id
    existing = store.find_id(source, source_id)
    if existing is None and id is not None and _exists(store, id):
        existing = store.find_id(source, source_id)  # It may have been created just now.
        if existing is None:
            raise _id_in_use(id)
    if existing is None:
        existing = _create(store, conversation, id)
        on_create()
    if id is not None and identifier(existing) != identifier(id):
        raise Conflict(
            f"Session {source_id[:80]!r} already has the conversation {existing[:80]!r}."
        )
    return store.summary(existing)


def add_conversation(store: Store, conversation: Document, defaults: Sequence[str]) -> str:
    """Store a conversation, or add what the stored one does not have. Returns its id.

    The fields named in `defaults`, empty fields and other keys of the metadata stay as they are
    stored. Raises Conflict if the stored conversation has another message with one of the ids.
    """
    id_ = store.find_id(conversation.source, conversation.source_id)
    if id_ is None:
        (saved,) = store.save([conversation], only_new=True)
        if saved.created:
            return saved.id
        id_ = saved.id  # Another process was faster.
    if conversation.passages:
        store.extend(id_, _new_replies(store, id_, conversation.passages), require_same=True)
    stored = store.header(id_)
    stored_fields = {name: getattr(stored, name) for name in defaults}
    fields = replace(
        conversation,
        passages=(),
        updated_at=stored.updated_at,
        metadata={**stored.metadata, **conversation.metadata},
        **stored_fields,
    )
    store.save([fields])
    return id_


def _new_replies(store: Store, id: str, passages: Sequence[Passage]) -> list[Passage]:
    """The passages; those that are stored have no parent, because it is known."""
    stored = store.passages_by_id(id, [passage.id for passage in passages])
    stored_ids = {identifier(passage.id) for passage in stored}
    replies = []
    for passage in passages:
        if identifier(passage.id) in stored_ids:
            passage = passage._replace(parent=None)
        replies.append(passage)
    return replies


def _create(store: Store, conversation: Document, id: str | None) -> str:
    now = datetime.now(UTC)
    new_id = id or conversation.id or str(uuid.uuid4())
    document = replace(conversation, id=new_id, created_at=now, updated_at=now)
    (saved,) = store.save([document])
    if id is not None and saved.created and identifier(saved.id) != identifier(id):
        # Another process used the id in the meantime.
        store.delete(saved.id)
        raise _id_in_use(id)
    return saved.id


def _exists(store: Store, id: str) -> bool:
    try:
        header = store.header(id)
    except NotFound:
        return False
    return identifier(header.id) == identifier(id)


def _id_in_use(id: str) -> Conflict:
    return Conflict(f"Conversation id {id[:80]!r} is already used by another conversation.")
