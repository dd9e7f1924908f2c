"""Observations: each conversation has a document of observations, which is deleted with it.

A conversation stores the version at which it was observed, negative if the observations are
incomplete. So conversations that changed since then are found without reading the others.
"""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.model.documents import Document
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import changes, lookup, saving
from recollect.store.sql.database import Database, TextIndex


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
    """See Store.save_observations. Returns whether it removed any."""
    try:
        key = lookup.key_of(db, conversation)
    except NotFound:  # deleted in the meantime
        return False
    if observations is None:
        has_removed = changes.delete_observations(db, key, index)
    else:
        (result,) = saving.save(db, index, [observations], None, index_ids=True)
        has_removed = result.removed > 0
    if not complete:
        version = -version
    db.run(f"update document set observed = ? where {db.own()} and key = ?", (version, key))
    return has_removed


def reset(db: Database, incomplete_only: bool) -> None:
    """See Store.reset_observations."""
    condition = "observed <> 0"
    if incomplete_only:
        condition = "observed < 0"
    db.run(
        f"update document set observed = 0 where {db.own()} and kind = ? and {condition}",
        (CONVERSATION,),
    )
