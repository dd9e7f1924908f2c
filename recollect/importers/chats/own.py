"""Recollect's own JSON: what `recollect export` writes, and what is easy to write by hand.

    {"conversations": [{"id", "title", "created_at", "messages": [{"id", "role", "content", …}]}]}

A list of conversations and a single conversation are accepted as well. Ids are preserved. If no
message names a parent, each message follows the one before it; otherwise parents are used as
written. Unknown keys are stored in `metadata`. The known ones are listed in
`recollect/model/fields.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from recollect.importers.entries import UNREADABLE, Entry
from recollect.importers.items import drop_invalid_metadata
from recollect.importers.jsonstream import peek
from recollect.importers.problems import contain_errors
from recollect.importers.records import convert_records, string_or_none
from recollect.language.text import moment
from recollect.model.audience import HUMAN_ONLY, is_marked_human_only
from recollect.model.chat_messages import (
    chat_messages,
    is_response_item,
    message_passages,
    sdk_fields,
)
from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, Document, Json, Passage
from recollect.model.fields import CONVERSATION_FIELDS, MESSAGE_FIELDS
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.receipts import Problem
from recollect.model.sources import RECOLLECT

SOURCE = RECOLLECT
DESCRIPTION = "Recollect JSON (*.json, or an export under any name)"


class _Names(NamedTuple):
    """The keys whose names have changed since version 0.1, and all known keys."""

    source: str
    source_id: str
    kind: str
    type: str
    conversation_keys: frozenset[str]
    message_keys: frozenset[str]


def _names(source: str, source_id: str, kind: str, type_: str) -> _Names:
    conversation_keys = CONVERSATION_FIELDS - {"source", "source_id", "kind"}
    message_keys = MESSAGE_FIELDS - {"type"}
    return _Names(
        source,
        source_id,
        kind,
        type_,
        conversation_keys | {source, source_id, kind},
        # `tool` and `created_at` are accepted for `tool_used` and `timestamp`.
        message_keys | {type_, "tool", "created_at"},
    )


_NAMES = _names("source", "source_id", "kind", "type")
_OLD_NAMES = _names("origin", "origin_id", "source", "kind")
"""The names of version 0.1. It always wrote `origin`, which later versions do not use."""

# Keys of other programs whose conversations also have `messages`.
_FOREIGN_KEYS = frozenset(
    (
        "mapping chat_messages conversationId messagesTree chat history guild sessionId agent_type"
    ).split()
)
_FORMAT = re.compile(rb'"format"\s*:\s*"recollect"')
_EXPORT = re.compile(rb'\{\s*"format"\s*:\s*"recollect"')
_ROLE = re.compile(rb'"role"\s*:')
_CONTENT = re.compile(rb'"content"\s*:')


# -- detection ---------------------------------------------------------------


def claims(entry: Entry) -> bool:
    if not entry.basename.lower().endswith(".json"):
        return is_export(entry)
    keys = peek(entry)
    if keys & _FOREIGN_KEYS:
        return False
    head = entry.head().replace(b"\0", b"")  # makes UTF-16 readable as ASCII
    if _FORMAT.search(head[:200]):
        return True
    return {"id", "messages"} <= keys and bool(_ROLE.search(head) and _CONTENT.search(head))


def is_export(entry: Entry) -> bool:
    """Whether the file begins as `recollect export` begins it. Such a file may have any name."""
    try:
        return _EXPORT.match(entry.head(100)) is not None
    except UNREADABLE:
        return False


# -- conversations -----------------------------------------------------------


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    return convert_records(entry, {"messages"}, conversation)


def conversation(record: Json, where: str) -> Iterator[Document | Problem]:
    """The conversation or item in a record."""
    reason = unusable(record)
    if reason:
        yield Problem(reason, where, failed=True, unit="conversations")
        return
    names = _OLD_NAMES if "origin" in record else _NAMES
    identity = _identity(record.get("id")) or ""
    messages = _Messages(identity, names)
    records = record["messages"]
    if any(map(is_response_item, records)):
        records = chat_messages(records)
    for number, message in enumerate(records):
        messages.add(message, number)
    yield from messages.problems
    # An export says if it does not know a date. Files written by hand often have those of messages.
    times = [p.created_at for p in messages.usable.values() if p.created_at is not None]
    created_at = moment(record.get("created_at", min(times, default=None)))
    updated_at = moment(record.get("updated_at", max(times, default=None)))
    # Other programs know a conversation by its session, as we do.
    session = _identity(record.get("session_id"))
    own_id = _identity(record.get(names.source_id))
    source_id = own_id or (names.source not in record and session) or identity
    metadata = _metadata(record, names.conversation_keys)
    kind = record.get(names.kind)
    if names is _NAMES and kind is not None and kind not in KINDS:
        metadata.setdefault("kind", kind)
    if record.get("session_id") not in (None, identity, source_id):
        metadata.setdefault("session_id", record["session_id"])
    document = Document(
        source=string_or_none(record.get(names.source)) or SOURCE.name,
        source_id=source_id,
        title=string_or_none(record.get("title")) or "",
        kind=one_of(KINDS, kind),
        project=string_or_none(record.get("namespace")) or "default",
        created_at=created_at,
        updated_at=updated_at,
        head=messages.nearest_usable(_identity(record.get("head"))),
        passages=messages.passages(),
        metadata=metadata,
        id=identity,
        partial=record.get("partial") is True,
        shared_ids=record.get("shared_ids") is True,
    )
    if document.kind != CONVERSATION:
        document = drop_invalid_metadata(document)
    yield document


def unusable(record: Json) -> str:
    """Why a record is no conversation; empty if it is one."""
    if not isinstance(record, dict):
        return "not a conversation"
    if _identity(record.get("id")) is None:
        return "conversation without an id"
    if not isinstance(record.get("messages"), list):
        return "conversation without messages"
    return ""


# -- messages ----------------------------------------------------------------


@dataclass(slots=True)
class _Messages:
    """Collects the messages of one conversation, and the problems with them."""

    conversation: str
    names: _Names
    usable: dict[str, Passage] = field(default_factory=dict)
    parents_of_unusable: dict[str, str | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    """The names of the tools that were called."""
    has_parents: bool = False

    def add(self, record: Json, index: int) -> None:
        where = f"conversation {self.conversation}, message {index}"
        if not isinstance(record, dict):
            self.problems.append(Problem("not a message", where, failed=True))
            return
        self.has_parents |= "parent_id" in record
        identity = _identity(record.get("id")) or f"{self.conversation}:{index}"
        message = _passage(record, identity, index, self.names)
        passages = message_passages(message, record, self.tools)
        if not passages:
            self.parents_of_unusable[identity] = message.parent
            self.problems.append(Problem("message without text", where, failed=True))
        for passage in passages:
            stored = self.usable.setdefault(passage.id, passage)
            if stored is passage:
                continue
            if stored._replace(position=index) == passage:
                self.problems.append(Problem("repeated message", where))
            else:
                self.problems.append(Problem("message id used twice", where, failed=True))

    def passages(self) -> tuple[Passage, ...]:
        """The messages, each with its parent."""
        linked: list[Passage] = []
        previous: str | None = None
        for passage in self.usable.values():
            parent = self.nearest_usable(passage.parent) if self.has_parents else previous
            linked.append(passage._replace(parent=parent))
            previous = passage.id
        return tuple(linked)

    def nearest_usable(self, identity: str | None) -> str | None:
        """The message itself or, if it is unusable, its nearest usable ancestor.

        This keeps the path through the conversation in one piece.
        """
        visited: set[str] = set()
        skipped = self.parents_of_unusable
        while identity in skipped and identity not in self.usable and identity not in visited:
            visited.add(identity)
            identity = self.parents_of_unusable[identity]
        self.parents_of_unusable |= dict.fromkeys(visited, identity)  # the next search is short
        return identity


def _passage(record: Mapping[str, Json], identity: str, index: int, names: _Names) -> Passage:
    """The passage of a message without its content."""
    metadata = _metadata(record, names.message_keys | sdk_fields(record))
    type_ = record.get(names.type)
    if names is _NAMES and type_ is not None and type_ not in PASSAGE_TYPES:
        metadata.setdefault("type", type_)
    visibility = one_of(VISIBILITIES, record.get("visibility"))
    if is_marked_human_only(metadata) or is_marked_human_only(record):
        visibility = HUMAN_ONLY
    return Passage(
        id=identity,
        role=string_or_none(record.get("role")),
        content="",
        type=one_of(PASSAGE_TYPES, type_),
        author=string_or_none(record.get("author")),
        model=string_or_none(record.get("model")),
        tool=string_or_none(record.get("tool_used", record.get("tool"))),
        parent=_identity(record.get("parent_id")),
        created_at=moment(record.get("timestamp")) or moment(record.get("created_at")),
        updated_at=moment(record.get("updated_at")),
        visibility=visibility,
        attachments=items(record.get("attachments")),
        citations=items(record.get("citations")),
        metadata=metadata,
        position=index,
        canonical=record.get("canonical") is not False,
    )


# -- values ------------------------------------------------------------------


def _metadata(record: Mapping[str, Json], known_keys: Collection[str]) -> dict[str, Json]:
    unknown = {key: value for key, value in record.items() if key not in known_keys}
    metadata = record.get("metadata")
    if metadata is None:
        return unknown
    if isinstance(metadata, dict):
        return unknown | metadata
    return unknown | {"metadata": metadata}


def _identity(value: Json) -> str | None:
    """An id, which some programs write as a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return string_or_none(value) or None


def one_of(allowed: tuple[str, ...], value: Json) -> str:
    """The value if it is allowed, otherwise the first one, which is the default."""
    return value if value in allowed else allowed[0]


def items(value: Json) -> tuple[Json, ...]:
    if isinstance(value, list):
        return tuple(value)
    return () if value is None else (value,)
