"""Read candidates from rows of passage `p` and document `d`, the same for both databases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recollect.language.text import from_micros
from recollect.store.sql.encoding import HEADING
from recollect.store.values import Candidate

COLUMNS = f"""p.key, p.id, d.id, {HEADING}, p.role, p.author, p.type, p.created_at, d.source,
  d.kind, d.project, p.position, p.canonical, d.passages, p.content, p.visibility"""
_CREATED_AT = Candidate._fields.index("created_at")
_CANONICAL = Candidate._fields.index("canonical")


def decode_candidates(rows: Iterable[Sequence[Any]]) -> list[Candidate]:
    candidates = []
    for row in rows:
        values = list(row)
        values[_CREATED_AT] = from_micros(values[_CREATED_AT])
        values[_CANONICAL] = bool(values[_CANONICAL])
        candidates.append(Candidate._make(values))
    return candidates
