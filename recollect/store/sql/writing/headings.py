"""Index the keywords of items that were stored before keywords were indexed.

See `encoding.heading`. The column of such an item is null: only its title is in the index.
"""

from __future__ import annotations

from recollect.model.kinds import MEDIA, NOTE
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import heading
from recollect.store.sql.writing import passages

_DOCUMENTS_PER_BATCH = 100


def _pending(db: Database) -> str:
    return (
        f"from document d where {db.own('d')} "
        f"and d.heading is null and d.kind in ('{NOTE}', '{MEDIA}')"
    )


def is_complete(db: Database) -> bool:
    """Whether the keywords of all items are indexed."""
    return not db.get(f"select exists (select 1 {_pending(db)})")


def index_batch(db: Database, index: TextIndex) -> int:
    """Index the keywords of some items that have none in the index. Returns their number."""
    rows = db.rows(
        f"select d.key, d.kind, d.title, d.metadata, d.opening {_pending(db)} "
        "order by d.key limit ?",
        (_DOCUMENTS_PER_BATCH,),
    )
    for key, kind, title, metadata, opening in rows:
        text = heading({"kind": kind, "title": title, "metadata": metadata})
        openings = []
        if opening is not None and text != title:
            openings = [opening]
        before = list(passages.index_rows(db, openings))
        db.run(f"update document set heading = ? where {db.own()} and key = ?", (text, key))
        if before:
            index.replace(before, list(passages.index_rows(db, openings)))
            db.mark_outdated(openings)
    return len(rows)
