"""Receipts: what every import did, and taking one back."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from recollect.errors import InvalidInput, NotFound
from recollect.language.text import from_micros, micros, storable
from recollect.model.receipts import Counts, FileReceipt, Receipt
from recollect.store.sql import documents, passages, rewriting
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import current_row

_COLUMNS = "id, path, started_at, finished_at, undone_at, files, left_out"


def start_import(db: Database, path: str) -> Receipt:
    now = datetime.now(UTC)
    id_ = db.get(
        "insert into receipt (id, path, started_at) "
        "select coalesce(max(r.id), 0) + 1, ?, ? from receipt r returning id",
        (storable(path), micros(now)),
    )
    return Receipt(id_, path, now)


def finish_import(db: Database, receipt: Receipt) -> None:
    db.run(
        "update receipt set finished_at = ?, files = ?, left_out = ? where id = ?",
        (
            micros(receipt.finished_at),
            json.dumps([asdict(f) for f in receipt.files]),
            json.dumps(asdict(receipt.left_out)),
            receipt.id,
        ),
    )


def all_receipts(db: Database) -> list[Receipt]:
    return [_receipt(row) for row in db.rows(f"select {_COLUMNS} from receipt order by id desc")]


def get(db: Database, id: int) -> Receipt:
    found = db.rows(f"select {_COLUMNS} from receipt where id = ?", (id,))
    if not found:
        raise NotFound(f"There is no import receipt {id}. `recollect import --list` shows them.")
    return _receipt(found[0])


def _receipt(row: tuple[Any, ...]) -> Receipt:
    id_, path, started, finished, undone, files, left_out = row
    at = from_micros(started)
    assert at is not None
    read = [
        FileReceipt(
            f["name"],
            f["format"],
            Counts(**f["conversations"]),
            Counts(**f["messages"]),
            f["samples"],
            f.get("redacted", {}),
        )
        for f in json.loads(files or "[]")
    ]
    unread = Counts(**json.loads(left_out or "{}"))
    return Receipt(id_, path, at, from_micros(finished), from_micros(undone), read, unread)


# -- taking back -----------------------------------------------------------------


def undo_import(db: Database, id: int, index: TextIndex) -> Receipt:
    receipt = get(db, id)
    if receipt.undone_at is not None:
        raise InvalidInput(f"Import {id} was taken back on {receipt.undone_at:%Y-%m-%d %H:%M} UTC.")
    contained = db.rows(
        "select document, runs, before from receipt_document where receipt = ?", (id,)
    )
    rewritten = _rewritten(db, id)
    changed = set()
    for document, _, before in contained:
        if document in rewritten:
            _put_back(db, id, document, before, index)
        elif _restore_passages(db, id, document, index) | _restore_document(
            db, id, document, before, index
        ):
            changed.add(document)
    brought = {
        document: _brought(db, id, document)
        for document, _, _ in contained
        if document not in rewritten
    }
    db.run("delete from receipt_document where receipt = ?", (id,))
    _remove(db, brought, index)
    for document in sorted(changed.union(document for document, some in brought.items() if some)):
        passages.count_up(db, document)
    receipt.undone_at = datetime.now(UTC)
    db.run("update receipt set undone_at = ? where id = ?", (micros(receipt.undone_at), id))
    return receipt


def _rewritten(db: Database, id: int) -> set[int]:
    """Those documents of an import whose states are kept whole. What older versions imported is taken back
    as they would have."""
    rows = db.rows(
        "select r.document, d.kind, r.before from receipt_document r join document d on d.key = r.document "
        "where r.receipt = ?",
        (id,),
    )
    return {
        document
        for document, kind, before in rows
        if rewriting.is_rewritten(kind)
        and (before is None or rewriting.is_kept(json.loads(before)))
    }


def _put_back(db: Database, id: int, document: int, before: str | None, index: TextIndex) -> None:
    """Let a document be what it was before an import, unless a later one had it too: then what was before
    this one is what was before that one."""
    if before is None and db.get(
        "select 1 from passage where document = ? and receipt = ? limit 1", (document, id)
    ):
        before = rewriting.NEW  # so an older version left it
    if before is None:
        return
    heir = db.get(
        "select min(receipt) from receipt_document where document = ? and receipt > ?",
        (document, id),
    )
    if heir is not None:
        db.run(
            "update receipt_document set before = ? where document = ? and receipt = ?",
            (before, document, heir),
        )
    elif before == rewriting.NEW:
        documents.delete(db, document, index)
    else:
        rewriting.restore(db, index, document, json.loads(before))


def _restore_passages(db: Database, id: int, document: int, index: TextIndex) -> bool:
    """Give passages back what they said before, unless a later import said the same or something
    else again: then the change is that import's, together with what was before. True where any did."""
    revisions = db.rows(
        "select r.passage, r.before from receipt_revision r join passage p on p.key = r.passage "
        "where r.receipt = ? and p.document = ?",
        (id, document),
    )
    later = _others(db, id, document) if revisions else []
    restored = False
    for passage, before in revisions:
        heir = next((other for other, keys in later if other > id and passage in keys), None)
        if heir is None:
            digest, position, canonical, *rest = json.loads(before)
            row = (bytes.fromhex(digest), position, bool(canonical), *rest)  # SQLite wrote a number
            passages.replace_passage(db, passage, row, index)
            restored = True
        else:
            db.run(
                "delete from receipt_revision where receipt = ? and passage = ?", (heir, passage)
            )
            db.insert(
                "receipt_revision", ("receipt", "passage", "before"), [(heir, passage, before)]
            )
        db.run("delete from receipt_revision where receipt = ? and passage = ?", (id, passage))
    return restored


