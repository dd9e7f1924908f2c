"""ChatGPT's export: `conversations.json`, `conversations-000.json` etc., in a zip, folder or alone.

A conversation is a map of nodes, each with its parent. Edits and regenerations are sibling
branches; all are imported, and `current_node` is the last leaf that was shown. Nodes without a
message, or with an empty one, are skipped, and their children become children of the nearest
ancestor. The text of a message is in a different field for each `content_type`; it is stored as it
is, including citation marks. Unknown fields go to `metadata`.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import decode, peek
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    UNEXPECTED,
    UNKNOWN_MESSAGE,
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
from recollect.model.receipts import Problem
from recollect.model.sources import CHATGPT

SOURCE = CHATGPT
DESCRIPTION = "ChatGPT export (zip, folder or conversations*.json)"

_CONTEXT = frozenset({"user_editable_context", "model_editable_context"})
_THINKING = frozenset({"thoughts", "reasoning_recap"})
_TEXT_FIELDS = {
    "code": ("text",),
    "execution_output": ("text",),
    "tether_quote": ("title", "text"),
    "tether_browsing_display": ("result", "summary"),
    "reasoning_recap": ("content",),
    "user_editable_context": ("user_profile", "user_instructions"),
    "model_editable_context": ("model_set_context",),
    "system_error": ("name", "text"),
    "citable_code_output": ("output_str",),
    "sonic_webpage": ("title", "text", "snippet"),
}
"""The fields with the text of a message, by its content type."""
_OTHER_FIELDS = frozenset(
    "content_type language url domain tether_id ref_id computer_id response_format_name".split()
)
"""Fields that are not text, for unknown content types."""
_MESSAGE_FIELDS = frozenset({"author", "create_time", "update_time", "content", "metadata"})
_METADATA_FIELDS = frozenset({"model_slug", "attachments", "citations", "content_references"})
_CONVERSATION_FIELDS = frozenset(
    {"title", "create_time", "update_time", "mapping", "current_node", "conversation_id", "id"}
)
_CONTENT_FIELDS = frozenset({"content_type", "parts", "thoughts"})
_PART_KEYS = frozenset({"content_type", "asset_pointer", "type", "text"})

Nodes = dict[str, Any]


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if not name.endswith(".json"):
        return False
    keys = peek(entry)
    if "chat_messages" in keys or "uuid" in keys:  # Claude's export has the same file name
        return False
    if name.startswith("conversations"):
        return True
    return "mapping" in keys and len(keys & _CONVERSATION_FIELDS) > 1


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    return convert_records(entry, ("mapping",), conversation)


# -- conversations -----------------------------------------------------------


def conversation(record: Any, where: str) -> Iterator[Document | Problem]:
    title = string_or_none(record.get("title")) or ""
    nodes = record.get("mapping")
    ids = map(string_or_none, map(record.get, ("conversation_id", "id")))
    source_id = next(filter(None, ids), "")
    if not source_id:  # it gets an id that is the same in every export
        content = f"{record.get('create_time')} {next(iter(nodes or {}), '')}"
        data = content.encode(errors="surrogatepass")
        source_id = hashlib.blake2s(data, digest_size=16).hexdigest()
    where = truncate(title, 80) or source_id or where
    if nodes is None:
        yield Problem("conversation without messages (no mapping)", where, unit="conversations")
        return
    model = string_or_none(record.get("default_model_slug"))
    order, parents = reading_order(nodes)
    passages: list[Passage] = []
    nearest: dict[str, str | None] = {}  # itself if it has a message, or an ancestor that has one
    skipped: Counter[str] = Counter()
    for id_ in order:
        nearest[id_] = parent = nearest.get(parents[id_] or "")
        try:
            message = nodes[id_].get("message")
            passage = _passage(id_, message, parent, model) if message else None
        except UNEXPECTED:
            skipped[UNKNOWN_MESSAGE] += 1
            continue
        if passage is not None:
            passages.append(passage)
            nearest[id_] = id_
        elif message or parents[id_] is not None:  # every tree has a root without a message
            skipped[EMPTY_MESSAGE] += 1
    for reason, count in skipped.items():
        yield Problem(reason, where, failed=reason == UNKNOWN_MESSAGE, count=count)
    if not passages:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
        return
    projects = map(string_or_none, map(record.get, ("gizmo_id", "conversation_template_id")))
    yield Document(
        source=SOURCE.name,
        source_id=source_id,
        title=title,
        project=next((p for p in projects if p and p.startswith("g-p-")), "default"),
        created_at=moment(record.get("create_time")),
        updated_at=moment(record.get("update_time")),
        head=nearest.get(string_or_none(record.get("current_node")) or ""),
        passages=tuple(passages),
        metadata=other_fields(record, _CONVERSATION_FIELDS),
    )


def reading_order(nodes: Nodes) -> tuple[list[str], dict[str, str | None]]:
    """The nodes, depth first, and the parent of each."""
    parents: dict[str, str | None] = {}
    for id_, node in nodes.items():
        parent = node.get("parent") if isinstance(node, dict) else None
        parents[id_] = parent if isinstance(parent, str) and parent in nodes else None
    if sum(parent is None for parent in parents.values()) > 1:  # some have only `children`
        for id_, node in nodes.items():
            for child in _children(node):
                if child in parents and parents[child] is None:
                    parents[child] = id_
    children: dict[str | None, list[str]] = {}
    for id_, parent in parents.items():
        children.setdefault(parent, []).append(id_)
    for parent, siblings in children.items():
        if len(siblings) > 1:
            ranks = {child: rank for rank, child in enumerate(_children(nodes.get(parent or "")))}
            siblings.sort(key=lambda id_: (ranks.get(id_, len(ranks)), _time(nodes[id_])))
    order: dict[str, None] = {}
    stack = children.get(None, [])[::-1]
    while stack:
        order[stack[-1]] = None
        stack += reversed(children.get(stack.pop(), ()))
    return [*order, *(id_ for id_ in nodes if id_ not in order)], parents  # those in a cycle last


def _children(node: Any) -> list[str]:
    children = as_list(node.get("children")) if isinstance(node, dict) else []
    return [child for child in children if isinstance(child, str)]


def _time(node: Any) -> float:
    message = node.get("message") if isinstance(node, dict) else None
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, (int, float)) else math.inf


# -- messages ----------------------------------------------------------------


def _passage(
    id_: str, message: dict[str, Any], parent: str | None, default_model: str | None
) -> Passage | None:
    content = message.get("content")
    metadata = message.get("metadata") or {}
    content_type = content.get("content_type") if isinstance(content, dict) else None
    text, assets = _text(content, content_type)
    attachments = (*as_list(metadata.get("attachments")), *assets)
    if not attachments and is_blank(text):
        return None
    author = message.get("author") or {}
    role = string_or_none(author.get("role"))
    name = string_or_none(author.get("name"))
    recipient = message.get("recipient")
    type_, tool = "message", None
    if content_type in _THINKING:
        type_ = "thinking"
    elif content_type in _CONTEXT:
        type_ = "context"
    elif role == "tool":
        type_, tool = "tool_result", name
    elif role == "assistant" and recipient not in (None, "all"):
        type_, tool = "tool_call", string_or_none(recipient)
    model = string_or_none(metadata.get("model_slug"))
    if not model and role == "assistant":
        model = default_model
    is_hidden = (
        metadata.get("is_visually_hidden_from_conversation")
        or (role == "system" and not metadata.get("is_user_system_message"))
        or (message.get("weight") == 0 and role != "tool")
        or content_type in _CONTEXT
    )
    citations = [*as_list(metadata.get("citations"))]
    citations += as_list(metadata.get("content_references"))
    return Passage(
        id=id_,
        role=role,
        content=text,
        type=type_,
        author=None if role == "tool" else name,
        model=model or None,
        tool=tool,
        parent=parent,
        created_at=moment(message.get("create_time")),
        updated_at=moment(message.get("update_time")),
        visibility="hidden" if is_hidden else "all",
        attachments=attachments,
        citations=tuple(citations),
        metadata=message_metadata(id_, message, metadata, content),
    )


def message_metadata(
    id_: str, message: dict[str, Any], metadata: dict[str, Any], content: Any
) -> dict[str, Any]:
    """What the fields of a passage do not have."""
    fields = other_fields(message, _MESSAGE_FIELDS)
    if fields.get("id") == id_:
        del fields["id"]
    more = {
        "metadata": other_fields(metadata, _METADATA_FIELDS),
        "author": (message.get("author") or {}).get("metadata"),
    }
    if isinstance(content, dict):
        type_ = fields["content_type"] = content.get("content_type")
        texts = _TEXT_FIELDS.get(type_ or "")
        others = content.keys() - _CONTENT_FIELDS
        more["content"] = {
            key: value
            for key, value in (content.items() if others else ())
            if key in others
            and value is not None
            and (key not in texts if texts else key in _OTHER_FIELDS or not isinstance(value, str))
        }
    return fields | {name: value for name, value in more.items() if value}


# -- text --------------------------------------------------------------------


def _text(content: Any, content_type: str | None) -> tuple[str, list[Any]]:
    """The text of a message, and the files in it."""
    if content is None or isinstance(content, str):
        return content or "", []
    parts = content.get("parts")
    text, assets = join_parts(parts if isinstance(parts, list) else [parts])
    if content_type in ("text", "multimodal_text"):
        return text, assets
    if content_type == "thoughts":
        texts = []
        for thought in as_list(content.get("thoughts")):
            texts += [thought.get("summary"), thought.get("content")]
        return join_texts(texts), assets
    assets += [
        value for value in content.values() if isinstance(value, dict) and "asset_pointer" in value
    ]
    fields: Iterable[str] | None = _TEXT_FIELDS.get(content_type or "")
    if fields is None:
        fields = [key for key in content if key not in _OTHER_FIELDS]
    return join_texts((text, *map(content.get, fields))), assets


def join_parts(parts: list[Any]) -> tuple[str, list[Any]]:
    """The texts among a message's parts, one per line, and the parts that are not text."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0], []
    texts = []
    assets = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
            others = {key: value for key, value in part.items() if key not in ("text", "type")}
            if others:
                assets.append(others)
        elif part is not None:
            assets.append(part)
    return join_texts(texts), assets


def decode_parts(raw: object) -> tuple[str, list[Any]]:
    """The parts of a message that are stored as JSON, or a plain text. Both are in one column."""
    if not isinstance(raw, str):
        return "" if raw is None else str(raw), []
    if not raw.lstrip().startswith("["):
        return raw, []
    try:
        parts = decode(raw)
    except ValueError:
        return raw, []
    for part in parts:  # plain text that happens to be a list stays text
        if isinstance(part, dict) and not _PART_KEYS.isdisjoint(part):
            continue
        if part is not None and not isinstance(part, str):
            return raw, []
    return join_parts(parts)
