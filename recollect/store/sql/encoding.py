"""Between values and rows, the same for every store.

A row holds only text that UTF-8 and every database can hold. What had to be
cleaned (lone surrogates, NUL) is kept beside it in `original`, a JSON object
from field to the exact text, so that reading gives back what came in. The
digest covers everything the source said of a passage: two rows with the same
digest are the same message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from recollect.errors import InvalidInput
from recollect.language.text import fold, from_micros, identifier, micros, storable
from recollect.model.documents import Document, Json, Passage
from recollect.settings import LIMITS

PASSAGE_TEXTS = ("id", "role", "type", "author", "model", "tool", "parent", "visibility", "content")
PASSAGE_COLUMNS = (
    "digest",
    "position",
    "canonical",
    "created_at",
    "updated_at",
    "attachments",
    "citations",
    "metadata",
    "original",
    *PASSAGE_TEXTS,
)
DOCUMENT_TEXTS = ("id", "source", "source_id", "kind", "title", "project", "head")

_NAMES = ("id", "parent", "source", "source_id", "head")  # of any length, and looked up by an index

# Version 0.1 used other names in the JSON that it stored.
_RENAMED = {"origin": "source", "origin_id": "source_id", "source": "kind", "namespace": "project"}

_EMPTY: tuple[Json, ...] = (None, (), [], {})


def dump(value: Json) -> str | None:
    """JSON as a store keeps it, with a stable key order; None for nothing.

    Raises InvalidInput where the value is nested too deeply.
    """
    if not value and value in _EMPTY:
        return None
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (
        orjson.JSONEncodeError
    ):  # lone surrogates, huge numbers, keys that are no text, or too deep
        return json.dumps(_plain(value, 0), separators=(",", ":"), sort_keys=True)


def _plain(value: Json, depth: int) -> Json:
    """What JSON can say, for a value that says more: keys and unknown things become text."""
    if depth > LIMITS.nesting:
        raise InvalidInput(f"Data is nested deeper than {LIMITS.nesting} levels.")
    if isinstance(value, Mapping):
        return {str(k): _plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def load(text: str | None) -> dict[str, Json]:
    return json.loads(text) if text else {}


def load_list(text: str | None) -> tuple[Json, ...]:
    return tuple(json.loads(text)) if text else ()


def _cleaned(
    names: tuple[str, ...], texts: tuple[str | None, ...]
) -> tuple[tuple[str | None, ...], str | None]:
    """The texts as every database can hold them, and what had to be cleaned as JSON."""
    clean = tuple(
        t and (identifier(t) if name in _NAMES else storable(t))
        for name, t in zip(names, texts, strict=True)
    )
    original = {name: t for name, t, c in zip(names, texts, clean, strict=True) if t is not c}
    return clean, dump(original)


def passage_row(passage: Passage, position: int = 0, canonical: bool = True) -> tuple[Any, ...]:
    """The columns of a passage (PASSAGE_COLUMNS) at a place in its document; the digest is the first.

    This runs for every message of an import, so it is written for speed.
    """
    p = passage
    if len(p.content) > LIMITS.message_bytes:
        raise InvalidInput(
            f"Message {p.id} has {len(p.content):,} characters; at most {LIMITS.message_bytes:,} are accepted."
        )
    facts = (
        p.created_at and micros(p.created_at),
        p.updated_at and micros(p.updated_at),
        dump(p.attachments) if p.attachments else None,
        dump(p.citations) if p.citations else None,
        dump(p.metadata) if p.metadata else None,
    )
    texts: tuple[str | None, ...]
    texts = (p.id, p.role, p.type, p.author, p.model, p.tool, p.parent, p.visibility, p.content)
    original = None
    said = "\x1f".join(map(str, facts + texts))
    if storable(said) is not said:
        said = said.encode("unicode_escape").decode()
        texts, original = _cleaned(PASSAGE_TEXTS, texts)
    elif identifier(p.id) is not p.id or (p.parent and identifier(p.parent) is not p.parent):
        texts, original = _cleaned(PASSAGE_TEXTS, texts)
    digest = blake2b(said.encode(), digest_size=16).digest()
    return (digest, position, canonical, *facts, original, *texts)


def document_row(document: Document) -> dict[str, Any]:
    texts, original = _cleaned(
        DOCUMENT_TEXTS, tuple(getattr(document, name) for name in DOCUMENT_TEXTS)
    )
    row: dict[str, Any] = dict(zip(DOCUMENT_TEXTS, texts, strict=True))
    row["created_at"] = micros(document.created_at)
    row["updated_at"] = micros(document.updated_at)
    row["metadata"] = dump(document.metadata)
    row["original"] = original
    row["partial"] = document.partial
    row["shared_ids"] = document.shared_ids
    return row


FOUND_BY = 200
"""Characters by which a document is found: an index holds no more of some."""


def found_by(row: Mapping[str, Any]) -> dict[str, str | None]:
    """What filters ask of a document's metadata, in columns of its own."""
    metadata = load(row["metadata"])
    media_type, character = metadata.get("media_type"), metadata.get("character_id")
    return {
        "media_type": fold(storable(media_type))[:FOUND_BY]
        if isinstance(media_type, str) and media_type
        else None,
        "character_id": storable(str(character))[:FOUND_BY]
        if isinstance(character, (str, int))
        else None,
    }


def current_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A document row read back from a receipt, with the column names of this version."""
    if "namespace" not in row:
        return dict(row)
    return {_RENAMED.get(name, name): value for name, value in row.items()}


def exact_texts(original: str | None, names: tuple[str, ...]) -> dict[str, Any]:
    """The exact texts of the columns that had to be cleaned, under the names of this version."""
    texts = load(original)
    if not texts.keys() <= set(names):
        texts = {_RENAMED.get(name, name): text for name, text in texts.items()}
    return {name: text for name, text in texts.items() if name in names}


def digest_of(passage: Passage) -> bytes:
    digest: bytes = passage_row(passage)[0]
    return digest


def passage_of(columns: tuple[Any, ...]) -> Passage:
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    texts = {name: row[name] for name in PASSAGE_TEXTS}
    if row["original"]:
        texts |= exact_texts(row["original"], PASSAGE_TEXTS)
    return Passage(
        **texts,
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        attachments=load_list(row["attachments"]),
        citations=load_list(row["citations"]),
        metadata=load(row["metadata"]),
        position=row["position"],
        canonical=bool(row["canonical"]),
    )


def document_of(row: Mapping[str, Any], passages: tuple[Passage, ...] = ()) -> Document:
    texts = {name: row[name] for name in DOCUMENT_TEXTS}
    if row["original"]:
        texts |= exact_texts(row["original"], DOCUMENT_TEXTS)
    return Document(
        **texts,
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        metadata=load(row["metadata"]),
        passages=passages,
        partial=bool(row["partial"]),
        shared_ids=bool(row["shared_ids"]),
        version=row["version"],
    )
