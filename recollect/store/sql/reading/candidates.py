"""Read candidates from rows of passage `p` and document `d`, the same for both databases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recollect.language.text import from_micros
from recollect.store.values import Candidate

COLUMNS = """p.key, p.id, d.id, d.title, p.role, p.author, p.type, p.created_at, d.source, d.kind,
  d.project, p.position, p.canonical, d.passages, p.content, p.visibility, d.heading"""
_CREATED_AT = Candidate._fields.index("created_at")
_CANONICAL = Candidate._fields.index("canonical")


def decode_candidates(rows: Iterable[Sequence[Any]]) -> list[Candidate]:
    return decode_columns(list(zip(*rows, strict=True)))


def decode_columns(columns: list[Iterable[Any]]) -> list[Candidate]:
    """Candidates from the columns of their rows. This is twice as fast as row by row."""
    if not columns:
        return []
    columns[_CREATED_AT] = map(from_micros, columns[_CREATED_AT])
    columns[_CANONICAL] = map(bool, columns[_CANONICAL])
    return list(map(Candidate._make, zip(*columns, strict=True)))
