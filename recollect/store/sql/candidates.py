"""Candidates as they are read: passage p of document d, the same columns in every database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recollect.language.text import from_micros
from recollect.store.values import Candidate

COLUMNS = """p.key, p.id, d.id, d.title, p.role, p.author, p.type, p.created_at, d.source, d.kind,
  d.project, p.position, p.canonical, d.passages, p.content, p.visibility"""


def candidates(rows: Iterable[tuple[Any, ...]]) -> list[Candidate]:
    return [_candidate(row) for row in rows]


def _candidate(row: tuple[Any, ...]) -> Candidate:
    (
        key,
        id_,
        document,
        title,
        role,
        author,
        type_,
        created,
        source,
        kind,
        project,
        position,
        canonical,
        *rest,
    ) = row
    return Candidate(
        key,
        id_,
        document,
        title,
        role,
        author,
        type_,
        from_micros(created),
        source,
        kind,
        project,
        position,
        bool(canonical),
        *rest,
    )
