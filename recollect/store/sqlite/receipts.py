"""Receipts in SQLite: what every import did, and taking one back."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import apsw

from recollect.errors import InvalidInput, NotFound
from recollect.model import Counts, FileReceipt, Receipt
from recollect.store.sqlite import documents
from recollect.store.sqlite.connection import rows
from recollect.store.sqlite.text import Words
from recollect.text import from_micros, micros

_COLUMNS = "id, path, started_at, finished_at, undone_at, files, left_out"


def begin(db: apsw.Connection, path: str) -> Receipt:
    now = datetime.now(UTC)
    db.execute("insert into receipt (path, started_at) values (?, ?)", (path, micros(now)))
    return Receipt(db.last_insert_rowid(), path, now)


def finish(db: apsw.Connection, receipt: Receipt) -> None:
    db.execute(
        "update receipt set finished_at = ?, files = ?, left_out = ? where id = ?",
        (
            micros(receipt.finished_at),
            json.dumps([asdict(f) for f in receipt.files]),
            json.dumps(asdict(receipt.left_out)),
            receipt.id,
        ),
    )


def every(db: apsw.Connection) -> list[Receipt]:
    return [_receipt(row) for row in db.execute(f"select {_COLUMNS} from receipt order by id desc")]


def get(db: apsw.Connection, id: int) -> Receipt:
    row = db.execute(f"select {_COLUMNS} from receipt where id = ?", (id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no import receipt {id}. `recollect import --list` shows them.")
    return _receipt(row)


def _receipt(row: tuple[Any, ...]) -> Receipt:
    id_, path, started, finished, undone, files, left_out = row
    at = from_micros(started)
    assert at is not None
    read = [
        FileReceipt(f["name"], f["format"], Counts(**f["conversations"]), Counts(**f["messages"]), f["samples"])
        for f in json.loads(files or "[]")
    ]
    unread = Counts(**json.loads(left_out or "{}"))
    return Receipt(id_, path, at, from_micros(finished), from_micros(undone), read, unread)


# -- taking back -----------------------------------------------------------------


def undo(db: apsw.Connection, id: int, words: Words) -> Receipt:
    receipt = get(db, id)
    if receipt.undone_at is not None:
        raise InvalidInput(f"Import {id} was taken back on {receipt.undone_at:%Y-%m-%d %H:%M} UTC.")
    contained = rows(db, "select document, runs, before from receipt_document where receipt = ?", (id,))
    for document, _, before in contained:
        _restore_passages(db, id, document, words)
        _restore_document(db, id, document, before, words)
    brought = {document: _brought(db, id, document) for document, _, _ in contained}
    db.execute("delete from receipt_document where receipt = ?", (id,))
    _remove(db, brought, words)
    receipt.undone_at = datetime.now(UTC)
    db.execute("update receipt set undone_at = ? where id = ?", (micros(receipt.undone_at), id))
    return receipt


def _restore_passages(db: apsw.Connection, id: int, document: int, words: Words) -> None:
    revisions = rows(
        db,
        "select r.passage, r.before from receipt_revision r join passage p on p.key = r.passage "
        "where r.receipt = ? and p.document = ?",
        (id, document),
    )
    for passage, before in revisions:
        later = db.execute(
            "select receipt from receipt_revision where passage = ? and receipt > ? order by receipt limit 1",
            (passage, id),
        ).get
        if later is not None:  # the import after it is now the one that changed this
            db.execute("update receipt_revision set before = ? where passage = ? and receipt = ?",
                       (before, passage, later))  # fmt: skip
        else:
            digest, *rest = json.loads(before)
            documents.replace_passage(db, passage, (bytes.fromhex(digest), *rest), words)
        db.execute("delete from receipt_revision where receipt = ? and passage = ?", (id, passage))


def _restore_document(db: apsw.Connection, id: int, document: int, before: str | None, words: Words) -> None:
    if before is None:
        return
    later = db.execute(
        "select receipt from receipt_document where document = ? and receipt > ? and before is not null "
        "order by receipt limit 1", (document, id),
    ).get  # fmt: skip
    if later is not None:
        db.execute("update receipt_document set before = ? where document = ? and receipt = ?",
                   (before, document, later))  # fmt: skip
    else:
        documents.restore(db, document, json.loads(before), words)


def _brought(db: apsw.Connection, id: int, document: int) -> list[int]:
    """The passages that only this import contained; the others now belong to the next import that has them."""
    brought = {k for (k,) in db.execute("select key from passage where document = ? and receipt = ?", (document, id))}
    others = rows(
        db,
        "select receipt, runs from receipt_document where document = ? and receipt <> ? order by receipt",
        (document, id),
    )
    for other, runs in others:
        kept = brought & documents.load_runs(runs)
        db.executemany("update passage set receipt = ? where key = ?", ((other, key) for key in kept))
        brought -= kept
    return sorted(brought)


def _remove(db: apsw.Connection, brought: dict[int, list[int]], words: Words) -> None:
    documents.remove_passages(db, brought, words)
    for document, passages in brought.items():
        left, imports = db.execute(
            "select passages, (select count(*) from receipt_document where document = key) from document where key = ?",
            (document,),
        ).fetchone() or (0, 0)
        if not left and not imports:
            db.execute("delete from document where key = ?", (document,))
        elif passages:
            documents.replace_order(db, document, words)
