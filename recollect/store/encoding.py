"""Between values and rows, the same for every store.

A row holds only text that UTF-8 and every database can hold. What had to be
cleaned (lone surrogates, NUL) is kept beside it in `original`, a JSON object
from field to the exact text, so that reading gives back what came in. The
digest covers everything the origin said of a passage: two rows with the same
digest are the same message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from recollect.errors import InvalidInput
from recollect.model import Document, Json, Passage
from recollect.settings import LIMITS
from recollect.text import from_micros, micros, storable

PASSAGE_TEXTS = ("id", "role", "kind", "author", "model", "tool", "parent", "visibility", "content")
DOCUMENT_TEXTS = ("id", "origin", "origin_id", "source", "title", "namespace", "head")

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True, allow_nan=False).encode
_EMPTY: tuple[Json, ...] = (None, (), [], {})


def dump(value: Json) -> str | None:
    """JSON as a store keeps it: ASCII, stable key order, None for nothing."""
    if not value and value in _EMPTY:
        return None
    try:
        return _encode(value)
    except (ValueError, TypeError):
        return _encode(_plain(value, 0))
    except RecursionError as error:
        raise InvalidInput(f"Data is nested deeper than {LIMITS.nesting} levels.") from error


def _plain(value: Json, depth: int) -> Json:
    """What JSON can say, for a value that says more: NaN becomes text, keys become text."""
    if depth > LIMITS.nesting:
        raise InvalidInput(f"Data is nested deeper than {LIMITS.nesting} levels.")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v, depth + 1) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def load(text: str | None) -> dict[str, Json]:
    return json.loads(text) if text else {}


def load_list(text: str | None) -> tuple[Json, ...]:
    return tuple(json.loads(text)) if text else ()


def _clean(value: Any, texts: tuple[str, ...]) -> tuple[dict[str, Any], str | None]:
    fields: dict[str, Any] = {name: getattr(value, name) for name in texts}
    together = "".join(filter(None, fields.values()))
    if storable(together) is together:  # as nearly always
        return fields, None
    original = {name: text for name, text in fields.items() if text and storable(text) is not text}
    return fields | {name: storable(text) for name, text in original.items()}, dump(original)


def passage_row(passage: Passage, position: int = 0, canonical: bool = True) -> dict[str, Any]:
    """The columns of a passage at a place in its document, with its digest."""
    if len(passage.content) > LIMITS.message_bytes:
        raise InvalidInput(
            f"Message {passage.id} has {len(passage.content):,} characters; "
            f"at most {LIMITS.message_bytes:,} are accepted."
        )
    row, original = _clean(passage, PASSAGE_TEXTS)
    row["created_at"] = micros(passage.created_at)
    row["updated_at"] = micros(passage.updated_at)
    row["attachments"] = dump(passage.attachments)
    row["citations"] = dump(passage.citations)
    row["metadata"] = dump(passage.metadata)
    row["original"] = original
    row["digest"] = blake2b("\x1f".join(map(str, row.values())).encode(), digest_size=16).digest()
    row["position"] = position
    row["canonical"] = canonical
    return row


def document_row(document: Document) -> dict[str, Any]:
    row, original = _clean(document, DOCUMENT_TEXTS)
    row["created_at"] = micros(document.created_at)
    row["updated_at"] = micros(document.updated_at)
    row["metadata"] = dump(document.metadata)
    row["original"] = original
    return row


def passage_of(row: Mapping[str, Any]) -> Passage:
    texts = {name: row[name] for name in PASSAGE_TEXTS}
    if row["original"]:
        texts |= json.loads(row["original"])
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
        texts |= json.loads(row["original"])
    return Document(
        **texts,
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        metadata=load(row["metadata"]),
        passages=passages,
    )


Progress = Callable[[int, int], None]
"""Called with (done, total) while long work goes on."""
