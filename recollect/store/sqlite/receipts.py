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
    """Give passages back what they said before, unless a later import said the same or something
    else again: then the change is that import's, together with what was before."""
    revisions = rows(
        db,
        "select r.passage, r.before from receipt_revision r join passage p on p.key = r.passage "
        "where r.receipt = ? and p.document = ?",
        (id, document),
    )
    later = _others(db, id, document) if revisions else []
    for passage, before in revisions:
        heir = next((other for other, keys in later if other > id and passage in keys), None)
        if heir is None:
            digest, *rest = json.loads(before)
            documents.replace_passage(db, passage, (bytes.fromhex(digest), *rest), words)
        else:
            db.execute("insert or replace into receipt_revision values (?, ?, ?)", (heir, passage, before))
        db.execute("delete from receipt_revision where receipt = ? and passage = ?", (id, passage))


def _restore_document(db: apsw.Connection, id: int, document: int, before: str | None, words: Words) -> None:
    if before is None:
        return
    heir = db.execute(
        "select min(receipt) from receipt_document where document = ? and receipt > ?", (document, id)
    ).get
    if heir is None:
        documents.restore(db, document, json.loads(before), words)
    else:
        db.execute(
            "update receipt_document set before = ? where document = ? and receipt = ?", (before, document, heir)
        )


def _brought(db: apsw.Connection, id: int, document: int) -> list[int]:
    """The passages that only this import contained. The others now belong to the next import that
    has them, which so brought them as it has them: what they said before is no matter any more."""
    brought = {k for (k,) in db.execute("select key from passage where document = ? and receipt = ?", (document, id))}
    for other, keys in _others(db, id, document):
        kept = brought & keys
        db.executemany("update passage set receipt = ? where key = ?", ((other, key) for key in kept))
        db.executemany("delete from receipt_revision where receipt = ? and passage = ?", ((other, key) for key in kept))
        brought -= kept
    return sorted(brought)


def _others(db: apsw.Connection, id: int, document: int) -> list[tuple[int, set[int]]]:
    """The other imports that contained a document, oldest first, with the keys of what they contained."""
    others = rows(
        db,
        "select receipt, runs from receipt_document where document = ? and receipt <> ? order by receipt",
        (document, id),
    )
    return [(receipt, documents.load_runs(runs)) for receipt, runs in others]


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
