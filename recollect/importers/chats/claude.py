"""Claude.ai's export: conversations, projects and memories, in a zip, folder or alone.

A message is a list of blocks. Its visible text is the passage with the message's id. Thinking, tool
calls, tool results and pasted files are passages before it, each the parent of the next, so that a
path through the tree stays a line. Newer exports name the parent of each message; older ones list
messages in order. The export does not say which branch was last shown, so the newest leaf is used.
The instructions and documents of projects, and memories, become notes.
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
    Ancestors,
    as_list,
    contain_errors,
    convert_records,
    is_blank,
    join_texts,
    other_fields,
    string_or_none,
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
    (
        "uuid text content sender model created_at updated_at attachments files parent_message_uuid"
    ).split()
)
_PROJECT_FIELDS = frozenset(
    {"uuid", "name", "description", "prompt_template", "docs", "created_at", "updated_at"}
)
_DOC_FIELDS = frozenset({"uuid", "filename", "content", "created_at"})
_EXTRACTED = frozenset({"extracted_content"})
# The parts of a tool's input that are text, as in artifacts and files, in reading order.
_INPUT_TEXTS = ("title", "path", "old_str", "content", "file_text", "new_str", "code")
_INPUT_BODIES = frozenset({"content", "file_text", "new_str", "code"})

Block = dict[str, Any]


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if not name.endswith(".json"):
        return False
    keys = peek(entry)
    if "chat_messages" in keys or not keys.isdisjoint(_MEMORY):
        return True
    return "uuid" in keys and (name.startswith("conversations") or not keys.isdisjoint(_PROJECT))


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    return convert_records(entry, {"chat_messages", *_PROJECT, *_MEMORY}, _record)


def _record(record: dict[str, Any], where: str) -> Iterator[Document | Problem]:
    name = truncate(string_or_none(record.get("name")) or "", 80)
    where = name or string_or_none(record.get("uuid")) or where
    if "chat_messages" in record:
        yield from _conversation(record, where)
        return
    notes, what, failed = [], "conversation without messages", "uuid" not in record
    if not record.keys().isdisjoint(_PROJECT):
        notes, what, failed = list(_project(record)), "project without text", False
    elif not record.keys().isdisjoint(_MEMORY):
        notes, what, failed = list(memory(record)), "memory without text", False
    yield from notes or (Problem(what, where, failed, "conversations"),)


# -- conversations -----------------------------------------------------------


def _conversation(record: dict[str, Any], where: str) -> Iterator[Document | Problem]:
    uuid, model = record["uuid"], string_or_none(record.get("model"))
    skipped: Counter[str] = Counter()
    parents: dict[str, str | None] = {}
    parts_by_message: dict[str, list[Passage]] = {}
    previous = None
    for number, message in enumerate(record["chat_messages"] or []):
        try:
            id_ = string_or_none(message.get("uuid")) or f"{uuid}:{number}"
            parts = _message(message, model)
            parent = string_or_none(message.get("parent_message_uuid", previous))
        except UNEXPECTED:
            skipped[UNKNOWN_MESSAGE] += 1
            continue
        if id_ in parents:
            skipped[REPEATED_MESSAGE] += 1
            continue
        parents[id_], previous = parent, id_
        if parts:
            parts_by_message[id_] = parts
        else:
            skipped[EMPTY_MESSAGE] += 1
    for reason, count in skipped.items():
        yield Problem(reason, where, failed=reason == UNKNOWN_MESSAGE, count=count)
    if not parts_by_message:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
        return
    ancestors = Ancestors(parents, parts_by_message)
    passages: dict[str, Passage] = {}
    for id_, parts in parts_by_message.items():
        for passage in link_parts(parts, id_, ancestors.nearest(parents[id_])):
            passages.setdefault(passage.id, passage)
    yield Document(
        source=SOURCE.name,
        source_id=str(uuid),
        title=string_or_none(record.get("name")) or "",
        created_at=moment(record.get("created_at")),
        updated_at=moment(record.get("updated_at")),
        head=string_or_none(record.get("current_leaf_message_uuid")),
        passages=tuple(passages.values()),
        metadata=other_fields(record, _CONVERSATION_FIELDS),
    )


def link_parts(parts: list[Passage], uuid: str, parent: str | None) -> Iterator[Passage]:
    """The parts of one message, each the parent of the next. The last has the message's id."""
    has_thinking = False
    for number, part in enumerate(parts, 1):
        if number == len(parts):
            part_id = uuid
        elif part.type == "thinking" and not has_thinking:
            part_id = f"{uuid}:thinking"
            has_thinking = True
        else:
            part_id = f"{uuid}:{number}"
        yield part._replace(id=part_id, parent=parent)
        parent = part_id


