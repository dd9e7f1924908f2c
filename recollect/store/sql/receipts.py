"""Receipts: record what each import did, and undo imports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.text import from_micros, micros, storable, truncate
from recollect.model.receipts import Counts, FileReceipt, Receipt
from recollect.store.sql import changes, passages, receipt_names, receipt_states, rewriting
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import document_row
from recollect.store.sql.lookup import read_header

_COLUMNS = "id, path, started_at, finished_at, undone_at, files, left_out, job"


def start_import(db: Database, path: str, job: str = "") -> Receipt:
    if job:
        rows = db.rows(f"select {_COLUMNS} from receipt where {db.own()} and job = ?", (job,))
        if rows:
            return decode(rows[0])
    now = datetime.now(UTC)
    id_: int = db.get(f"select coalesce(max(id), 0) + 1 from {db.own_rows('receipt')}")
    columns = ("id", "path", "started_at", "job")
    db.insert("receipt", columns, [(id_, storable(path), micros(now), job or None)])
    return Receipt(id_, path, now, job=job)


def update_receipt(db: Database, receipt: Receipt) -> None:
    db.run(
        # An import that was undone no longer has names in its receipt.
        "update receipt set finished_at = ?, files = ?, left_out = ? "
        f"where {db.own()} and id = ? and undone_at is null",
        (
            micros(receipt.finished_at),
            encode_files(receipt),
            json.dumps(asdict(receipt.left_out)),
            receipt.id,
        ),
    )


def encode_files(receipt: Receipt) -> str:
    return json.dumps([asdict(file) for file in receipt.files])


def all_receipts(db: Database) -> list[Receipt]:
    rows = db.rows(f"select {_COLUMNS} from {db.own_rows('receipt')} order by id desc")
    return [decode(row) for row in rows]


def read_receipt(db: Database, id: int) -> Receipt:
    rows = db.rows(f"select {_COLUMNS} from receipt where {db.own()} and id = ?", (id,))
    if not rows:
        raise NotFound(f"There is no import receipt {id}. `recollect import --list` shows them.")
    return decode(rows[0])


def decode(row: tuple[Any, ...]) -> Receipt:
    id_, path, started, finished, undone, files, left_out, job = row
    started_at = from_micros(started)
    assert started_at is not None
    return Receipt(
        id_,
        path,
        started_at,
        from_micros(finished),
        from_micros(undone),
        [decode_file(file) for file in json.loads(files or "[]")],
        Counts(**json.loads(left_out or "{}")),
        job or "",
    )


def decode_file(file: Mapping[str, Any]) -> FileReceipt:
    return FileReceipt(
        file["name"],
        file["format"],
        Counts(**file["conversations"]),
        Counts(**file["messages"]),
        file["samples"],
        file.get("redacted", {}),
        file.get("kinds", {}),
    )


# -- undo ---


def undo_import(db: Database, id: int, index: TextIndex) -> Receipt:
    """See Store.undo_import."""
    receipt = read_receipt(db, id)
    if receipt.undone_at is not None:
        raise InvalidInput(f"Import {id} was undone on {receipt.undone_at:%Y-%m-%d %H:%M} UTC.")
    require_no_later_import(db, id)
    rows = db.rows(
        "select r.document, d.kind, r.before from receipt_document r "
        f"join document d on d.key = r.document where {db.own('r', 'd')} and r.receipt = ? "
        "order by r.document",
        (id,),
    )
    db.run(f"delete from receipt_document where {db.own()} and receipt = ?", (id,))
    for document, kind, before in rows:
        if rewriting.is_rewritable(kind):
            undo_rewrite(db, document, before, index)
        else:
            undo_merge(db, id, document, before, index)
    receipt = read_receipt(db, id)  # names of deleted documents have been removed from it
    receipt.undone_at = datetime.now(UTC)
    for file in receipt.files:
        file.samples = {}  # they may be titles of conversations that are gone
    db.run(
        f"update receipt set undone_at = ?, files = ? where {db.own()} and id = ?",
        (micros(receipt.undone_at), encode_files(receipt), id),
    )
    return receipt


def require_no_later_import(db: Database, id: int) -> None:
    """Raise Conflict if a later import contains documents of this one."""
    later: int | None = db.get(
        "select max(l.receipt) from receipt_document r "
        "join receipt_document l on l.document = r.document and l.receipt > r.receipt "
        f"where {db.own('r', 'l')} and r.receipt = ?",
        (id,),
    )
    if later is not None:
        path = truncate(read_receipt(db, later).path, 80)
        raise Conflict(
            f"Import {later} ({path}) contains conversations or items of import {id} as well. "
            f"Undo import {later} first."
        )


def undo_rewrite(db: Database, document: int, before: str | None, index: TextIndex) -> None:
    """Restore a whole document, unless the import or a person has left nothing to restore."""
    if before == receipt_states.NEW:
        changes.delete(db, document, index)
    elif before is not None:
        state = json.loads(before)
        receipt_states.restore_passages(db, index, document, state)
        restore_fields(db, document, state, index)
        passages.increment_version(db, document)


def undo_merge(db: Database, id: int, document: int, before: str | None, index: TextIndex) -> None:
    """Remove the messages that an import added, and restore what it replaced."""
    is_restored = restore_passages(db, id, document, index)
    if before is not None:
        restore_fields(db, document, json.loads(before), index)
    rows = db.rows(
        f"select key from passage where {db.own()} and document = ? and receipt = ?",
        (document, id),
    )
    added_keys = sorted(key for (key,) in rows)
    passages.delete_passages(db, {document: added_keys}, index)
    if added_keys:
        changes.delete_observations(db, document, index)
    ((remaining, imports),) = db.rows(
        "select d.passages, (select count(*) from receipt_document r "
        f"where {db.own('r')} and r.document = d.key) "
        f"from document d where {db.own('d')} and d.key = ?",
        (document,),
    )
    if not remaining and not imports:
        receipt_names.forget_document(db, document)
        db.run(f"delete from document where {db.own()} and key = ?", (document,))
        return
    if added_keys:
        passages.reorder(db, document, index)
    if added_keys or is_restored or before is not None:
        passages.increment_version(db, document)


def restore_fields(db: Database, document: int, state: Mapping[str, Any], index: TextIndex) -> None:
    """Restore the fields that an import changed."""
    restored = receipt_states.restore_fields(read_header(db, document), state)
    passages.update_document(db, document, document_row(restored), index)


def restore_passages(db: Database, id: int, document: int, index: TextIndex) -> bool:
    """Restore the earlier texts of passages. True if any was restored."""
    revisions = db.rows(
        "select r.passage, r.before from receipt_revision r join passage p on p.key = r.passage "
        f"where {db.own('r', 'p')} and r.receipt = ? and p.document = ?",
        (id, document),
    )
    for passage, before in revisions:
        digest, position, canonical, *rest = json.loads(before)
        # SQLite stored the flag as a number.
        row = (bytes.fromhex(digest), position, bool(canonical), *rest)
        passages.replace_passage(db, passage, row, index)
    db.run_many(
        f"delete from receipt_revision where {db.own()} and receipt = ? and passage = ?",
        [(id, passage) for passage, _ in revisions],
    )
    return bool(revisions)
