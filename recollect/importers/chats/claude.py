"""Claude.ai's own export: conversations, projects and memories, in a zip, folder or alone.

A message is a list of blocks. Its visible text is the passage that carries the
message's id; thinking, tool calls, tool results and pasted files are passages of
their own that hang before it, so that a path through the tree stays a line.
Newer exports name each message's parent, older ones list messages in order. The
export does not say which branch was last seen, so the newest leaf is taken.
What projects are told, their documents, and memories become notes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from recollect.importers.entries import Entry
from recollect.importers.items import with_text
from recollect.importers.jsonstream import peek
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    REPEATED_MESSAGE,
    UNEXPECTED,
    UNKNOWN_MESSAGE,
    as_list,
    convert_records,
    is_blank,
    join_texts,
    nearest_included,
    other_fields,
    string_or_none,
    with_unique_ids,
)
from recollect.language.text import moment, truncate
from recollect.model.documents import Document, Passage
from recollect.model.kinds import NOTE
from recollect.model.receipts import Problem
from recollect.model.sources import CLAUDE

SOURCE = CLAUDE
DESCRIPTION = "Claude.ai export (zip, folder or JSON: conversations, projects, memories)"

_PROJECT = frozenset({"prompt_template", "docs"})
_MEMORY = frozenset({"conversations_memory", "project_memories"})
_CONVERSATION_FIELDS = frozenset({"uuid", "name", "created_at", "updated_at", "chat_messages"})
_MESSAGE_FIELDS = frozenset(
    {
        "uuid",
        "text",
        "content",
        "sender",
        "model",
        "created_at",
        "updated_at",
        "attachments",
        "files",
        "parent_message_uuid",
    }
)
_PROJECT_FIELDS = frozenset(
    {"uuid", "name", "description", "prompt_template", "docs", "created_at", "updated_at"}
)
_DOC_FIELDS = frozenset({"uuid", "filename", "content", "created_at"})
_EXTRACTED = frozenset({"extracted_content"})
_ROLES = {"human": "user"}
# The parts of a tool's input that are a text themselves, as in artifacts and files, in reading order.
_INPUT_TEXTS = ("title", "path", "old_str", "content", "file_text", "new_str", "code")
_INPUT_BODIES = frozenset({"content", "file_text", "new_str", "code"})


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if not name.endswith(".json"):
        return False
    keys = peek(entry)
    if "chat_messages" in keys or not keys.isdisjoint(_MEMORY):
        return True
    return "uuid" in keys and (name.startswith("conversations") or not keys.isdisjoint(_PROJECT))


def read(entry: Entry) -> Iterator[Document | Problem]:
    return convert_records(entry, {"chat_messages", *_PROJECT, *_MEMORY}, _record)


def _record(record: dict[str, Any], where: str) -> Iterator[Document | Problem]:
    where = (
        truncate(string_or_none(record.get("name")) or "", 80)
        or string_or_none(record.get("uuid"))
        or where
    )
    keys = record.keys()
    if "chat_messages" in keys:
        yield from _conversation(record, where)
    elif not keys.isdisjoint(_PROJECT):
        yield from _some(
            _project(record), Problem("project without text", where, unit="conversations")
        )
    elif not keys.isdisjoint(_MEMORY):
        yield from _some(
            _memory(record), Problem("memory without text", where, unit="conversations")
        )
    else:
        yield Problem(EMPTY_CONVERSATION, where, failed="uuid" not in keys, unit="conversations")


def _some(found: Iterator[Document], otherwise: Problem) -> Iterator[Document | Problem]:
    documents = list(found)
    yield from documents
    if not documents:
        yield otherwise


# -- conversations ---------------------------------------------------------


def _conversation(record: dict[str, Any], where: str) -> Iterator[Document | Problem]:
    uuid = record["uuid"]
    passages, left_out = _passages(
        uuid, record["chat_messages"] or [], string_or_none(record.get("model"))
    )
    for reason, count in left_out.items():
        yield Problem(reason, where, failed=reason == UNKNOWN_MESSAGE, count=count)
    if not passages:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
        return
    yield Document(
        source=SOURCE.name,
        source_id=str(uuid),
        title=string_or_none(record.get("name")) or "",
        created_at=moment(record.get("created_at")),
        updated_at=moment(record.get("updated_at")),
        head=string_or_none(record.get("current_leaf_message_uuid")),
        passages=with_unique_ids(passages),
        metadata=other_fields(record, _CONVERSATION_FIELDS),
    )


def _passages(
    conversation: str, messages: list[Any], model: str | None
) -> tuple[list[Passage], Counter[str]]:
    left_out: Counter[str] = Counter()
    parents: dict[str, str | None] = {}
    kept: dict[str, list[Passage]] = {}
    previous = None
    for number, message in enumerate(messages):
        try:
            uuid = string_or_none(message.get("uuid")) or f"{conversation}:{number}"
            parts = _message(message, model)
            parent = string_or_none(message.get("parent_message_uuid", previous))
        except UNEXPECTED:
            left_out[UNKNOWN_MESSAGE] += 1
            continue
        if uuid in parents:
            left_out[REPEATED_MESSAGE] += 1
            continue
        parents[uuid] = parent
        previous = uuid
        if parts:
            kept[uuid] = parts
        else:
            left_out[EMPTY_MESSAGE] += 1
    chains = (
        _chained(parts, uuid, nearest_included(parents[uuid], parents, kept))
        for uuid, parts in kept.items()
    )
    return [passage for chain in chains for passage in chain], left_out


def _chained(parts: list[Passage], uuid: str, parent: str | None) -> Iterator[Passage]:
    """The parts of one message, each hanging on the one before; the last carries the message's own id."""
    thought = False
    for number, part in enumerate(parts, 1):
        own_id = uuid if number == len(parts) else f"{uuid}:{number}"
        if part.type == "thinking" and not thought and own_id != uuid:
            own_id = f"{uuid}:thinking"
            thought = True
        yield part._replace(id=own_id, parent=parent)
        parent = own_id