def _restore_document(
    db: Database, id: int, document: int, before: str | None, index: TextIndex
) -> bool:
    if before is None:
        return False
    heir = db.get(
        "select min(receipt) from receipt_document where document = ? and receipt > ?",
        (document, id),
    )
    if heir is None:
        passages.change_document(db, document, current_row(json.loads(before)), index)
    else:
        db.run(
            "update receipt_document set before = ? where document = ? and receipt = ?",
            (before, document, heir),
        )
    return heir is None


def _brought(db: Database, id: int, document: int) -> list[int]:
    """The passages that only this import contained. The others now belong to the next import that
    has them, which so brought them as it has them: what they said before is no matter any more."""
    brought = {
        k
        for (k,) in db.rows(
            "select key from passage where document = ? and receipt = ?", (document, id)
        )
    }
    for other, keys in _others(db, id, document):
        kept = brought & keys
        db.run_many("update passage set receipt = ? where key = ?", ((other, key) for key in kept))
        db.run_many(
            "delete from receipt_revision where receipt = ? and passage = ?",
            ((other, key) for key in kept),
        )
        brought -= kept
    return sorted(brought)


def _others(db: Database, id: int, document: int) -> list[tuple[int, set[int]]]:
    """The other imports that contained a document, oldest first, with the keys of what they contained."""
    others = db.rows(
        "select receipt, runs from receipt_document where document = ? and receipt <> ? order by receipt",
        (document, id),
    )
    return [(receipt, documents.load_runs(runs)) for receipt, runs in others]


def _remove(db: Database, brought: dict[int, list[int]], index: TextIndex) -> None:
    passages.remove_passages(db, brought, index)
    for document, some in brought.items():
        ((left, imports),) = db.rows(
            "select d.passages, (select count(*) from receipt_document r where r.document = d.key) "
            "from document d where d.key = ?",
            (document,),
        )
        if some:
            documents.forget_observations(db, document, index)
        if not left and not imports:
            db.run("delete from document where key = ?", (document,))
        elif some:
            passages.replace_order(db, document, index)
