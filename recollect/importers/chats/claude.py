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
from recollect.importers.problems import contain_errors
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    REPEATED_MESSAGE,
    UNEXPECTED,
    UNKNOWN_MESSAGE,
    Ancestors,
    as_list,
    convert_records,
    is_blank,
    join_texts,
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
    keys, unit = record.keys(), "conversations"
    if "chat_messages" in keys:
        yield from _conversation(record, where)
    elif not keys.isdisjoint(_PROJECT):
        notes = list(_project(record))
        yield from notes or (Problem("project without text", where, False, unit),)
    elif not keys.isdisjoint(_MEMORY):
        notes = list(memory(record))
        yield from notes or (Problem("memory without text", where, False, unit),)
    else:
        yield Problem(EMPTY_CONVERSATION, where, failed="uuid" not in keys, unit="conversations")


# -- conversations -----------------------------------------------------------


def _conversation(record: dict[str, Any], where: str) -> Iterator[Document | Problem]:
    uuid = record["uuid"]
    passages, skipped = _passages(
        uuid, record["chat_messages"] or [], string_or_none(record.get("model"))
    )
    for reason, count in skipped.items():
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
    """The passages of a conversation, and the number of skipped messages by reason."""
    skipped: Counter[str] = Counter()
    parents: dict[str, str | None] = {}
    parts_by_message: dict[str, list[Passage]] = {}
    previous = None
    for number, message in enumerate(messages):
        try:
            uuid = string_or_none(message.get("uuid")) or f"{conversation}:{number}"
            parts = _message(message, model)
            parent = string_or_none(message.get("parent_message_uuid", previous))
        except UNEXPECTED:
            skipped[UNKNOWN_MESSAGE] += 1
            continue
        if uuid in parents:
            skipped[REPEATED_MESSAGE] += 1
            continue
        parents[uuid] = parent
        previous = uuid
        if parts:
            parts_by_message[uuid] = parts
        else:
            skipped[EMPTY_MESSAGE] += 1
    passages: list[Passage] = []
    ancestors = Ancestors(parents, parts_by_message)
    for uuid, parts in parts_by_message.items():
        parent = ancestors.nearest(parents[uuid])
        passages += link_parts(parts, uuid, parent)
    return passages, skipped


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
    texts, others, unknown = blocks(message.get("content"), template)
    parts = []
    for file in attachments:  # the text of a file is context, not the user's own words
        extracted = string_or_none(file.get("extracted_content")) or ""
        if not is_blank(extracted):
            about = (other_fields(file, _EXTRACTED),)
            part = template._replace(type="context", content=extracted, attachments=about)
            parts.append(part)
    parts += others
    text = join_texts(block.get("text") for block in texts)
    if is_blank(text) and not parts:
        text = string_or_none(message.get("text")) or ""
    metadata = other_fields(message, _MESSAGE_FIELDS)
    if unknown:
        metadata["blocks"] = unknown
    if not is_blank(text) or (files and not parts):
        citations: list[Any] = []
        for block in texts:
            citations += as_list(block.get("citations"))
        visible = template._replace(content=text, metadata=metadata)
        parts.append(visible._replace(attachments=tuple(files), citations=tuple(citations)))
    elif parts:
        last = parts[-1]
        known_files = {json.dumps(file, sort_keys=True) for file in last.attachments}
        new_files = [file for file in files if json.dumps(file, sort_keys=True) not in known_files]
        parts[-1] = last._replace(
            attachments=(*last.attachments, *new_files), metadata={**last.metadata, **metadata}
        )
    return parts


def blocks(content: Any, template: Passage) -> tuple[list[Block], list[Passage], list[Any]]:
    """The blocks of visible text, the others as passages, and those without any text."""
    texts: list[Block] = []
    others: list[Passage] = []
    unknown: list[Any] = []
    if isinstance(content, str):
        content = [content]
    for block in as_list(content):
        if isinstance(block, str):
            texts.append({"text": block})
            continue
        if block.get("type") == "text":
            texts.append(block)
            continue
        part = block_passage(block, template)
        if part is not None:
            others.append(part)
        elif block.get("type") != "token_budget":
            unknown.append(block)
    return texts, others, unknown


def block_passage(block: Block, template: Passage) -> Passage | None:
    """A block that is not visible text, as a passage; None if it has no text."""
    readers = {"thinking": thinking, "tool_use": tool_use, "tool_result": tool_result}
    part = readers.get(str(block.get("type")), other_block)(block, template)
    if part is None:
        return None
    return part._replace(created_at=moment(block.get("start_timestamp")) or template.created_at)


def thinking(block: Block, template: Passage) -> Passage | None:
    text = string_or_none(block.get("thinking"))
    if not text:
        text = join_texts(summary.get("summary") for summary in as_list(block.get("summaries")))
    if is_blank(text):
        return None
    metadata = other_fields(block, {"type", "thinking"})
    return template._replace(type="thinking", content=text, metadata=metadata)


def tool_use(block: Block, template: Passage) -> Passage | None:
    arguments = block.get("input")
    metadata = other_fields(block, {"type", "name", "input"})
    is_file = isinstance(arguments, dict) and any(
        isinstance(arguments.get(key), str) for key in _INPUT_BODIES
    )
    if isinstance(arguments, dict) and is_file:
        text = join_texts(arguments.get(key) for key in _INPUT_TEXTS)
        metadata["input"] = {
            key: value
            for key, value in arguments.items()
            if key not in _INPUT_TEXTS or not isinstance(value, str)
        }
    else:
        text = json.dumps(arguments, ensure_ascii=False)
    return template._replace(
        type="tool_call", tool=string_or_none(block.get("name")), content=text, metadata=metadata
    )


def tool_result(block: Block, template: Passage) -> Passage | None:
    items = block.get("content")
    if not isinstance(items, list):
        items = [items]
    texts: list[str] = []
    files = []
    citations = []
    for item in items:
        item_texts = _item_texts(item)
        texts += item_texts
        if item is not None and not item_texts:
            files.append(item)
        if isinstance(item, dict) and "url" in item:
            citations.append(other_fields(item, {"text", "type"}))
    text = join_texts(texts) or display_text(block)
    if is_blank(text) and not files:
        return None
    return template._replace(
        role="tool",
        type="tool_result",
        model=None,
        tool=string_or_none(block.get("name")),
        content=text,
        attachments=tuple(files),
        citations=tuple(citations),
        metadata=other_fields(block, {"type", "name", "content"}),
    )


def other_block(block: Block, template: Passage) -> Passage | None:
    text = join_texts(_item_texts(block)) or display_text(block)
    if is_blank(text):
        return None
    return template._replace(type="context", content=text, metadata=other_fields(block, {"text"}))


def _item_texts(item: Any) -> list[str]:
    values = [item.get("title"), item.get("text")] if isinstance(item, dict) else [item]
    return [value for value in values if isinstance(value, str) and value]


def display_text(block: Block) -> str:
    display = block.get("display_content")
    text = display.get("text") if isinstance(display, dict) else None
    return string_or_none(text) or ""


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