# -- messages --------------------------------------------------------------


def _message(message: dict[str, Any], model: str | None) -> list[Passage]:
    """The parts of a message in the order they are read, without ids; none when it says nothing."""
    sender = string_or_none(message.get("sender"))
    whole = Passage(
        id="",
        role=_ROLES.get(sender or "", sender),
        content="",
        model=string_or_none(message.get("model")) or (model if sender == "assistant" else None),
        created_at=moment(message.get("created_at")),
        updated_at=moment(message.get("updated_at")),
    )
    pasted = [file for file in as_list(message.get("attachments")) if isinstance(file, dict)]
    files = (*(other_fields(file, _EXTRACTED) for file in pasted), *as_list(message.get("files")))
    texts, others, unread = _blocks(message.get("content"), whole)
    parts = [
        _pasted(file, whole)
        for file in pasted
        if not is_blank(string_or_none(file.get("extracted_content")) or "")
    ] + others
    text = join_texts(block.get("text") for block in texts)
    if is_blank(text) and not parts:
        text = string_or_none(message.get("text")) or ""
    metadata = other_fields(message, _MESSAGE_FIELDS) | ({"blocks": unread} if unread else {})
    if not is_blank(text) or (files and not parts):
        citations = tuple(
            citation for block in texts for citation in as_list(block.get("citations"))
        )
        parts.append(
            whole._replace(content=text, attachments=files, citations=citations, metadata=metadata)
        )
    elif parts:
        last = parts[-1]
        files = (*last.attachments, *(file for file in files if file not in last.attachments))
        parts[-1] = last._replace(attachments=files, metadata={**last.metadata, **metadata})
    return parts


def _blocks(content: Any, whole: Passage) -> tuple[list[dict[str, Any]], list[Passage], list[Any]]:
    """The blocks of visible text, the others as passages, and those without any text."""
    texts: list[dict[str, Any]] = []
    others: list[Passage] = []
    unread: list[Any] = []
    for block in [content] if isinstance(content, str) else as_list(content):
        if isinstance(block, str):
            texts.append({"text": block})
        elif block.get("type") == "text":
            texts.append(block)
        elif part := _part(block, whole):
            others.append(part)
        elif block.get("type") != "token_budget":
            unread.append(block)
    return texts, others, unread


def _pasted(file: dict[str, Any], whole: Passage) -> Passage:
    """The text of an attached file: context, not the person's own words."""
    return whole._replace(
        type="context",
        content=file["extracted_content"],
        attachments=(other_fields(file, _EXTRACTED),),
    )


def _part(block: dict[str, Any], whole: Passage) -> Passage | None:
    """A block that is not visible text, as a passage of its own; None when there is no text in it."""
    part = _PARTS.get(str(block.get("type")), _other)(block, whole)
    if part is None:
        return None
    return part._replace(created_at=moment(block.get("start_timestamp")) or whole.created_at)


def _thinking(block: dict[str, Any], whole: Passage) -> Passage | None:
    text = string_or_none(block.get("thinking")) or join_texts(
        s.get("summary") for s in as_list(block.get("summaries"))
    )
    if is_blank(text):
        return None
    return whole._replace(
        type="thinking", content=text, metadata=other_fields(block, {"type", "thinking"})
    )


