"""The imports of a document in the trash.

Undoing its deletion puts the document back into them, so that undoing such an import removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.language.text import identifier
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import dump_keys, load_keys


def read_imports(db: Database, document: int) -> dict[str, Any]:
    """What the receipts of imports have about a document that is about to be deleted.

    Passages are named by their ids: a document that is restored gets new keys.
    """
    rows = db.rows(
        f"select key, id, receipt from passage where {db.own()} and document = ?", (document,)
    )
    ids = {key: id_ for key, id_, _ in rows}
    revisions = db.rows(
        "select r.receipt, r.passage, r.before from receipt_revision r "
        f"join passage p on p.key = r.passage where {db.own('r', 'p')} and p.document = ?",
        (document,),
    )
    receipts = db.rows(
        "select receipt, runs, before from receipt_document "
        f"where {db.own()} and document = ? order by receipt",
        (document,),
    )
    return {
        "receipts": [
            [receipt, sorted(ids[key] for key in load_keys(keys) if key in ids), before]
            for receipt, keys, before in receipts
        ],
        "revisions": [[receipt, ids[key], before] for receipt, key, before in revisions],
        "not_imported": [id_ for _, id_, receipt in rows if receipt is None],
    }


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
    imported_ids = keys.keys() - set(imports["not_imported"])
    for receipt, ids, before in imports["receipts"]:
        if receipt not in active:
            continue
        db.insert(
            "receipt_document",
            ("receipt", "document", "runs", "before"),
            [(receipt, document, dump_keys({keys[id_] for id_ in ids if id_ in keys}), before)],
            keep_existing=True,
        )
        # A passage belongs to the first import that contains it.
        db.run_many(
            f"update passage set receipt = ? where {db.own()} and key = ? and receipt is null",
            [(receipt, keys[id_]) for id_ in ids if id_ in imported_ids],
        )
    db.insert(
        "receipt_revision",
        ("receipt", "passage", "before"),
        [
            (receipt, keys[id_], before)
            for receipt, id_, before in imports["revisions"]
            if receipt in active and id_ in keys
        ],
        keep_existing=True,
    )
