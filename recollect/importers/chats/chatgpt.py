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
from recollect.importers.problems import contain_errors
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    UNEXPECTED,
    UNKNOWN_MESSAGE,
    as_list,
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

_CYCLE = "a cycle of parents was broken"

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
    source_id = _source_id(record)
    where = truncate(title, 80) or source_id or where
    if nodes is None:
        yield Problem("conversation without messages (no mapping)", where, unit="conversations")
        return
    tree = _Tree(nodes, string_or_none(record.get("default_model_slug")))
    for reason, count in tree.skipped.items():
        yield Problem(reason, where, failed=reason == UNKNOWN_MESSAGE, count=count)
    if not tree.passages:
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
        head=tree.nearest_passage.get(string_or_none(record.get("current_node")) or ""),
        passages=tuple(tree.passages),
        metadata=other_fields(record, _CONVERSATION_FIELDS),
    )


def _source_id(record: dict[str, Any]) -> str:
    for key in ("conversation_id", "id"):
        value = string_or_none(record.get(key))
        if value:
            return value
    # A conversation without an id gets one that is the same in every export.
    first_node = next(iter(record.get("mapping") or {}), "")
    content = f"{record.get('create_time')} {first_node}".encode(errors="surrogatepass")
    return hashlib.blake2s(content, digest_size=16).hexdigest()


# -- the tree ----------------------------------------------------------------


class _Tree:
    """The messages of a conversation in reading order."""

    def __init__(self, nodes: Nodes, model: str | None) -> None:
        self.passages: list[Passage] = []
        self.nearest_passage: dict[str, str | None] = {}
        """For every node: itself if it has a message, or else its nearest ancestor that has one."""
        self.skipped: Counter[str] = Counter()
        order, cycles = reading_order(nodes)
        if cycles:
            self.skipped[_CYCLE] = cycles
        for node_id, parent_id in order.items():
            parent = None if parent_id is None else self.nearest_passage[parent_id]
            self.nearest_passage[node_id] = parent
            try:
                message = nodes[node_id].get("message")
                passage = _passage(node_id, message, parent, model) if message else None
            except UNEXPECTED:
                self.skipped[UNKNOWN_MESSAGE] += 1
                continue
            if passage is not None:
                self.passages.append(passage)
                self.nearest_passage[node_id] = node_id
            elif message or parent_id is not None:  # every tree has a root without a message
                self.skipped[EMPTY_MESSAGE] += 1


def reading_order(nodes: Nodes) -> tuple[dict[str, str | None], int]:
    """Every node with its parent, depth first, and the number of cycles that were broken."""
    parents = _parents(nodes)
    children: dict[str | None, list[str]] = {}
    for node_id, parent in parents.items():
        children.setdefault(parent, []).append(node_id)
    for parent, siblings in children.items():
        if len(siblings) > 1:
            sort_siblings(siblings, nodes, parent)
    order: dict[str, str | None] = {}
    descend(children.get(None, ()), children, order)
    cycles = 0
    if len(order) < len(parents):
        for node_id in parents:
            if node_id not in order:
                descend([node_on_cycle(node_id, parents)], children, order)
                cycles += 1
    return order, cycles


def _parents(nodes: Nodes) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for node_id, node in nodes.items():
        parent = node.get("parent") if isinstance(node, dict) else None
        if not isinstance(parent, str) or parent not in nodes:
            parent = None
        parents[node_id] = parent
    roots = sum(parent is None for parent in parents.values())
    if roots > 1:  # some exports have only `children`
        for node_id, node in nodes.items():
            for child in _children(node):
                if child in parents and parents[child] is None:
                    parents[child] = node_id
    return parents


def _children(node: Any) -> list[str]:
    if not isinstance(node, dict):
        return []
    return [child for child in as_list(node.get("children")) if isinstance(child, str)]


