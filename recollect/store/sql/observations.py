"""What was observed in conversations: for each conversation a document of its own, which goes with it.

A conversation says of which version of it the observations are, so that those
that have changed since are found without looking at the others.
"""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.model.documents import Document
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import documents
from recollect.store.sql.database import Database, TextIndex


def unobserved(db: Database, limit: int) -> tuple[list[tuple[str, int]], int]:
    """See Store.unobserved."""
    where = "from document d where d.kind = 'conversation' and d.observed <> d.version and d.observed <> -d.version"
    rows = db.rows(f"select d.id, d.version {where} order by d.key limit ?", (limit,))
    total: int = db.get(f"select count(*) {where}") if rows else 0
    return [(id_, version) for id_, version in rows], total


def save(
    db: Database,
    index: TextIndex,
    conversation: str,
    version: int,
    given: Document | None,
    complete: bool,
) -> None:
    """See Store.save_observations."""
    try:
        key = documents.key_of(db, conversation)
    except NotFound:  # it was deleted meanwhile
        return
    if given is None:
        documents.forget_observations(db, key, index)
    else:
        documents.save(db, index, [given], None, index_ids=True)
    db.run(
        "update document set observed = ? where key = ?", (version if complete else -version, key)
    )


def reset(db: Database, incomplete: bool) -> None:
    """See Store.reset_observations."""
    which = "observed < 0" if incomplete else "observed <> 0"
    db.run(f"update document set observed = 0 where kind = ? and {which}", (CONVERSATION,))
