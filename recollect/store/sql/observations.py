"""Observations: each conversation has a document of observations, which is deleted with it.

A conversation stores the version at which it was observed, negative if the observations are
incomplete. So conversations that changed since then are found without reading the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from recollect.errors import NotFound
from recollect.language.text import identifier
from recollect.model.documents import Document
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import changes, lookup, receipt_states, rewriting, saving
from recollect.store.sql import passages as passage_sql
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import document_row
from recollect.store.sql.merging import merge_fields, unique_passages


class Draft(NamedTuple):
    """Observations as they are stored, prepared outside of the transactions that save them."""

    document: Document
    head: str | None
    rows: rewriting.Rows


class Step(NamedTuple):
    """The outcome of one transaction that saves observations."""

    has_removed: bool
    """Whether it removed observations."""
    is_complete: bool
    """Whether all are saved."""


def draft(observations: Document) -> Draft:
    document = replace(observations, passages=unique_passages(observations.passages))
    return Draft(document, *rewriting.passage_rows(document))


def unobserved(db: Database, limit: int) -> tuple[list[tuple[str, int]], int]:
    """See Store.unobserved."""
    changed = (
        f"from document d where {db.own('d')} and d.kind = 'conversation' "
        "and d.observed <> d.version and d.observed <> -d.version"
    )
    rows = db.rows(f"select d.id, d.version {changed} order by d.key limit ?", (limit,))
    if not rows:
        return [], 0
    return [(id_, version) for id_, version in rows], db.get(f"select count(*) {changed}")


def save(
    db: Database,
    index: TextIndex,
    conversation: str,
    version: int,
    observations: Draft | None,
    complete: bool,
    limit: int,
) -> Step:
    """Save observations, at most `limit` new, changed or removed ones. The next call continues.

    See Store.save_observations.
    """
    try:
        key = lookup.key_of(db, conversation)
    except NotFound:  # deleted in the meantime
        return Step(False, True)
    if observations is None:
        step = Step(changes.delete_observations(db, key, index), True)
    else:
        step = save_some(db, index, observations, limit)
    if step.is_complete:
        if not complete:
            version = -version
        db.run(f"update document set observed = ? where {db.own()} and key = ?", (version, key))
    return step


def save_some(db: Database, index: TextIndex, observations: Draft, limit: int) -> Step:
    document, head, rows = observations
    key = db.get(
        f"select key from document where {db.own()} and source = ? and source_id = ?",
        (identifier(document.source), identifier(document.source_id)),
    )
    if key is None:
        first = replace(document, passages=document.passages[:limit])
        saving.save(db, index, [first], None, index_ids=True)
        return Step(False, len(rows) <= limit)
    replacement = rewriting.replace_passages(db, index, key, rows, None, True, limit)
    if replacement.is_complete:
        update_document(db, index, key, replace(document, head=head))
    return Step(replacement.removed > 0, replacement.is_complete)


def update_document(db: Database, index: TextIndex, key: int, document: Document) -> None:
    stored = lookup.read_header(db, key)
    row = document_row(merge_fields(document, stored))
    if row != document_row(stored):
        passage_sql.update_document(db, key, row, index)
    passage_sql.increment_version(db, key)
    receipt_states.detach_from_imports(db, key)


def reset(db: Database, incomplete_only: bool) -> None:
    """See Store.reset_observations."""
    condition = "observed <> 0"
    if incomplete_only:
        condition = "observed < 0"
    db.run(
        f"update document set observed = 0 where {db.own()} and kind = ? and {condition}",
        (CONVERSATION,),
    )
