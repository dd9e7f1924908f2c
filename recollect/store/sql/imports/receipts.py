"""Receipts: record what each import did, and undo imports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from recollect.errors import InvalidInput, NotFound
from recollect.language.text import from_micros, micros, storable
from recollect.model.receipts import Counts, FileReceipt, Receipt
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import document_row, load_keys
from recollect.store.sql.imports import receipt_names
from recollect.store.sql.imports.older_versions import OlderVersions
from recollect.store.sql.reading.lookup import read_header
from recollect.store.sql.writing import (
    changes,
    field_changes,
    passages,
    rewriting,
    unused_versions,
)

_COLUMNS = "id, path, started_at, finished_at, undone_at, files, left_out, job"


def start_import(db: Database, path: str, job: str = "") -> Receipt:
    if job:
        rows = db.rows(f"select {_COLUMNS} from receipt where {db.own()} and job = ?", (job,))
        if rows:
            return _decode(rows[0])
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
            _encode_files(receipt),
            json.dumps(asdict(receipt.left_out)),
            receipt.id,
        ),
    )


def _encode_files(receipt: Receipt) -> str:
    return json.dumps([asdict(file) for file in receipt.files])


def all_receipts(db: Database) -> list[Receipt]:
    rows = db.rows(f"select {_COLUMNS} from {db.own_rows('receipt')} order by id desc")
    return [_decode(row) for row in rows]


def _read_receipt(db: Database, id: int) -> Receipt:
    rows = db.rows(f"select {_COLUMNS} from receipt where {db.own()} and id = ?", (id,))
    if not rows:
        raise NotFound(f"There is no import receipt {id}. `recollect import --list` shows them.")
    return _decode(rows[0])


def _decode(row: tuple[Any, ...]) -> Receipt:
    id_, path, started, finished, undone, files, left_out, job = row
    started_at = from_micros(started)
    assert started_at is not None
    return Receipt(
        id_,
        path,
        started_at,
        from_micros(finished),
        from_micros(undone),
        [_decode_file(file) for file in json.loads(files or "[]")],
        Counts(**json.loads(left_out or "{}")),
        job or "",
    )


def _decode_file(file: Mapping[str, Any]) -> FileReceipt:
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
    receipt = _read_receipt(db, id)
    if receipt.undone_at is not None:
        raise InvalidInput(f"Import {id} was undone on {receipt.undone_at:%Y-%m-%d %H:%M} UTC.")
    states = _states_before(db, id)
    older_versions = OlderVersions(db, receipt, states)
    rewritten_documents = _rewritten_documents(db, id)
    changed_documents = set()
    for document, before in states.items():
        if document in rewritten_documents:
            _undo_rewrite(db, receipt, document, before, index)
            continue
        has_passages = _restore_passages(db, id, document, index)
        has_fields = _restore_document(db, receipt, document, before, index)
        if has_passages or has_fields:
            changed_documents.add(document)
    added_passages = {
        document: _passages_to_remove(db, id, document)
        for document in states
        if document not in rewritten_documents
    }
    db.run(f"delete from receipt_document where {db.own()} and receipt = ?", (id,))
    _remove(db, added_passages, index)
    changed_documents.update(document for document, keys in added_passages.items() if keys)
    for document in sorted(changed_documents):
        passages.increment_version(db, document)
    older_versions.save(index)
    receipt = _read_receipt(db, id)  # names of deleted documents have been removed from it
    receipt.undone_at = datetime.now(UTC)
    for file in receipt.files:
        file.samples = {}  # they may be titles of conversations that are gone
    db.run(
        f"update receipt set undone_at = ?, files = ? where {db.own()} and id = ?",
        (micros(receipt.undone_at), _encode_files(receipt), id),
    )
    return receipt


def _states_before(db: Database, id: int) -> dict[int, str | None]:
    """The documents of an import, with their states before it changed them."""
    rows = db.rows(
        f"select document, before from receipt_document where {db.own()} and receipt = ?", (id,)
    )
    return {
        document: None if unused_versions.is_unused(before) else before for document, before in rows
    }


def _rewritten_documents(db: Database, id: int) -> set[int]:
    """The documents of an import whose earlier states are stored as a whole.

    What older versions imported has no such states, and is undone as they would have done it.
    """
    rows = db.rows(
        "select r.document, d.kind, r.before from receipt_document r "
        f"join document d on d.key = r.document where {db.own('r', 'd')} and r.receipt = ?",
        (id,),
    )
    documents = set()
    for document, kind, before in rows:
        if not rewriting.is_rewritable(kind):
            continue
        has_no_state = before is None or unused_versions.is_unused(before)
        if has_no_state or rewriting.is_whole_state(json.loads(before)):
            documents.add(document)
    return documents


def _undo_rewrite(
    db: Database, receipt: Receipt, document: int, before: str | None, index: TextIndex
) -> None:
    """Restore a whole document, unless a later import contains it as well.

    Then the state before this import becomes the state before the later one.
    """
    if before is None:
        was_added = db.get(
            f"select 1 from passage where {db.own()} and document = ? and receipt = ? limit 1",
            (document, receipt.id),
        )
        if not was_added:
            return
        before = rewriting.NEW  # older versions did not store it
    later = _next_import(db, receipt.id, document)
    if later is not None:
        _hand_over_state(db, document, later, before)
    elif before == rewriting.NEW:
        changes.delete(db, document, index)
    else:
        state = json.loads(before)
        rewriting.restore_passages(db, index, document, state)
        _restore_fields(db, receipt, document, state, index)
        passages.increment_version(db, document)


def _restore_document(
    db: Database, receipt: Receipt, document: int, before: str | None, index: TextIndex
) -> bool:
    """Restore title, dates and metadata of a conversation. True if it was restored."""
    if before is None:
        return False
    later = _next_import(db, receipt.id, document)
    if later is not None:
        _hand_over_state(db, document, later, before)
        return False
    _restore_fields(db, receipt, document, json.loads(before), index)
    return True


def _restore_fields(
    db: Database, receipt: Receipt, document: int, state: Mapping[str, Any], index: TextIndex
) -> None:
    """Restore the fields that an import changed, except those that were changed again since."""
    stored = read_header(db, document)
    before, marks = field_changes.load_fields(state)
    if marks is None:
        marks = {}
        if stored.updated_at is None or stored.updated_at <= receipt.started_at:
            marks = field_changes.field_marks(before, stored)
    restored = field_changes.restore_fields(stored, before, marks)
    passages.update_document(db, document, document_row(restored), index)


def _next_import(db: Database, id: int, document: int) -> int | None:
    """The next import after this one that contains the document as it is now."""
    receipt: int | None = db.get(
        f"select min(receipt) from receipt_document "
        f"where {db.own()} and document = ? and receipt > ? and {unused_versions.IS_USED}",
        (document, id),
    )
    return receipt


def _hand_over_state(db: Database, document: int, receipt: int, before: str) -> None:
    """Make an earlier state of a document the one that another import restores."""
    later = db.get(
        f"select before from receipt_document where {db.own()} and document = ? and receipt = ?",
        (document, receipt),
    )
    before = field_changes.hand_over(before, later)
    db.run(
        f"update receipt_document set before = ? where {db.own()} and document = ? and receipt = ?",
        (before, document, receipt),
    )


def _restore_passages(db: Database, id: int, document: int, index: TextIndex) -> bool:
    """Restore the earlier texts of passages. True if any was restored.

    If a later import contains the passage as well, the change now belongs to that import, together
    with the earlier text.
    """
    revisions = db.rows(
        "select r.passage, r.before from receipt_revision r join passage p on p.key = r.passage "
        f"where {db.own('r', 'p')} and r.receipt = ? and p.document = ?",
        (id, document),
    )
    if not revisions:
        return False
    later_imports = [
        (other, keys) for other, keys in _other_imports(db, id, document) if other > id
    ]
    is_restored = False
    for passage, before in revisions:
        later = next((other for other, keys in later_imports if passage in keys), None)
        if later is None:
            digest, position, canonical, *rest = json.loads(before)
            # SQLite stored the flag as a number.
            row = (bytes.fromhex(digest), position, bool(canonical), *rest)
            passages.replace_passage(db, passage, row, index)
            is_restored = True
        else:
            _delete_revisions(db, later, [passage])
            db.insert(
                "receipt_revision", ("receipt", "passage", "before"), [(later, passage, before)]
            )
        _delete_revisions(db, id, [passage])
    return is_restored


def _delete_revisions(db: Database, receipt: int, keys: Sequence[int]) -> None:
    db.run_many(
        f"delete from receipt_revision where {db.own()} and receipt = ? and passage = ?",
        [(receipt, key) for key in keys],
    )


def _passages_to_remove(db: Database, id: int, document: int) -> list[int]:
    """The passages that only this import contained.

    The others now belong to the next import that contains them. To that import they are new, so
    what they said before it no longer matters.
    """
    rows = db.rows(
        f"select key from passage where {db.own()} and document = ? and receipt = ?", (document, id)
    )
    added_keys = {key for (key,) in rows}
    for other, keys in _other_imports(db, id, document):
        shared_keys = sorted(added_keys & keys)
        db.run_many(
            f"update passage set receipt = ? where {db.own()} and key = ?",
            [(other, key) for key in shared_keys],
        )
        _delete_revisions(db, other, shared_keys)
        added_keys.difference_update(shared_keys)
    return sorted(added_keys)


def _other_imports(db: Database, id: int, document: int) -> list[tuple[int, set[int]]]:
    """The other imports that contained a document, oldest first, with the keys of its passages."""
    rows = db.rows(
        f"select receipt, runs from receipt_document "
        f"where {db.own()} and document = ? and receipt <> ? "
        "order by receipt",
        (document, id),
    )
    return [(receipt, load_keys(keys)) for receipt, keys in rows]


def _remove(db: Database, added_passages: dict[int, list[int]], index: TextIndex) -> None:
    """Delete passages, and documents that are then empty and in no other import."""
    passages.delete_passages(db, added_passages, index)
    for document, keys in added_passages.items():
        ((remaining, imports),) = db.rows(
            "select d.passages, (select count(*) from receipt_document r "
            f"where {db.own('r')} and r.document = d.key and {unused_versions.IS_USED}) "
            f"from document d where {db.own('d')} and d.key = ?",
            (document,),
        )
        if keys:
            changes.delete_observations(db, document, index)
        if not remaining and not imports:
            receipt_names.forget_document(db, document)
            db.run(f"delete from document where {db.own()} and key = ?", (document,))
        elif keys:
            passages.reorder(db, document, index)
