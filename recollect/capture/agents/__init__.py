"""Agent programs that keep their sessions in a library: a class for each of their frameworks, which it needs.

An item of a session, whatever the framework calls it, is a message: what it
says can be searched, and the item itself lies in the message's metadata, so that
it comes back as it was.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Json, Passage
from recollect.redact.redactor import redact_value
from recollect.store.base import Store

ITEM = "item"
"""Where in the metadata of a message the item lies."""
_TITLE = 80
_PAGE = 200


class Said(NamedTuple):
    """An item, and what it says."""

    item: Json
    role: str
    text: str
    kind: str = "message"
    tool: str | None = None
    model: str | None = None
    id: str | None = None
    """Its own id, if it has one that no other item has."""


class Session:
    """The items of one session, in their order. Its methods block, and may be called from any thread."""

    def __init__(
        self, library: Library, origin: str, session_id: str, namespace: str = "default"
    ) -> None:
        self._library = library
        self._origin = origin
        self._session_id = session_id
        self._namespace = namespace

    @property
    def _store(self) -> Store:
        return self._library.store

    @property
    def conversation_id(self) -> str | None:
        """The conversation in the library; None as long as there is nothing in it."""
        return self._store.find_id(self._origin, self._session_id)

    def passages(self, limit: int | None = None) -> list[Passage]:
        """The messages, or the last ones."""
        conversation = self.conversation_id
        if conversation is None:
            return []
        try:
            _, total = self._store.passage_page(conversation, 0, 0)
            start = 0 if limit is None else max(0, total - max(0, limit))
            found: list[Passage] = []
            while start < total:
                some, total = self._store.passage_page(
                    conversation, start, min(_PAGE, total - start)
                )
                if not some:
                    break
                found += some
                start += len(some)
        except NotFound:  # it was cleared meanwhile
            return []
        return found

    def add(self, items: Iterable[Said]) -> None:
        """Add items at the end, all of them or none. One that is there already, by its own id, is left out."""
        given = list(items)
        if not given:
            return
        conversation = self._conversation(given)
        known = (
            {p.id: p.metadata.get(ITEM) for p in self.passages()}
            if any(said.id for said in given)
            else {}
        )
        new = [
            said
            for said in given
            if said.id is None or not is_same(known.get(said.id, self), said.item)
        ]
        self._library.record(conversation, [passage_of(said, known) for said in new])

    def pop(self) -> Passage | None:
        """Take the last item away."""
        conversation = self.conversation_id
        last = self.passages(1)
        if conversation is None or not last:
            return None
        removed = self._store.delete_passage(conversation, last[0].id)
        self._library.wake_indexer()
        return removed

    def clear(self) -> None:
        """Remove the session for good."""
        if (conversation := self.conversation_id) is not None:
            self._library.delete_conversation(conversation)

    def _conversation(self, items: Sequence[Said]) -> str:
        there = self.conversation_id
        if there is None:
            asked = next(
                (said.text for said in items if said.role == "user" and said.text.strip()), ""
            )
            made = self._library.create_conversation(
                session_id=self._session_id,
                title=title_of(asked),
                namespace=self._namespace,
                origin=self._origin,
            )
            there = str(made["id"])
        return there


def title_of(asked: str) -> str:
    return truncate(" ".join(asked[: 4 * _TITLE].split()), _TITLE)


def is_same(stored: Json, given: Json) -> bool:
    """Whether an item is the one that is stored, in which there may be no secrets any more."""
    return bool(stored == given or stored == redact_value(given, Counter()))


def passage_of(said: Said, known: Mapping[str, Json]) -> Passage:
    """An item as it is stored: under its own id, unless that is known."""
    id_ = said.id if said.id is not None and said.id not in known else str(uuid.uuid4())
    return Passage(
        id_,
        said.role,
        said.text,
        type=said.kind,
        tool=said.tool,
        model=said.model,
        visibility="hidden" if said.role == "system" else "all",
        metadata={ITEM: said.item},
    )


def text_of(content: Json) -> str:
    """What the parts of a content say: texts of OpenAI's, Anthropic's and LangChain's kinds."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        for name in ("text", "refusal", "thinking", "reasoning", "output", "content", "summary"):
            if isinstance(content.get(name), (str, list, Mapping)):
                return text_of(content[name])
        return ""
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        return "\n".join(filter(None, map(text_of, content)))
    return ""
