"""Adding, changing and deleting conversations and messages."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from recollect.errors import InvalidInput
from recollect.library.core import LibraryCore
from recollect.model.arguments import (
    Moment,
    metadata_changes,
    new_conversation,
    new_message,
    require_text,
)
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.sources import BUS
from recollect.model.undo import Edit


class Writing(LibraryCore):
    # -- conversations ---

    def add_conversation(
        self,
        id: str | None = None,
        title: str = "",
        *,
        messages: Iterable[Mapping[str, Json]] = (),
        project: str | None = None,
        created_at: Moment = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Document:
        """Add a conversation, or the messages that an existing one does not have.

        A message is a mapping with `role`, `content`, and optionally `id`, `author`, `created_at`
        and the other fields of a Passage, or a message as OpenAI's and Anthropic's SDKs have it.
        Without an id it is numbered, and without a parent it follows the one before it. New
        messages continue an existing conversation. What is not given stays as it is; `project` is
        "default" in a new one. Raises Conflict if the conversation has another message with one of
        the ids. Then nothing changes.
        """
        from recollect.knowledge.editing import add_conversation

        document = new_conversation(
            id or str(uuid.uuid4()),
            title,
            messages,
            project="default" if project is None else project,
            created_at=created_at,
            metadata=metadata,
        )
        fields = {"project": project, "created_at": created_at}
        defaults = [name for name, value in fields.items() if value is None]
        saved_id = add_conversation(self._store, document, defaults)
        self.wake_indexer()
        return self._store.document(saved_id)

    def ensure_conversation(self, conversation: Document, *, id: str | None = None) -> Summary:
        """Return the conversation with this source and source id, and create it if there is none.

        A new conversation is a copy of the document given, with its id if that is free. With `id`,
        raises Conflict unless the conversation has, or can be given, exactly that id.
        """
        from recollect.knowledge.editing import ensure_conversation

        return ensure_conversation(self._store, conversation, id, self.wake_indexer)

    def update_conversation(
        self,
        conversation_id: str,
        title: str | None = None,
        project: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
        pinned: bool | None = None,
    ) -> None:
        """Change a conversation. Metadata keys that are not given stay. Raises NotFound."""
        if project is not None:
            require_text(project, "project")
        changes = metadata_changes(metadata, tags, pinned)
        edit = Edit(title=title, project=project, metadata=changes)
        self._store.edit(conversation_id, edit)
        self.wake_indexer()

    def revise_conversation(
        self, conversation_id: str, change: Callable[[Document], Document]
    ) -> None:
        """Replace a conversation by the result of `change`, in one transaction.

        `change` may raise to cancel, and may be called more than once. It must keep the messages
        and their order. Raises NotFound.
        """
        self._store.revise(conversation_id, change)
        self.wake_indexer()

    def delete_conversation(self, conversation_id: str) -> Document:
        """Delete a conversation for good, and return the only copy. Raises NotFound.

        `restore_document` puts it back. `trash` is a deletion that can be undone.
        """
        deleted = self._store.delete(conversation_id)
        self.wake_indexer()
        self.archive.forget((deleted.source, deleted.source_id))
        return deleted

    def restore_document(self, document: Document) -> tuple[Summary, bool]:
        """Put a deleted document back. Returns it, and whether it was missing.

        Raises Conflict if the library has the document and it differs.
        """
        from recollect.transfer.restoring import restore_document

        id_, is_new = restore_document(self._store, document)
        if is_new:
            self.wake_indexer()
        return self._store.summary(id_), is_new

    # -- messages ---

    def add_message(
        self, conversation_id: str, role: str, content: Json = None, **fields: Any
    ) -> str:
        """Add one message to a conversation. Returns its id once it is durable.

        With an `id`, the call can be repeated: the same message is stored once, and a different one
        with that id raises Conflict. `fields` are the other fields of a Passage, or of a message of
        OpenAI's or Anthropic's SDK. Raises NotFound.
        """
        *earlier, message = new_message(role, content, fields)
        if earlier:
            self._store.extend(conversation_id, [*earlier, message], require_same=True)
        else:
            self._store.append(conversation_id, message)
        self.wake_indexer()
        return message.id

    def add_messages(
        self, conversation_id: str, messages: Sequence[Passage], *, require_same: bool = False
    ) -> int:
        """Add the messages that a conversation does not have, all or none. Returns their number.

        With `require_same`, raises Conflict if it has another message with one of the ids.
        """
        added = self._store.extend(conversation_id, messages, require_same)
        self.wake_indexer()
        return added

    def delete_message(self, conversation_id: str, message_id: str) -> Passage:
        """Delete a message that no other message answers, and return it.

        Raises NotFound, or Conflict if another message answers it.
        """
        deleted = self._store.delete_passage(conversation_id, message_id)
        self.wake_indexer()
        return deleted

    # -- threads of the bus ---

    def thread(self, topic: str, metadata: Mapping[str, Json] | None = None) -> Summary:
        """The thread with this topic. It is created on first use."""
        if not topic.strip():
            raise InvalidInput("A thread needs a topic.")
        return self.ensure_conversation(
            Document(BUS.name, topic, topic, metadata=dict(metadata or {}))
        )

    def post(
        self,
        thread_id: str,
        author: str,
        content: str,
        *,
        role: str = "user",
        expected_last_seq: int | None = None,
        **fields: Any,
    ) -> tuple[Passage, bool]:
        """Add a message to a thread. Returns it, and whether it is new.

        Its `position` + 1 is its number in the thread. `fields` are as for `add_message`. If the
        number of the last message is not `expected_last_seq`, raises OutdatedPosition, unless the
        message was stored before.
        """
        *others, message = new_message(role, content, {**fields, "author": author})
        if others:
            raise InvalidInput("A message in a thread is one text.")
        appended = self._store.append(thread_id, message, expected_last_seq)
        self.wake_indexer()
        ((stored,), _) = self._store.passage_page(thread_id, appended.position, 1)
        return stored, appended.new
