"""Recollect's own JSON: what `recollect export` writes, and what is easy to write by hand.

    {"conversations": [{"id", "title", "created_at", "messages": [{"id", "role", "content", ...}]}]}

A list of conversations, or a single one (contract 1's export), is read as
well. Ids are kept. Messages that say nothing about their parents follow one
another; where any does, parents are taken as written. Keys that Recollect
does not know are kept in `metadata`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from recollect.importers.entries import Entry
from recollect.importers.items import sound
from recollect.importers.jsonstream import peek, records
from recollect.language.text import moment
from recollect.model.audience import HUMAN_ONLY, is_marked_human_only
from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, Document, Json, Passage
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.receipts import Problem
from recollect.model.sources import RECOLLECT

SOURCE = RECOLLECT
DESCRIPTION = "Recollect JSON (*.json)"

_CONVERSATION_KEYS = frozenset(
    {
        "id",
        "session_id",
        "title",
        "namespace",
        "created_at",
        "updated_at",
        "message_count",
        "metadata",
        "messages",
    }
    | {"origin", "origin_id", "source", "head", "partial", "shared_ids"}
)
_MESSAGE_KEYS = frozenset(
    {
        "id",
        "conversation_id",
        "role",
        "content",
        "model",
        "tool_used",
        "tool",
        "attachments",
        "citations",
    }
    | {
        "timestamp",
        "created_at",
        "updated_at",
        "author",
        "kind",
        "parent_id",
        "visibility",
        "canonical",
        "metadata",
    }
)
# Keys by which other programs' conversations are known, although they too hold `messages`.
_FOREIGN_KEYS = frozenset(
    {
        "mapping",
        "chat_messages",
        "conversationId",
        "messagesTree",
        "chat",
        "history",
        "guild",
        "sessionId",
    }
)
_FORMAT = re.compile(rb'"format"\s*:\s*"recollect"')
_ROLE = re.compile(rb'"role"\s*:')
_CONTENT = re.compile(rb'"content"\s*:')


# -- recognising -------------------------------------------------------------


def claims(entry: Entry) -> bool:
    if not entry.basename.lower().endswith(".json"):
        return False
    keys = peek(entry)
    if keys & _FOREIGN_KEYS:
        return False
    head = entry.head().replace(b"\0", b"")  # UTF-16 reads like ASCII then
    if _FORMAT.search(head[:200]):
        return True
    return {"id", "messages"} <= keys and bool(_ROLE.search(head) and _CONTENT.search(head))


# -- reading -----------------------------------------------------------------


def read(entry: Entry) -> Iterator[Document | Problem]:
    for item in records(entry, marks={"messages"}):
        if isinstance(item, Problem):
            yield item
        else:
            yield from _conversation(*item)


def _conversation(index: int, record: Json) -> Iterator[Document | Problem]:
    where = f"record {index}"
    if not isinstance(record, dict):
        yield Problem("not a conversation", where, failed=True, unit="conversations")
        return
    identity = _identity(record.get("id"))
    if identity is None:
        yield Problem("conversation without an id", where, failed=True, unit="conversations")
        return
    if not isinstance(record.get("messages"), list):
        yield Problem("conversation without messages", where, failed=True, unit="conversations")
        return
    messages = _Messages(identity)
    for number, message in enumerate(record["messages"]):
        messages.add(message, number)
    yield from messages.problems
    document = Document(
        source=_word(record.get("origin")) or SOURCE.name,
        source_id=_identity(record.get("origin_id")) or identity,
        title=_word(record.get("title")) or "",
        kind=_one_of(KINDS, record.get("source")),
        project=_word(record.get("namespace")) or "default",
        created_at=moment(record.get("created_at")),
        updated_at=moment(record.get("updated_at")),
        head=messages.survivor(_identity(record.get("head"))),
        passages=messages.linked(),
        metadata=_conversation_metadata(record, identity),
        id=identity,
        partial=record.get("partial") is True,
        shared_ids=record.get("shared_ids") is True,
    )
    yield document if document.kind == CONVERSATION else sound(document)


@dataclass(slots=True)
class _Messages:
    """The messages of one conversation as they are read, and what went wrong with them."""

    conversation: str
    kept: dict[str, Passage] = field(default_factory=dict)
    lost: dict[str, str | None] = field(default_factory=dict)
    """Messages that could not be used, and their parents."""
    problems: list[Problem] = field(default_factory=list)
    parents_given: bool = False

    def add(self, record: Json, index: int) -> None:
        where = f"conversation {self.conversation}, message {index}"
        if not isinstance(record, dict):
            self.problems.append(Problem("not a message", where, failed=True))
            return
        self.parents_given |= "parent_id" in record
        identity = _identity(record.get("id")) or f"{self.conversation}:{index}"
        passage = _passage(record, identity, index)
        if passage is None:
            self.lost[identity] = _identity(record.get("parent_id"))
            self.problems.append(Problem("message without text", where, failed=True))
        elif (first := self.kept.setdefault(passage.id, passage)) is not passage:
            if first._replace(position=index) == passage:
                self.problems.append(Problem("the same message twice", where))
            else:
                self.problems.append(Problem("message id used twice", where, failed=True))

    def linked(self) -> tuple[Passage, ...]:
        passages = tuple(self.kept.values())
        if self.parents_given:
            return tuple(p._replace(parent=self.survivor(p.parent)) for p in passages)
        before = (None, *(p.id for p in passages))
        return tuple(p._replace(parent=parent) for p, parent in zip(passages, before, strict=False))

    def survivor(self, identity: str | None) -> str | None:
        """The message itself or, where it was lost, its nearest ancestor: so the path is not cut."""
        seen: set[str] = set()
        while identity in self.lost and identity not in self.kept and identity not in seen:
            seen.add(identity)
            identity = self.lost[identity]
        return identity


def _passage(record: Mapping[str, Json], identity: str, index: int) -> Passage | None:
    text = _text(record.get("content"))
    if text is None:
        return None
    content, other_parts = text
    metadata = _metadata(record, _MESSAGE_KEYS)
    return Passage(
        id=identity,
        role=_word(record.get("role")),
        content=content,
        type=_one_of(PASSAGE_TYPES, record.get("kind")),
        author=_word(record.get("author")),
        model=_word(record.get("model")),
        tool=_word(record.get("tool_used", record.get("tool"))),
        parent=_identity(record.get("parent_id")),
        created_at=moment(record.get("timestamp")) or moment(record.get("created_at")),
        updated_at=moment(record.get("updated_at")),
        visibility=HUMAN_ONLY
        if is_marked_human_only(metadata)
        else _one_of(VISIBILITIES, record.get("visibility")),
        attachments=(*_items(record.get("attachments")), *other_parts),
        citations=_items(record.get("citations")),
        metadata=metadata,
        position=index,
        canonical=record.get("canonical") is not False,
    )


def _text(content: Json) -> tuple[str, list[Json]] | None:
    """The text, and the parts that are none: content is a string, or a list of parts as OpenAI writes it."""
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list):
        return None
    texts = [p["text"] for p in content if _is_text(p)]
    return ("\n".join(texts), [p for p in content if not _is_text(p)]) if texts else None


def _is_text(part: Json) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _conversation_metadata(record: Mapping[str, Json], identity: str) -> dict[str, Json]:
    metadata = _metadata(record, _CONVERSATION_KEYS)
    if record.get("session_id") not in (None, identity, record.get("origin_id")):
        metadata.setdefault("session_id", record["session_id"])
    return metadata


def _metadata(record: Mapping[str, Json], known: Collection[str]) -> dict[str, Json]:
    unknown = {key: value for key, value in record.items() if key not in known}
    given = record.get("metadata")
    if given is None or isinstance(given, dict):
        return unknown | (given or {})
    return unknown | {"metadata": given}


def _identity(value: Json) -> str | None:
    """An id, which some programs write as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _word(value) or None


def _word(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _one_of(allowed: tuple[str, ...], value: Json) -> str:
    return value if value in allowed else allowed[0]


def _items(value: Json) -> tuple[Json, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)