# -- messages ----------------------------------------------------------------


def _message(message: dict[str, Any], default_model: str | None) -> list[Passage]:
    """The parts of a message in reading order, without ids; empty if it has no content."""
    sender = string_or_none(message.get("sender"))
    model = string_or_none(message.get("model"))
    if not model and sender == "assistant":
        model = default_model
    template = Passage(  # what all parts of the message have in common
        id="",
        role="user" if sender == "human" else sender,
        content="",
        model=model or None,
        created_at=moment(message.get("created_at")),
        updated_at=moment(message.get("updated_at")),
    )
    attachments = [file for file in as_list(message.get("attachments")) if isinstance(file, dict)]
    files = [other_fields(file, _EXTRACTED) for file in attachments]
    files += as_list(message.get("files"))
    content, texts, unknown = message.get("content"), [], []
    parts = []
    for file in attachments:  # the text of a file is context, not the user's own words
        extracted = string_or_none(file.get("extracted_content")) or ""
        if not is_blank(extracted):
            about = (other_fields(file, _EXTRACTED),)
            parts.append(template._replace(type="context", content=extracted, attachments=about))
    for block in [content] if isinstance(content, str) else as_list(content):
        if isinstance(block, str) or block.get("type") == "text":
            texts.append({"text": block} if isinstance(block, str) else block)
            continue
        part = block_passage(block, template)
        if not is_blank(part.content) or part.attachments:
            parts.append(part)
        elif block.get("type") != "token_budget":
            unknown.append(block)
    text = join_texts(block.get("text") for block in texts)
    if is_blank(text) and not parts:
        text = string_or_none(message.get("text")) or ""
    metadata = other_fields(message, _MESSAGE_FIELDS)
    if unknown:
        metadata["blocks"] = unknown
    if not is_blank(text) or (files and not parts):
        citations = [citation for block in texts for citation in as_list(block.get("citations"))]
        visible = template._replace(content=text, metadata=metadata)
        parts.append(visible._replace(attachments=tuple(files), citations=tuple(citations)))
    elif parts:
        last = parts[-1]
        new_files = [file for file in files if file not in last.attachments]
        parts[-1] = last._replace(
            attachments=(*last.attachments, *new_files), metadata={**last.metadata, **metadata}
        )
    return parts