def _tool_use(block: dict[str, Any], whole: Passage) -> Passage | None:
    given = block.get("input")
    metadata = other_fields(block, {"type", "name", "input"})
    if isinstance(given, dict) and any(isinstance(given.get(key), str) for key in _INPUT_BODIES):
        text = join_texts(given.get(key) for key in _INPUT_TEXTS)
        metadata["input"] = {
            key: v for key, v in given.items() if key not in _INPUT_TEXTS or not isinstance(v, str)
        }
    else:
        text = json.dumps(given, ensure_ascii=False)
    return whole._replace(
        type="tool_call", tool=string_or_none(block.get("name")), content=text, metadata=metadata
    )


def _tool_result(block: dict[str, Any], whole: Passage) -> Passage | None:
    items = block.get("content")
    items = items if isinstance(items, list) else [items]
    text = join_texts(line for item in items for line in _item_text(item)) or _display_text(block)
    files = tuple(item for item in items if item is not None and not any(_item_text(item)))
    if is_blank(text) and not files:
        return None
    return whole._replace(
        role="tool",
        type="tool_result",
        model=None,
        tool=string_or_none(block.get("name")),
        content=text,
        attachments=files,
        citations=tuple(
            other_fields(item, {"text", "type"})
            for item in items
            if isinstance(item, dict) and "url" in item
        ),
        metadata=other_fields(block, {"type", "name", "content"}),
    )


def _other(block: dict[str, Any], whole: Passage) -> Passage | None:
    text = join_texts(_item_text(block)) or _display_text(block)
    return (
        None
        if is_blank(text)
        else whole._replace(type="context", content=text, metadata=other_fields(block, {"text"}))
    )


_PARTS = {"thinking": _thinking, "tool_use": _tool_use, "tool_result": _tool_result}


def _item_text(item: Any) -> list[str]:
    values = (
        [item]
        if isinstance(item, str)
        else [item.get("title"), item.get("text")]
        if isinstance(item, dict)
        else []
    )
    return [value for value in values if isinstance(value, str) and value]


def _display_text(block: dict[str, Any]) -> str:
    display = block.get("display_content")
    return (string_or_none(display.get("text")) or "") if isinstance(display, dict) else ""


# -- notes -----------------------------------------------------------------


def _project(record: dict[str, Any]) -> Iterator[Document]:
    """What a project is told, and each of its documents, as a note of its own."""
    uuid, name = str(record["uuid"]), string_or_none(record.get("name")) or ""
    told = _told(
        string_or_none(record.get("description")), string_or_none(record.get("prompt_template"))
    )
    if not is_blank(told):
        about = Document(SOURCE.name, uuid, name, metadata=other_fields(record, _PROJECT_FIELDS))
        yield _note(about, told, record.get("created_at"), record.get("updated_at"))
    taken: set[str] = set()
    for number, doc in enumerate(as_list(record.get("docs"))):
        if isinstance(doc, dict) and not is_blank(text := string_or_none(doc.get("content")) or ""):
            own_id = string_or_none(doc.get("uuid")) or f"{uuid}:{number}"
            own_id = f"{own_id}#{number + 1}" if own_id in taken else own_id
            taken.add(own_id)
            file = string_or_none(doc.get("filename"))
            metadata = {
                "project": name,
                "project_id": uuid,
                "file": file,
                **other_fields(doc, _DOC_FIELDS),
            }
            about = Document(
                SOURCE.name, own_id, file or name, metadata={k: v for k, v in metadata.items() if v}
            )
            yield _note(
                about,
                text,
                doc.get("created_at") or record.get("created_at"),
                doc.get("updated_at"),
            )


def _told(description: str | None, instructions: str | None) -> str:
    return "\n\n".join(text for text in (description, instructions) if text and not is_blank(text))


def _memory(record: dict[str, Any]) -> Iterator[Document]:
    account = f"memory:{record.get('account_uuid') or 'unknown'}"
    metadata = other_fields(record, {*_MEMORY, "updated_at"})
    for key in sorted(_MEMORY):
        for name, text in _memories(key, record.get(key)):
            if not is_blank(text):
                whose = (
                    "" if name == "conversations_memory" else name.removeprefix("project_memories:")
                )
                own_id = f"{account}:{whose}" if whose else account
                title = f"Claude's memory of project {whose}" if whose else "Claude's memory"
                yield _note(
                    Document(SOURCE.name, own_id, title, metadata=metadata),
                    text,
                    None,
                    record.get("updated_at"),
                )


def _note(about: Document, text: str, created_at: Any, updated_at: Any) -> Document:
    created, updated = moment(created_at), moment(updated_at)
    dated = replace(about, kind=NOTE, created_at=created or updated, updated_at=updated or created)
    return with_text(dated, text)


def _memories(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _memories(f"{name}:{key}", inner)
    for number, inner in enumerate(as_list(value)):
        yield from _memories(f"{name}:{number}", inner)
