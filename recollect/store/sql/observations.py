"""Observations: each conversation has a document of observations, which is deleted with it.

A conversation stores the version at which it was observed, negative if the observations are
incomplete. So conversations that changed since then are found without reading the others.
"""

from __future__ import annotations

from dataclasses import replace

from recollect.errors import NotFound
from recollect.language.text import identifier
from recollect.model.documents import Document
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import changes, lookup, saving
from recollect.store.sql import passages as passage_sql
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import document_row
from recollect.store.sql.merging import merge_fields, unique_passages


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
    observations: Document | None,
    complete: bool,
) -> bool:
    """See Store.save_observations. Returns whether this removed observations."""
    try:
        key = lookup.key_of(db, conversation)
    except NotFound:  # deleted in the meantime
        return False
    if observations is None:
        has_removed = changes.delete_observations(db, key, index)
    else:
        document = replace(observations, passages=unique_passages(observations.passages))
        has_removed = save_document(db, index, document)
    observed = version if complete else -version
    db.run(f"update document set observed = ? where {db.own()} and key = ?", (observed, key))
    return has_removed


def save_document(db: Database, index: TextIndex, document: Document) -> bool:
    key = db.get(
        f"select key from document where {db.own()} and source = ? and source_id = ?",
        (identifier(document.source), identifier(document.source_id)),
    )
    if key is None:
        saving.save(db, index, [document], None, index_ids=True)
        return False
    head, rows = passage_sql.passage_rows(document)
    replacement = passage_sql.rewrite_passages(db, index, key, rows, None, True)
    stored = lookup.read_header(db, key)
    row = document_row(merge_fields(replace(document, head=head), stored))
    if row != document_row(stored):
        passage_sql.update_document(db, key, row, index)
    passage_sql.increment_version(db, key)
    return replacement.removed > 0


def reset(db: Database, incomplete_only: bool = False) -> None:
    """See Store.reset_observations."""
    condition = "observed <> 0"
    if incomplete_only:
        condition = "observed < 0"
    db.run(
        f"update document set observed = 0 where {db.own()} and kind = ? and {condition}",
        (CONVERSATION,),
    )
