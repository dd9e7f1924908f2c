"""The Python calls of the Persistence API (docs/contracts/persistence-api.md).

The calls take and return plain dictionaries with the fields of the API, such as `namespace`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from recollect.errors import Conflict, NotFound
from recollect.language.text import identifier
from recollect.library import Library
from recollect.model.arguments import require_text
from recollect.model.documents import Document, Json
from recollect.model.fields import conversation_shape, message_shape
from recollect.model.search import Filter
from recollect.model.sources import RECOLLECT
from recollect.settings import LIMITS


class PersistenceApi:
    """The calls of the Persistence API on a library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def create_conversation(
        self,
        conversation_id: str | None = None,
        session_id: str | None = None,
        title: str = "New Conversation",
        namespace: str = "default",
        metadata: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Create the conversation of a session, or return the one that it has.

        With an id alone, also returns any conversation that has the id. Raises Conflict if the id
        belongs to another session, or the session has a conversation with another id.
        """
        require_text(namespace, "namespace")
        session = session_id or conversation_id
        existing = self._library.find_session(session) if session else None
        if existing is not None:
            if identifier(conversation_id or existing.id) != identifier(existing.id):
                raise Conflict(
                    f"Session {str(session)[:80]!r} already has the conversation "
                    f"{existing.id[:80]!r}."
                )
            return conversation_shape(existing)
        conversation = Document(
            RECOLLECT.name,
            session_id or conversation_id or str(uuid.uuid4()),
            title,
            project=namespace,
            metadata=dict(metadata or {}),
        )
        if conversation_id is None and session_id is None:
            conversation_id = conversation.source_id
        return conversation_shape(
            self._library.ensure_conversation(conversation, id=conversation_id)
        )

    def list_conversations(
        self,
        limit: int = 50,
        offset: int = 0,
        namespace: str | None = None,
        search_query: str | None = None,
    ) -> list[dict[str, Json]]:
        """A page of the conversations, last changed first.

        `search_query` is a part of the title or of the id.
        """
        filter = Filter.of(projects=[namespace] if namespace else [])
        summaries, _ = self._library.conversation_page(
            filter, limit=limit, offset=offset, title=search_query or ""
        )
        return [conversation_shape(summary) for summary in summaries]

    def get_conversation(self, conversation_id: str) -> dict[str, Json]:
        """A conversation with its messages. Raises NotFound."""
        document = self._library.conversation(conversation_id)
        messages = [message_shape(message, document.id) for message in document.messages]
        return {**conversation_shape(document), "messages": messages}

    def get_conversation_by_session(self, session_id: str) -> dict[str, Json] | None:
        """The conversation of a session; None if there is none."""
        conversation = self._library.find_session(session_id)
        return None if conversation is None else conversation_shape(conversation)

    def get_messages(
        self, conversation_id: str, limit: int | None = None, offset: int = 0
    ) -> list[dict[str, Json]]:
        """The messages of a conversation in reading order. Raises NotFound."""
        start = max(offset, 0)
        messages: list[dict[str, Json]] = []
        while True:
            page, total = self._library.messages(conversation_id, start, LIMITS.page_size)
            messages += [message_shape(message, conversation_id) for message in page]
            start += len(page)
            if not page or start >= total:
                break
            if limit is not None and len(messages) >= limit:
                break
        if limit is None:
            return messages
        return messages[: max(limit, 0)]

    def search_messages(
        self, query: str, conversation_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[dict[str, Json]]:
        """The messages that contain a text, newest first. `Library.find_text` also counts them."""
        matches = self._library.find_text(query, conversation_id, limit, offset)
        return [message_shape(message, conversation) for conversation, message in matches.messages]

    def add_message(
        self,
        message_id: str | None,
        conversation_id: str,
        role: str,
        content: str,
        model: str | None = None,
        tool_used: str | None = None,
        attachments: Sequence[Json] | None = None,
        citations: Sequence[Json] | None = None,
        timestamp: str | None = None,
        **fields: Any,
    ) -> str:
        """Add a message and return its id. With an id, the call can be repeated."""
        fields |= {
            "id": message_id,
            "model": model,
            "tool": tool_used,
            "attachments": attachments or (),
            "citations": citations or (),
            "created_at": timestamp,
            "parent": fields.pop("parent_id", None),
        }
        return self._library.add_message(conversation_id, role, content, **fields)

    def update_conversation(
        self,
        conversation_id: str,
        title: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        namespace: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> bool:
        """Change a conversation; False if there is none. Metadata keys that are not given stay."""
        with suppress(NotFound):
            self._library.update_conversation(conversation_id, title, namespace, tags, metadata)
            return True
        return False

    def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation for good; False if there is none."""
        with suppress(NotFound):
            self._library.delete_conversation(conversation_id)
            return True
        return False
