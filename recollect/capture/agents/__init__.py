"""Session storage for agent frameworks: one module per framework, which must be installed.

Each item of a session is stored as a message. Its text can be searched, and the item itself is in
the message's metadata, so that it is returned unchanged.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Document, Json, Passage
from recollect.redact.redactor import redact_value

ITEM = "item"
"""The key of the item in a message's metadata."""
_TITLE = 80
_PAGE = 200


class SessionItem(NamedTuple):
    """An item of a session, and its text."""

    item: Json
    role: str
    text: str
    kind: str = "message"
    tool: str | None = None
    model: str | None = None
    id: str | None = None
    """Its own id, if it has a unique one."""


class Session:
    """The items of one session, in order. Its methods block, and may be called from any thread."""

    def __init__(
        self, library: Library, source: str, session_id: str, project: str = "default"
    ) -> None:
        self._library = library
        self._source = source
        self._session_id = session_id
        self._project = project

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation in the library; None while the session is empty."""
        return self._library.find_id(self._source, self._session_id)

    def passages(self, limit: int | None = None) -> list[Passage]:
        """The messages, or the last `limit` of them."""
        conversation = self.conversation_id
        if conversation is None:
            return []
        try:
            _, total = self._library.messages(conversation, 0, 1)
            start = 0 if limit is None else max(0, total - max(0, limit))
            messages: list[Passage] = []
            while start < total:
                page, total = self._library.messages(conversation, start, _PAGE)
                if not page:
                    break
                messages += page
                start += len(page)
        except NotFound:  # the session was cleared meanwhile
            return []
        return messages

    def add(self, items: Iterable[SessionItem]) -> None:
        """Append items, all or none. An item whose own id is already stored is skipped."""
        entries = list(items)
        if not entries:
            return
        conversation = self.conversation_id
        if conversation is None:
            questions = (entry.text for entry in entries if entry.role == "user")
            title = make_title(next(filter(str.strip, questions), ""))
            session = Document(self._source, self._session_id, title, project=self._project)
            conversation = self._library.ensure_conversation(session).id
        has_ids = any(entry.id for entry in entries)
        stored = {p.id: p.metadata.get(ITEM) for p in self.passages()} if has_ids else {}
        new = [
            entry
            for entry in entries
            if entry.id is None or not is_same(stored.get(entry.id, self), entry.item)
        ]
        self._library.add_messages(conversation, [item_passage(entry, stored) for entry in new])

    def pop(self) -> Passage | None:
        """Remove the last item and return it."""
        conversation = self.conversation_id
        last = self.passages(1)
        if conversation is None or not last:
            return None
        return self._library.delete_message(conversation, last[0].id)

    def clear(self) -> None:
        """Delete the session permanently."""
        if (conversation := self.conversation_id) is not None:
            self._library.delete_conversation(conversation)


def make_title(text: str) -> str:
    return truncate(" ".join(text[: 4 * _TITLE].split()), _TITLE)


def is_same(stored: Json, item: Json) -> bool:
    """Whether an item equals the stored one, which may have been redacted."""
    return bool(stored == item or stored == redact_value(item, Counter()))


def item_passage(entry: SessionItem, stored: Mapping[str, Json]) -> Passage:
    """An item as a message: under its own id, unless that id is taken."""
    id_ = entry.id if entry.id is not None and entry.id not in stored else str(uuid.uuid4())
    return Passage(
        id_,
        entry.role,
        entry.text,
        type=entry.kind,
        tool=entry.tool,
        model=entry.model,
        visibility="hidden" if entry.role == "system" else "all",
        metadata={ITEM: entry.item},
    )


def content_text(content: Json) -> str:
    """The text of a content in the shapes of OpenAI, Anthropic and LangChain."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        for name in ("text", "refusal", "thinking", "reasoning", "output", "content", "summary"):
            if isinstance(content.get(name), (str, list, Mapping)):
                return content_text(content[name])
        return ""
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        return "\n".join(filter(None, map(content_text, content)))
    return ""
