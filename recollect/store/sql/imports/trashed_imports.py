"""The imports of a document in the trash.

Undoing its deletion puts the document back into them, so that undoing such an import removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.language.text import identifier
from recollect.store.sql.database import Database


def read_imports(db: Database, document: int) -> dict[str, Any]:
    """What the receipts of imports have about a document that is about to be deleted.

    Passages are named by their ids: a document that is restored gets new keys.
    """
    passages = db.rows(
        f"select id, receipt from passage where {db.own()} and document = ? "
        "and receipt is not null",
        (document,),
    )
    revisions = db.rows(
        "select r.receipt, p.id, r.before from receipt_revision r "
        f"join passage p on p.key = r.passage where {db.own('r', 'p')} and p.document = ?",
        (document,),
    )
    receipts = db.rows(
        f"select receipt, before from receipt_document where {db.own()} and document = ?",
        (document,),
    )
    return {"receipts": receipts, "revisions": revisions, "passages": passages}


def restore_imports(db: Database, source: str, source_id: str, imports: Mapping[str, Any]) -> None:
    """Put a document that was restored back into its imports, except those undone meanwhile."""
    document = db.get(
        f"select key from document where {db.own()} and source = ? and source_id = ?",
        (identifier(source), identifier(source_id)),
    )
    if document is None:
        return
    rows = db.rows(f"select id, key from passage where {db.own()} and document = ?", (document,))
    keys: dict[str, int] = dict(rows)
    rows = db.rows(f"select id from receipt where {db.own()} and undone_at is null")
    active = {id_ for (id_,) in rows}
    db.insert(
        "receipt_document",
        ("receipt", "document", "before"),
        [(id_, document, before) for id_, before in imports["receipts"] if id_ in active],
        keep_existing=True,
    )
    # A passage belongs to the first import that contains it.
    db.run_many(
        f"update passage set receipt = ? where {db.own()} and key = ? "
        "and (receipt is null or receipt > ?)",
        [
            (id_, keys[name], id_)
            for name, id_ in imports["passages"]
            if id_ in active and name in keys
        ],
    )
    db.insert(
        "receipt_revision",
        ("receipt", "passage", "before"),
        [
            (id_, keys[name], before)
            for id_, name, before in imports["revisions"]
            if id_ in active and name in keys
        ],
        keep_existing=True,
    )
