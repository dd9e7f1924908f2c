"""Documents out: as JSON that loses nothing, as plain text, and as Markdown.

JSON is the conversation shape of contract 1 and, beside it, what a library
needs to take the document back unchanged: every branch, and every field that
does not hold its default. `recollect.importers.chats.own` reads it.

Text and Markdown are for people. They follow the canonical path, the
conversation as last seen. What was hidden there and what a model only thought
is left out; tool calls and results are printed under the role that wrote them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TextIO

from recollect.language.text import iso
from recollect.model.documents import Document, Json, Passage
from recollect.model.fields import EXPORT_HEADER, export_shape

_RULE = "=" * 50


def as_json(document: Document) -> dict[str, Json]:
    """The whole document, ready for `json.dumps`."""
    return _finite(export_shape(document))  # type: ignore[no-any-return]


def _finite(value: Json) -> Json:
    """Plain JSON values; a number that JSON cannot write becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def write_json(documents: Iterable[Document], file: TextIO) -> None:
    """Write a file that Recollect can import, one conversation at a time and one to a line.

    It is ASCII throughout, so NULs and lone surrogates survive any encoding.
    """
    header = json.dumps(EXPORT_HEADER)
    file.write(header.removesuffix("}") + ', "conversations": [')
    separator = "\n"
    for document in documents:
        file.write(separator + json.dumps(as_json(document), ensure_ascii=True, allow_nan=False))
        separator = ",\n"
    file.write("\n]}\n")


def as_text(document: Document) -> str:
    lines = [
        f"Conversation: {document.title}",
        f"Created: {iso(document.created_at) or 'unknown'}",
        f"Namespace: {document.project}",
        _RULE,
        "",
    ]
    for passage in _visible_messages(document):
        lines.append(f"{(passage.role or 'unknown').upper()}: {passage.content}")
        if passage.model:
            lines.append(f"  (Model: {passage.model})")
        lines.append("")
    return "\n".join(lines)


def as_markdown(document: Document) -> str:
    messages = _visible_messages(document)
    lines = [
        f"# {document.title}",
        "",
        f"**Created:** {iso(document.created_at) or 'unknown'}",
        f"**Namespace:** {document.project}",
        f"**Messages:** {len(messages)}",
        "",
        "---",
        "",
    ]
    for passage in messages:
        lines.append("### 👤 User" if passage.role == "user" else "### 🤖 Assistant")
        if passage.model:
            lines.append(f"*Model: {passage.model}*")
        lines += ["", passage.content, ""]
    return "\n".join(lines)


def _visible_messages(document: Document) -> list[Passage]:
    return [
        passage
        for passage in document.canonical
        if passage.visibility != "hidden" and passage.type != "thinking"
    ]
