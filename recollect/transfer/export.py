"""Export documents as JSON without loss, as plain text, and as Markdown.

JSON has the fields of a conversation in the Persistence API, and everything that is needed to
import the document unchanged: every branch, and every field that does not have its default value.
`recollect.importers.chats.own` reads it.

Text and Markdown are for people. They follow the canonical path, without hidden messages and
without the thinking of models. Tool calls and results appear under their role.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from recollect.errors import InvalidInput
from recollect.language.text import iso
from recollect.model.documents import Document, Json, Passage
from recollect.model.fields import EXPORT_HEADER, export_shape

_RULE = "=" * 50


def as_json(document: Document) -> dict[str, Json]:
    """The whole document, ready for `json.dumps`."""
    return finite(export_shape(document))  # type: ignore[no-any-return]


def finite(value: Json) -> Json:
    """Plain JSON values; infinities and NaN become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def write_json(documents: Iterable[Document], file: TextIO) -> None:
    """Write a file that Recollect can import, one conversation per line.

    It is plain ASCII, so NULs and lone surrogates survive any encoding.
    """
    header = json.dumps(EXPORT_HEADER)
    file.write(header.removesuffix("}") + ', "conversations": [')
    separator = "\n"
    for document in documents:
        file.write(separator + json.dumps(as_json(document), ensure_ascii=True, allow_nan=False))
        separator = ",\n"
    file.write("\n]}\n")


FORMATS = ("json", "txt", "md")


def export_documents(documents: Iterable[Document], file: TextIO, format: str) -> int:
    """Write documents to a file, and return their number. Raises InvalidInput."""
    if format not in FORMATS:
        raise InvalidInput(f"format: {format!r} is not one of {', '.join(FORMATS)}.")
    ids: list[str] = []

    def counted() -> Iterator[Document]:
        for document in documents:
            ids.append(document.id)
            yield document

    if format == "json":
        write_json(counted(), file)
        return len(ids)
    for document in counted():
        if format == "txt":
            file.write(as_text(document) + "\n")
        else:
            file.write(as_markdown(document) + "\n")
    return len(ids)


def export_to_path(documents: Iterable[Document], path: Path, format: str) -> int:
    """Write documents to a file under another name first, so that it is complete or not there."""
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
            count = export_documents(documents, file, format)
        draft.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return count


def as_text(document: Document) -> str:
    lines = [
        f"Conversation: {document.title}",
        f"Created: {iso(document.created_at) or 'unknown'}",
        f"Namespace: {document.project}",
        _RULE,
        "",
    ]
    for passage in visible_messages(document):
        lines.append(f"{(passage.role or 'unknown').upper()}: {passage.content}")
        if passage.model:
            lines.append(f"  (Model: {passage.model})")
        lines.append("")
    return "\n".join(lines)


def as_markdown(document: Document) -> str:
    messages = visible_messages(document)
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
        if passage.model and passage.role == "assistant":
            lines.append(f"*Model: {passage.model}*")
        lines += ["", passage.content, ""]
    return "\n".join(lines)


def visible_messages(document: Document) -> list[Passage]:
    return [
        passage
        for passage in document.canonical
        if passage.visibility != "hidden" and passage.type != "thinking"
    ]
