"""What an import changed of the fields of a document, so that undoing it keeps later changes.

The receipt has the fields before the import, and a mark of each field that it changed: a hash of
the new value, or a date. Undoing the import restores a field only if it still has the value with
that mark; otherwise somebody has changed it since. A hash does not keep a text that a person may
want to be gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from recollect.language.text import micros
from recollect.model.documents import Document
from recollect.store.sql.encoding import decode_document, document_row, dump

MARKS = "imported"
"""The key of the marks in the state that a receipt has of a document."""

Marks = Mapping[str, int | None]

_FIELDS = ("title", "project", "head", "created_at", "updated_at", "partial", "shared_ids")
_METADATA = "metadata."
# Editing tags and pins moves the date by a microsecond (see imports/undo.py).
_SAME_DATE = 1_000_000


def field_marks(before: Document, after: Document) -> dict[str, int | None]:
    """The marks of the fields that differ."""
    old_values, new_values = _values(before), _values(after)
    return {
        name: _mark(new_values.get(name))
        for name in old_values.keys() | new_values.keys()
        if old_values.get(name) != new_values.get(name)
    }


def restore_fields(stored: Document, before: Document, marks: Marks) -> Document:
    """The stored document with the fields before an import that nobody has changed since."""
    fields = {name: getattr(stored, name) for name in _FIELDS}
    metadata = dict(stored.metadata)
    for name in _unchanged_fields(stored, marks):
        key = name.removeprefix(_METADATA)
        if name in _FIELDS:
            fields[name] = getattr(before, name)
        elif key in before.metadata:
            metadata[key] = before.metadata[key]
        else:
            metadata.pop(key, None)
    return replace(stored, metadata=metadata, **fields)


def _unchanged_fields(stored: Document, marks: Marks) -> list[str]:
    """The fields that still have the values that an import gave them."""
    values = _values(stored)
    return [name for name, mark in marks.items() if _has_mark(values.get(name), mark)]


# -- states in receipts ---


def dump_fields(before: Document, after: Document) -> str:
    """The fields of a conversation before an import, as a receipt stores them."""
    return json.dumps(document_row(before) | {MARKS: field_marks(before, after)})


def load_fields(state: Mapping[str, Any]) -> tuple[Document, Marks]:
    """The fields of a document before an import, and the marks of those that it changed."""
    row = state.get("document", state) | {"version": 0}
    return decode_document(row), state[MARKS]


def add_marks(state: str | None, later: str | None) -> str | None:
    """The state before an import that has changed the document again, with the marks of both."""
    if state is None or later is None:
        return state
    first, second = json.loads(state), json.loads(later)
    if first is None:  # the import created it
        return state
    return json.dumps(first | {MARKS: first[MARKS] | second[MARKS]})


# -- marks ---


def _values(document: Document) -> dict[str, Any]:
    values = {name: getattr(document, name) for name in _FIELDS}
    for key, value in document.metadata.items():
        values[f"{_METADATA}{key}"] = value
    return values


def _mark(value: Any) -> int | None:
    if isinstance(value, datetime):
        return micros(value)
    if value is None:
        return None
    # A number: `forget` looks for texts in the states.
    text = dump([value]) or ""
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest())


def _has_mark(value: Any, mark: int | None) -> bool:
    current = _mark(value)
    if isinstance(value, datetime) and current is not None and mark is not None:
        return 0 <= current - mark < _SAME_DATE
    return current == mark
