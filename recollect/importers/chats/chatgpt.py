"""ChatGPT's own export: `conversations.json`, or `conversations-000.json` and on, in a zip, folder or alone.

A conversation is a map of nodes, each naming its parent; edits and regenerations
are sibling branches, all kept, and `current_node` is the leaf last seen. Nodes
without a message, or whose message says nothing, are left out and their children
hang on the nearest one that is kept. What a message says lies in a different
field for each `content_type`; it is kept as it came, citation marks included.
Exports name fields this module does not know: they go to `metadata` untouched.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import peek
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

_CIRCLE = "circle of parents was cut"

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
_NO_TEXT_FIELDS = frozenset(
    {
        "content_type",
        "language",
        "url",
        "domain",
        "tether_id",
        "ref_id",
        "computer_id",
        "response_format_name",
    }
)
_MESSAGE_FIELDS = frozenset({"author", "create_time", "update_time", "content", "metadata"})
_METADATA_FIELDS = frozenset({"model_slug", "attachments", "citations", "content_references"})
_CONVERSATION_FIELDS = frozenset(
    {"title", "create_time", "update_time", "mapping", "current_node", "conversation_id", "id"}
)


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if not name.endswith(".json"):
        return False
    keys = peek(entry)
    if "chat_messages" in keys or "uuid" in keys:  # Claude's export, which uses the same file name
        return False
    return name.startswith("conversations") or (
        "mapping" in keys and len(keys & _CONVERSATION_FIELDS) > 1
    )


def read(entry: Entry) -> Iterator[Document | Problem]:
    return convert_records(entry, ("mapping",), _conversation)


# -- conversations ---------------------------------------------------------


def _conversation(record: Any, where: str) -> Iterator[Document | Problem]:
    title = string_or_none(record.get("title")) or ""
    mapping = record.get("mapping")
    origin_id = (
        string_or_none(record.get("conversation_id"))
        or string_or_none(record.get("id"))
        or _made_up_id(record)
    )
    where = truncate(title, 80) or origin_id or where
    if mapping is None:
        yield Problem("conversation without messages (no mapping)", where, unit="conversations")
        return
    passages, kept, left_out = _passages(mapping, string_or_none(record.get("default_model_slug")))
    for reason, count in left_out.items():
        yield Problem(reason, where, failed=reason == UNKNOWN_MESSAGE, count=count)
    if not passages:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
        return
    yield Document(
        source=SOURCE.name,
        source_id=origin_id,
        title=title,
        project=_project(record) or "default",
        created_at=moment(record.get("create_time")),
        updated_at=moment(record.get("update_time")),
        head=kept.get(string_or_none(record.get("current_node")) or ""),
        passages=tuple(passages),
        metadata=other_fields(record, _CONVERSATION_FIELDS),
    )


def _project(record: dict[str, Any]) -> str | None:
    ids = (
        string_or_none(record.get("gizmo_id")),
        string_or_none(record.get("conversation_template_id")),
    )
    return next((i for i in ids if i and i.startswith("g-p-")), None)


def _made_up_id(record: dict[str, Any]) -> str:
    """A name for a conversation that has none, the same each time it is exported."""
    first = next(iter(record.get("mapping") or {}), "")
    known = f"{record.get('create_time')} {first}".encode(errors="surrogatepass")
    return hashlib.blake2s(known, digest_size=16).hexdigest()


# -- the tree --------------------------------------------------------------


def _passages(
    mapping: dict[str, Any], model: str | None
) -> tuple[list[Passage], dict[str, str | None], Counter[str]]:
    """The passages in reading order, for every node the nearest one kept, and what was left out."""
    passages: list[Passage] = []
    kept: dict[str, str | None] = {}
    order, circles = _reading_order(mapping)
    left_out = Counter({_CIRCLE: circles} if circles else ())
    for node_id, parent_id in order.items():
        above = None if parent_id is None else kept[parent_id]
        kept[node_id] = above
        try:
            message = mapping[node_id].get("message")
            passage = message and _passage(node_id, message, above, model)
        except UNEXPECTED:
            left_out[UNKNOWN_MESSAGE] += 1
            continue
        if passage:
            passages.append(passage)
            kept[node_id] = node_id
        elif message or parent_id is not None:  # a root without a message is how every tree starts
            left_out[EMPTY_MESSAGE] += 1
    return passages, kept, left_out


def _reading_order(mapping: dict[str, Any]) -> tuple[dict[str, str | None], int]:
    """Every node with its parent, depth first; and how many circles of parents had to be cut for it."""
    parents = _parents(mapping)
    children: dict[str | None, list[str]] = {}
    for node_id, parent in parents.items():
        children.setdefault(parent, []).append(node_id)
    for parent, siblings in children.items():
        if len(siblings) > 1:
            _sort_siblings(siblings, mapping, parent)
    order: dict[str, str | None] = {}
    _descend(children.get(None, ()), None, children, order)
    circles = 0
    for node_id in parents if len(order) < len(parents) else ():
        if node_id not in order:
            _descend([_on_circle(node_id, parents)], None, children, order)
            circles += 1
    return order, circles


def _parents(mapping: dict[str, Any]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for node_id, node in mapping.items():
        parent = node.get("parent") if isinstance(node, dict) else None
        parents[node_id] = parent if isinstance(parent, str) and parent in mapping else None
    if (
        sum(parent is None for parent in parents.values()) > 1
    ):  # some exports name only the children
        for node_id, node in mapping.items():
            for child in _children(node):
                if child in parents and parents[child] is None:
                    parents[child] = node_id
    return parents


def _children(node: Any) -> list[str]:
    return (
        [child for child in as_list(node.get("children")) if isinstance(child, str)]
        if isinstance(node, dict)
        else []
    )


def _sort_siblings(siblings: list[str], mapping: dict[str, Any], parent: str | None) -> None:
    rank = {child: n for n, child in enumerate(_children(mapping.get(parent or "")))}

    def place(node_id: str) -> tuple[int, float]:
        node = mapping[node_id]
        message = node.get("message") if isinstance(node, dict) else None
        time = message.get("create_time") if isinstance(message, dict) else None
        return rank.get(node_id, len(rank)), time if isinstance(time, (int, float)) else math.inf

    siblings.sort(key=place)


def _descend(
    starts: Iterable[str],
    parent: str | None,
    children: dict[str | None, list[str]],
    order: dict[str, str | None],
) -> None:
    stack = [(start, parent) for start in starts]
    stack.reverse()
    while stack:
        node_id, parent = stack.pop()
        if node_id not in order:
            order[node_id] = parent
            stack.extend([(child, node_id) for child in reversed(children.get(node_id, ()))])


def _on_circle(node_id: str, parents: dict[str, str | None]) -> str:
    seen: set[str | None] = set()
    walk: str | None = node_id
    while walk not in seen:
        seen.add(walk)
        walk = parents[walk] if walk is not None else None
    return walk or node_id


# -- messages --------------------------------------------------------------


def _passage(
    node_id: str, message: dict[str, Any], parent: str | None, model: str | None
) -> Passage | None:
    content = message.get("content")
    metadata = message.get("metadata") or {}
    content_type = content.get("content_type") if isinstance(content, dict) else None
    text, assets = _said(content, content_type)
    attachments = (*as_list(metadata.get("attachments")), *assets)
    if not attachments and is_blank(text):
        return None
    author = message.get("author") or {}
    role = string_or_none(author.get("role"))
    name = string_or_none(author.get("name"))
    kind, tool = _kind(content_type, role, name, message.get("recipient"))
    return Passage(
        id=node_id,
        role=role,
        content=text,
        type=kind,
        author=None if role == "tool" else name,
        model=string_or_none(metadata.get("model_slug"))
        or (model if role == "assistant" else None),
        tool=tool,
        parent=parent,
        created_at=moment(message.get("create_time")),
        updated_at=moment(message.get("update_time")),
        visibility="hidden" if _hidden(content_type, role, message, metadata) else "all",
        attachments=attachments,
        citations=(
            *as_list(metadata.get("citations")),
            *as_list(metadata.get("content_references")),
        ),
        metadata=_message_metadata(node_id, message, metadata, content),
    )


def _kind(
    content_type: str | None, role: str | None, name: str | None, recipient: Any
) -> tuple[str, str | None]:
    if content_type in _THINKING:
        return "thinking", None
    if content_type in _CONTEXT:
        return "context", None
    if role == "tool":
        return "tool_result", name
    if role == "assistant" and recipient not in (None, "all"):
        return "tool_call", string_or_none(recipient)
    return "message", None


def _hidden(
    content_type: str | None, role: str | None, message: dict[str, Any], metadata: dict[str, Any]
) -> bool:
    return bool(
        metadata.get("is_visually_hidden_from_conversation")
        or (role == "system" and not metadata.get("is_user_system_message"))
        or (message.get("weight") == 0 and role != "tool")
        or content_type in _CONTEXT
    )


def _message_metadata(
    node_id: str, message: dict[str, Any], metadata: dict[str, Any], content: Any
) -> dict[str, Any]:
    given = other_fields(message, _MESSAGE_FIELDS)
    if given.get("id") == node_id:
        del given["id"]
    if inner := other_fields(metadata, _METADATA_FIELDS):
        given["metadata"] = inner
    if isinstance(content, dict):
        given["content_type"] = content.get("content_type")
        if len(content) > 2 and (unsaid := _unsaid(content)):
            given["content"] = unsaid
    if about_author := (message.get("author") or {}).get("metadata"):
        given["author"] = about_author
    return given


def _unsaid(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a content that did not become text."""
    used = _TEXT_FIELDS.get(content.get("content_type", ""))
    return {
        key: value
        for key, value in content.items()
        if value is not None
        and key not in ("content_type", "parts", "thoughts")
        and (key not in used if used else key in _NO_TEXT_FIELDS or not isinstance(value, str))
    }


# -- what a message says ---------------------------------------------------


def _said(content: Any, content_type: str | None) -> tuple[str, list[Any]]:
    """The text of a message, and the files that stand in it."""
    if content is None or isinstance(content, str):
        return content or "", []
    parts = content.get("parts")
    text, assets = join_parts(parts if isinstance(parts, list) else [parts])
    if content_type in ("text", "multimodal_text"):
        return text, assets
    if content_type == "thoughts":
        thoughts = as_list(content.get("thoughts"))
        return join_texts(
            thought.get(field) for thought in thoughts for field in ("summary", "content")
        ), assets
    fields = _TEXT_FIELDS.get(content_type or "") or [
        key for key in content if key not in _NO_TEXT_FIELDS
    ]
    assets += [
        value for value in content.values() if isinstance(value, dict) and "asset_pointer" in value
    ]
    return join_texts((text, *map(content.get, fields))), assets


def join_parts(parts: list[Any]) -> tuple[str, list[Any]]:
    """The words of a message's parts, a line each, and the parts that are not words."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0], []
    texts = []
    assets = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
            if rest := {key: value for key, value in part.items() if key not in ("text", "type")}:
                assets.append(rest)
        elif part is not None:
            assets.append(part)
    return join_texts(texts), assets
