"""A conversation store for pydantic-ai (versions that have stores), with usage, branches and forks.

conversation = await store.load(id) or Conversation(conversation_id=id)
await store.save(await agent.run(question, conversation=conversation))
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from recollect.capture.agents import item_passage, make_title
from recollect.capture.agents.pydantic_ai import dump_items, load_message, session_item
from recollect.errors import RecollectError
from recollect.library import Library
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.model.sources import PYDANTIC_AI_STORE

SOURCE = PYDANTIC_AI_STORE.name
_RECORD, _PARENT = "record", "parent"
_PAGE = 200
_RECORDS = TypeAdapter(ConversationRecord)


class RecollectConversationStore(ConversationStore):
    """Each conversation is one of the library. A fork also stores the messages before it, so that
    deleting a conversation removes all its messages, and no fork loses any."""

    def __init__(self, library: Library, *, project: str = "default") -> None:
        self._library = library
        self._project = project

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        return await asyncio.to_thread(self._record, conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        return (await asyncio.to_thread(self._records_in, scope))[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await asyncio.to_thread(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await asyncio.to_thread(self._delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        return await asyncio.to_thread(self._history, head_id, limit)

    # -- blocking ---

    def _record(self, conversation_id: str) -> ConversationRecord | None:
        there = self._library.find_id(SOURCE, conversation_id)
        if there is None:
            return None
        with suppress(RecollectError):  # it may be deleted meanwhile
            return parse_record(self._library.summary(there).metadata)
        return None

    def _records_in(self, scope: str | None) -> list[ConversationRecord]:
        records: list[ConversationRecord] = []
        filter_, at, total = Filter(sources=(SOURCE,)), 0, 1
        while at < total:
            page, total = self._library.conversation_page(filter_, limit=_PAGE, offset=at)
            records += filter(None, (parse_record(summary.metadata) for summary in page))
            at += _PAGE
        mine = [record for record in records if scope is None or record.scope == scope]
        return sorted(mine, key=lambda record: record.updated_at, reverse=True)

    def _write(
        self, record: ConversationRecord, new: Sequence[ConversationEntry], expected: str | None
    ) -> None:
        stored = self._record(record.conversation_id)
        if (stored.revision if stored is not None else None) != expected:
            raise ConversationConflict(record.conversation_id)
        passages = [_passage(entry) for entry in (*self._missing(record, new), *new)]
        conversation = self._find_or_create(record.conversation_id, passages)
        stored_ids = {m.id for m in self._library.conversation(conversation).messages}
        added = [passage for passage in passages if passage.id not in stored_ids]
        self._library.add_messages(conversation, added)
        try:
            self._library.revise_conversation(
                conversation, lambda document: _with(document, record, expected)
            )
        except ConversationConflict:
            for passage in reversed(
                added
            ):  # another wrote it meanwhile, and these belong to nothing
                with suppress(RecollectError):
                    self._library.delete_message(conversation, passage.id)
            raise

    def _missing(
        self, record: ConversationRecord, new: Sequence[ConversationEntry]
    ) -> list[ConversationEntry]:
        """Entries in another conversation that this one needs: those before a fork."""
        before = new[0].parent_id if new else record.head_id
        pairs = self._library.conversations_with(SOURCE, [before] if before else [])
        holding = {document for document, _ in pairs}
        if before is None or self._library.find_id(SOURCE, record.conversation_id) in holding:
            return []
        try:
            return self._history(before, None)
        except LookupError:
            raise ConversationConflict(record.conversation_id) from None

    def _find_or_create(self, conversation_id: str, passages: Sequence[Passage]) -> str:
        conversation = self._library.find_id(SOURCE, conversation_id)
        if conversation is None:
            question = next(
                (p.content for p in passages if p.role == "user" and p.content.strip()), ""
            )
            document = Document(
                SOURCE,
                conversation_id,
                make_title(question),
                project=self._project,
                id=conversation_id,
                partial=True,  # if another process has just created it, that one stays
            )
            conversation = self._library.ensure_conversation(document).id
        return conversation

    def _delete(self, conversation_id: str, expected: str) -> None:
        stored = self._record(conversation_id)
        there = self._library.find_id(SOURCE, conversation_id)
        if stored is None or there is None or stored.revision != expected:
            raise ConversationConflict(conversation_id)
        self._library.delete_conversation(there)

    def _history(self, head: str | None, limit: int | None) -> list[ConversationEntry]:
        if head is None or limit == 0:
            return []
        for document, _ in self._library.conversations_with(SOURCE, [head]):
            with suppress(RecollectError):
                messages = self._library.conversation(document).messages
                there = {message.id: message for message in messages}
                return chain(there, head, limit)
        raise LookupError(head)


def chain(there: dict[str, Passage], head: str, limit: int | None) -> list[ConversationEntry]:
    entries: list[ConversationEntry] = []
    at: str | None = head
    while at is not None and (limit is None or len(entries) < limit):
        passage = there[at]
        parent = passage.metadata.get(_PARENT)
        entries.append(
            ConversationEntry(id=passage.id, parent_id=parent, message=load_message(passage))
        )
        at = parent
    return entries[::-1]


def _passage(entry: ConversationEntry) -> Passage:
    (item,) = dump_items([entry.message])
    passage = item_passage(session_item(entry.message, item)._replace(id=entry.id), {})
    return passage._replace(
        parent=entry.parent_id, metadata={**passage.metadata, _PARENT: entry.parent_id}
    )


def parse_record(metadata: Any) -> ConversationRecord | None:
    return _RECORDS.validate_python(metadata[_RECORD]) if _RECORD in metadata else None


def _with(document: Document, record: ConversationRecord, expected: str | None) -> Document:
    """The document with its new record, if it has the expected revision."""
    stored = document.metadata.get(_RECORD)
    if (stored["revision"] if stored else None) != expected:
        raise ConversationConflict(record.conversation_id)
    return replace(
        document, metadata={**document.metadata, _RECORD: _RECORDS.dump_python(record, mode="json")}
    )