def sort_siblings(siblings: list[str], nodes: Nodes, parent: str | None) -> None:
    """Sort by the parent's list of children, then by time."""
    ranks = {child: rank for rank, child in enumerate(_children(nodes.get(parent or "")))}

    def sort_key(node_id: str) -> tuple[int, float]:
        node = nodes[node_id]
        message = node.get("message") if isinstance(node, dict) else None
        time = message.get("create_time") if isinstance(message, dict) else None
        rank = ranks.get(node_id, len(ranks))
        return rank, time if isinstance(time, (int, float)) else math.inf

    siblings.sort(key=sort_key)


def descend(
    roots: Iterable[str],
    children: dict[str | None, list[str]],
    order: dict[str, str | None],
) -> None:
    stack: list[tuple[str, str | None]] = [(root, None) for root in roots]
    stack.reverse()
    while stack:
        node_id, parent = stack.pop()
        if node_id not in order:
            order[node_id] = parent
            stack.extend([(child, node_id) for child in reversed(children.get(node_id, ()))])


def node_on_cycle(node_id: str, parents: dict[str, str | None]) -> str:
    """The first node that is met twice on the way up from a node."""
    visited: set[str | None] = set()
    current: str | None = node_id
    while current not in visited:
        visited.add(current)
        if current is not None:
            current = parents[current]
    return current or node_id


# -- messages ----------------------------------------------------------------


def _passage(
    node_id: str, message: dict[str, Any], parent: str | None, default_model: str | None
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
    type_, tool = _type(content_type, role, name, message.get("recipient"))
    model = string_or_none(metadata.get("model_slug"))
    if not model and role == "assistant":
        model = default_model
    citations = [*as_list(metadata.get("citations"))]
    citations += as_list(metadata.get("content_references"))
    return Passage(
        id=node_id,
        role=role,
        content=text,
        type=type_,
        author=None if role == "tool" else name,
        model=model or None,
        tool=tool,
        parent=parent,
        created_at=moment(message.get("create_time")),
        updated_at=moment(message.get("update_time")),
        visibility="hidden" if is_hidden(content_type, role, message, metadata) else "all",
        attachments=attachments,
        citations=tuple(citations),
        metadata=message_metadata(node_id, message, metadata, content),
    )


def _type(
    content_type: str | None, role: str | None, name: str | None, recipient: Any
) -> tuple[str, str | None]:
    """The type of a message, and the tool that it calls or comes from."""
    if content_type in _THINKING:
        return "thinking", None
    if content_type in _CONTEXT:
        return "context", None
    if role == "tool":
        return "tool_result", name
    if role == "assistant" and recipient not in (None, "all"):
        return "tool_call", string_or_none(recipient)
    return "message", None


def is_hidden(
    content_type: str | None, role: str | None, message: dict[str, Any], metadata: dict[str, Any]
) -> bool:
    return bool(
        metadata.get("is_visually_hidden_from_conversation")
        or (role == "system" and not metadata.get("is_user_system_message"))
        or (message.get("weight") == 0 and role != "tool")
        or content_type in _CONTEXT
    )


def message_metadata(
    node_id: str, message: dict[str, Any], metadata: dict[str, Any], content: Any
) -> dict[str, Any]:
    fields = other_fields(message, _MESSAGE_FIELDS)
    if fields.get("id") == node_id:
        del fields["id"]
    other_metadata = other_fields(metadata, _METADATA_FIELDS)
    if other_metadata:
        fields["metadata"] = other_metadata
    if isinstance(content, dict):
        fields["content_type"] = content.get("content_type")
        other_content = _other_content(content) if len(content) > 2 else {}
        if other_content:
            fields["content"] = other_content
    author_metadata = (message.get("author") or {}).get("metadata")
    if author_metadata:
        fields["author"] = author_metadata
    return fields


def _other_content(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message's content that did not become text."""
    others = other_fields(content, ("content_type", "parts", "thoughts"))
    texts = _TEXT_FIELDS.get(content.get("content_type", ""))
    if texts:
        return other_fields(others, texts)
    return {k: v for k, v in others.items() if k in _OTHER_FIELDS or not isinstance(v, str)}


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


def decode_content(raw: object) -> str:
    return decode_parts(raw)[0]
