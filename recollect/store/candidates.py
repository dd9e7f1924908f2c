"""Candidates as they are read: passage p of document d, the same columns in every database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recollect.store.base import Candidate
from recollect.text import from_micros

COLUMNS = """p.key, p.id, d.id, d.title, p.role, p.author, p.kind, p.created_at, d.origin, d.source,
  d.namespace, p.position, p.canonical, d.passages, p.content, p.visibility"""


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
        kind,
        created,
        origin,
        source,
        namespace,
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
        kind,
        from_micros(created),
        origin,
        source,
        namespace,
        position,
        bool(canonical),
        *rest,
    )
