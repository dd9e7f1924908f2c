"""Recollect's own JSON: what `recollect export` writes, and what is easy to write by hand.

    {"conversations": [{"id", "title", "created_at", "messages": [{"id", "role", "content", …}]}]}

A list of conversations and a single conversation are accepted as well. Ids are preserved. If no
message names a parent, each message follows the one before it; otherwise parents are used as
written. Unknown keys are stored in `metadata`. The known ones are listed in
`recollect/model/fields.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from recollect.importers.entries import UNREADABLE, Entry
from recollect.importers.items import drop_invalid_metadata
from recollect.importers.jsonstream import peek
from recollect.importers.records import Ancestors, contain_errors, convert_records, string_or_none
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


_CONVERSATION_KEYS = CONVERSATION_FIELDS
_MESSAGE_KEYS = MESSAGE_FIELDS | {"tool", "created_at"}  # accepted for `tool_used`, `timestamp`
_OLD_NAMES = {"origin": "source", "origin_id": "source_id", "source": "kind"}
"""The names of version 0.1. It always wrote `origin`, which later versions do not use."""
# Keys of other programs whose conversations also have `messages`.
_FOREIGN_KEYS = frozenset(
    (
        "mapping chat_messages conversationId messagesTree chat history guild sessionId agent_type"
    ).split()
)
_EXPORT = b'{"format":"recollect"'


# -- detection ---------------------------------------------------------------


def claims(entry: Entry) -> bool:
    try:
        head = entry.head().replace(b"\0", b"")  # makes UTF-16 readable as ASCII
    except UNREADABLE:
        return False
    # An export may have any name.
    if b"".join(head[:100].split()).startswith(_EXPORT):
        return True
    if not entry.basename.lower().endswith(".json"):
        return False
    keys = peek(entry)
    has_messages = {"id", "messages"} <= keys and b'"role"' in head and b'"content"' in head
    return has_messages and not keys & _FOREIGN_KEYS


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
    is_old = "origin" in record
    if is_old:
        record = renamed(record, _OLD_NAMES)
    identity = _identity(record.get("id")) or ""
    records = record["messages"]
    if any(map(is_response_item, records)):
        records = chat_messages(records)
    usable: dict[str, Passage] = {}
    unusable_parents: dict[str, str | None] = {}
    tools: dict[str, str] = {}  # the names of the tools that were called
    for number, message in enumerate(records):
        place = f"conversation {identity}, message {number}"
        if not isinstance(message, dict):
            yield Problem("not a message", place, failed=True)
            continue
        if is_old and "kind" in message:
            message = renamed(message, {"kind": "type"})
        base = _passage(message, _identity(message.get("id")) or f"{identity}:{number}", number)
        passages = message_passages(base, message, tools)
        if not passages:
            unusable_parents[base.id] = base.parent
            yield Problem("message without text", place, failed=True)
        for passage in passages:
            stored = usable.setdefault(passage.id, passage)
            if stored is not passage and stored._replace(position=number) == passage:
                yield Problem("repeated message", place)
            elif stored is not passage:
                yield Problem("message id used twice", place, failed=True)
    # An export says if it does not know a date. Files written by hand often have those of messages.
    times = [p.created_at for p in usable.values() if p.created_at is not None]
    # Other programs know a conversation by its session, as we do.
    session = _identity(record.get("session_id"))
    own_id = _identity(record.get("source_id"))
    source_id = own_id or ("source" not in record and session) or identity
    metadata = _metadata(record, _CONVERSATION_KEYS)
    kind = record.get("kind")
    if kind is not None and kind not in KINDS and not is_old:
        metadata.setdefault("kind", kind)
    if record.get("session_id") not in (None, identity, source_id):
        metadata.setdefault("session_id", record["session_id"])
    ancestors = Ancestors(unusable_parents, usable)

    def nearest(id: str | None) -> str | None:
        """The message itself or, if it is unusable, its nearest usable ancestor."""
        return ancestors.nearest(id) if id in unusable_parents else id

    parents: Iterable[str | None] = [None, *usable]
    if any("parent_id" in message for message in records if isinstance(message, dict)):
        parents = [nearest(passage.parent) for passage in usable.values()]
    linked = zip(usable.values(), parents, strict=False)
    document = Document(
        source=string_or_none(record.get("source")) or SOURCE.name,
        source_id=source_id,
        title=string_or_none(record.get("title")) or "",
        kind=one_of(KINDS, kind),
        project=string_or_none(record.get("namespace")) or "default",
        created_at=moment(record.get("created_at", min(times, default=None))),
        updated_at=moment(record.get("updated_at", max(times, default=None))),
        head=nearest(_identity(record.get("head"))),
        passages=tuple(passage._replace(parent=parent) for passage, parent in linked),
        metadata=metadata,
        id=identity,
        partial=record.get("partial") is True,
        shared_ids=record.get("shared_ids") is True,
    )
    yield document if document.kind == CONVERSATION else drop_invalid_metadata(document)


def renamed(record: Mapping[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
    others = {key: value for key, value in record.items() if key not in names}
    return others | {new: record[old] for old, new in names.items() if old in record}


def unusable(record: Json) -> str:
    """Why a record is no conversation; empty if it is one."""
    if not isinstance(record, dict):
        return "not a conversation"
    if _identity(record.get("id")) is None:
        return "conversation without an id"
    if not isinstance(record.get("messages"), list):
        return "conversation without messages"
    return ""


def _passage(record: Mapping[str, Json], identity: str, index: int) -> Passage:
    """The passage of a message without its content."""
    metadata = _metadata(record, _MESSAGE_KEYS | sdk_fields(record))
    type_ = record.get("type")
    if type_ is not None and type_ not in PASSAGE_TYPES:
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