def block_passage(block: Block, template: Passage) -> Passage:
    """A block that is not visible text, as a passage; without content if it has no text."""
    created_at = moment(block.get("start_timestamp")) or template.created_at
    template = template._replace(created_at=created_at)
    type_ = block.get("type")
    if type_ == "thinking":
        summaries = (summary.get("summary") for summary in as_list(block.get("summaries")))
        text = string_or_none(block.get("thinking")) or join_texts(summaries)
        metadata = other_fields(block, {"type", "thinking"})
        return template._replace(type="thinking", content=text, metadata=metadata)
    if type_ == "tool_use":
        arguments = block.get("input")
        metadata = other_fields(block, {"type", "name", "input"})
        fields = arguments if isinstance(arguments, dict) else {}
        text = json.dumps(arguments, ensure_ascii=False)
        if any(isinstance(fields.get(key), str) for key in _INPUT_BODIES):
            text = join_texts(fields.get(key) for key in _INPUT_TEXTS)
            metadata["input"] = {
                key: value
                for key, value in fields.items()
                if key not in _INPUT_TEXTS or not isinstance(value, str)
            }
        tool = string_or_none(block.get("name"))
        return template._replace(type="tool_call", tool=tool, content=text, metadata=metadata)
    display = block.get("display_content")
    shown = display.get("text") if isinstance(display, dict) else None
    if type_ != "tool_result":
        text = join_texts(_item_texts(block)) or string_or_none(shown) or ""
        metadata = other_fields(block, {"text"})
        return template._replace(type="context", content=text, metadata=metadata)
    content = block.get("content")
    items = content if isinstance(content, list) else [content]
    linked = [item for item in items if isinstance(item, dict) and "url" in item]
    return template._replace(
        role="tool",
        type="tool_result",
        model=None,
        tool=string_or_none(block.get("name")),
        content=join_texts(text for item in items for text in _item_texts(item))
        or (string_or_none(shown) or ""),
        attachments=tuple(item for item in items if item is not None and not _item_texts(item)),
        citations=tuple(other_fields(item, {"text", "type"}) for item in linked),
        metadata=other_fields(block, {"type", "name", "content"}),
    )


def _item_texts(item: Any) -> list[str]:
    values = [item.get("title"), item.get("text")] if isinstance(item, dict) else [item]
    return [value for value in values if isinstance(value, str) and value]


# -- projects and memories ---------------------------------------------------


def _project(record: dict[str, Any]) -> Iterator[Document]:
    """A note with the project's description and instructions, and a note for each document."""
    uuid, name = str(record["uuid"]), string_or_none(record.get("name")) or ""
    texts = [string_or_none(record.get(key)) or "" for key in ("description", "prompt_template")]
    instructions = "\n\n".join(text for text in texts if not is_blank(text))
    if instructions:
        note = Document(SOURCE.name, uuid, name, metadata=other_fields(record, _PROJECT_FIELDS))
        yield _note(note, instructions, record.get("created_at"), record.get("updated_at"))
    ids: set[str] = set()
    for number, doc in enumerate(as_list(record.get("docs"))):
        text = string_or_none(doc.get("content")) if isinstance(doc, dict) else None
        if text is None or is_blank(text):
            continue
        doc_id = string_or_none(doc.get("uuid")) or f"{uuid}:{number}"
        if doc_id in ids:
            doc_id = f"{doc_id}#{number + 1}"
        ids.add(doc_id)
        file = string_or_none(doc.get("filename"))
        metadata = {"project": name, "project_id": uuid, "file": file}
        metadata |= other_fields(doc, _DOC_FIELDS)
        metadata = {key: value for key, value in metadata.items() if value}
        note = Document(SOURCE.name, doc_id, file or name, metadata=metadata)
        created_at = doc.get("created_at") or record.get("created_at")
        yield _note(note, text, created_at, doc.get("updated_at"))


def memory(record: dict[str, Any]) -> Iterator[Document]:
    account = f"memory:{record.get('account_uuid') or 'unknown'}"
    metadata = other_fields(record, {*_MEMORY, "updated_at"})
    for key in sorted(_MEMORY):
        for name, text in memories(key, record.get(key)):
            if is_blank(text):
                continue
            memory_id, title = account, "Claude's memory"
            if name != "conversations_memory":
                project = name.removeprefix("project_memories:")
                memory_id = f"{account}:{project}"
                title = f"Claude's memory of project {project}"
            note = Document(SOURCE.name, memory_id, title, metadata=metadata)
            yield _note(note, text, None, record.get("updated_at"))


def memories(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The texts in a value of any depth, each with its path."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from memories(f"{name}:{key}", item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from memories(f"{name}:{number}", item)


def _note(note: Document, text: str, created_at: Any, updated_at: Any) -> Document:
    created, updated = moment(created_at), moment(updated_at)
    note = replace(note, kind=NOTE, created_at=created or updated, updated_at=updated or created)
    return with_text(note, text)
