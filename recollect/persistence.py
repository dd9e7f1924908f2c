"""The Python calls of the Persistence API (docs/contracts/persistence-api.md).

The calls take and return plain dictionaries with the fields of the API, such as `namespace`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.errors import NotFound
from recollect.language.text import identifier
from recollect.library import Library
from recollect.model.arguments import require_text
from recollect.model.documents import Document, Json, Summary
from recollect.model.fields import conversation_shape, message_shape
from recollect.model.sources import PROXY, RECOLLECT
from recollect.settings import LIMITS

_FIELD_NAMES = {
    "message_id": "id",
    "tool_used": "tool",
    "timestamp": "created_at",
    "parent_id": "parent",
}
"""Fields of a message that the API names differently."""


class PersistenceApi:
    """The calls of the Persistence API on a library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def create_conversation(
        self,
        conversation_id: str | None = None,
        session_id: str | None = None,
        title: str = "",
        namespace: str = "default",
        metadata: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """Create the conversation of a session, or return the one that it has.

        With an id alone, also returns any conversation that has the id. Raises Conflict if the id
        belongs to another session, or the session has a conversation with another id.
        """
        require_text(namespace, "namespace")
        if session_id is None and conversation_id is not None:
            imported = self._imported(conversation_id)
            if imported is not None:
                return conversation_shape(imported)
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

    def _imported(self, conversation_id: str) -> Summary | None:
        """The conversation with this id, if it is not known as the session of that name."""
        if self._library.find_id(RECOLLECT.name, conversation_id) is not None:
            return None
        try:
            summary = self._library.summary(conversation_id)
        except NotFound:
            return None
        if identifier(summary.id) != identifier(conversation_id):
            return None  # an abbreviation of another id
        return summary

    def get_conversation(self, conversation_id: str) -> dict[str, Json]:
        """A conversation with its messages. Raises NotFound."""
        document = self._library.conversation(conversation_id)
        messages = [message_shape(message, document.id) for message in document.messages]
        return {**conversation_shape(document), "messages": messages}

    def get_conversation_by_session(self, session_id: str) -> dict[str, Json] | None:
        """The conversation of a session, also of one that the proxy recorded."""
        for source in (RECOLLECT, PROXY):
            conversation_id = self._library.find_id(source.name, session_id)
            if conversation_id is not None:
                return conversation_shape(self._library.summary(conversation_id))
        return None

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

    def add_message(self, conversation_id: str, role: str, content: str, **fields: Any) -> str:
        """Add a message and return its id. With a `message_id`, the call can be repeated."""
        renamed = {_FIELD_NAMES.get(name, name): value for name, value in fields.items()}
        return self._library.add_message(conversation_id, role, content, **renamed)

    def update_conversation(
        self,
        conversation_id: str,
        title: str | None = None,
        namespace: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> None:
        """Change a conversation. Metadata keys that are not given stay. Raises NotFound."""
        self._library.update_conversation(conversation_id, title, namespace, tags, metadata)

    def delete_conversation(self, conversation_id: str) -> None:
        """Delete a conversation for good. Raises NotFound."""
        self._library.delete_conversation(conversation_id)
