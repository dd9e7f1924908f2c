"""Receipts: what each import did, and what is needed to undo it.

`receipt_document` lists the documents that an import contains. Its `before` is null if the import
changed nothing but added messages, which name the receipt themselves; NEW if it created a document
that is rewritten as a whole; otherwise the state before: the fields of the document, and the
passages that the import replaced, which are all of them in a document that is rewritten.
A document of that kind no longer belongs to any import once a person has rewritten it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from recollect.errors import NotFound
from recollect.language.text import from_micros, micros, storable, truncate
from recollect.model.documents import Document
from recollect.model.fields import (
    EDITED_FIELDS,
    PERSONAL_METADATA,
    edited_fields,
    edited_metadata,
)
from recollect.model.receipts import Counts, FileReceipt, Receipt
from recollect.store.sql import passages as passage_sql
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import (
    PASSAGE_COLUMNS,
    decode_document,
    decode_passage,
    document_row,
)

State = dict[str, Any]

NEW = "null"
"""The state before an import created a document, as JSON."""
DELETED = "(deleted)"
_COLUMNS = "id, path, started_at, finished_at, undone_at, files, left_out, job"
_ID = PASSAGE_COLUMNS.index("id")
# Editing tags and pins moves the date of a document by a microsecond (see `undo.py`).
_SAME_DATE = 1_000_000
# Importers shorten titles to this length.
_SAMPLE_CHARACTERS = 80
# A shorter name could be a word of a reason.
_MIN_CHARACTERS_IN_REASON = 8


def start_import(db: Database, path: str, job: str = "") -> Receipt:
    """See Store.start_import."""
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
        [
            FileReceipt(
                file["name"],
                file["format"],
                Counts(**file["conversations"]),
                Counts(**file["messages"]),
                file["samples"],
                file.get("redacted", {}),
                file.get("kinds", {}),
            )
            for file in json.loads(files or "[]")
        ],
        Counts(**json.loads(left_out or "{}")),
        job or "",
    )


# -- the states before an import ---


def state_of(
    before: Document, rows: Iterable[Sequence[Any]], imported_at: datetime | None = None
) -> State:
    """A document before an import, with rows of its passages, and the date that it got then."""
    return {
        "document": document_row(before),
        "passages": [[digest.hex(), *columns] for digest, *columns in rows],
        "imported": micros(imported_at),
    }


def state_rows(state: State) -> list[tuple[Any, ...]]:
    return [  # SQLite stores the flag `canonical` as a number
        (bytes.fromhex(digest), position, bool(canonical), *columns)
        for digest, position, canonical, *columns in state["passages"]
    ]


def load_document(state: State) -> Document:
    """A whole document from a state."""
    return decode_document(
        state["document"] | {"version": 0}, tuple(map(decode_passage, state_rows(state)))
    )


def record(db: Database, receipt: int | None, document: int, before: State | None) -> None:
    """Record that an import contains a document, and the state before, if it changed it."""
    if receipt is None:
        return
    state = None if before is None else json.dumps(before)
    where = f"from receipt_document where {db.own()} and receipt = ? and document = ?"
    for (earlier,) in db.rows(f"select before {where}", (receipt, document)):
        state = earlier_state(earlier, before)
    db.run(f"delete {where}", (receipt, document))
    db.insert("receipt_document", ("receipt", "document", "before"), [(receipt, document, state)])


def earlier_state(state: str | None, later: State | None) -> str | None:
    """The state before an import that has changed the document twice."""
    if later is None or state == NEW:
        return state
    if state is None:
        return json.dumps(later)
    merged = json.loads(state)
    merged["imported"] = later["imported"]
    if not passage_sql.is_rewritable(merged["document"]["kind"]):
        ids = {row[_ID] for row in merged["passages"]}
        merged["passages"] += [row for row in later["passages"] if row[_ID] not in ids]
    return json.dumps(merged)


def restored_fields(stored: Document, state: State) -> Document:
    """The stored document with the fields before an import. What a person has set stays."""
    before = decode_document(state["document"] | {"version": 0})
    edited = edited_fields(stored.metadata)
    kept = {*PERSONAL_METADATA, EDITED_FIELDS, *edited_metadata(edited)}
    if "tags" not in edited:
        kept.discard("tags")
    metadata = {name: value for name, value in before.metadata.items() if name not in kept}
    metadata |= {name: stored.metadata[name] for name in kept if name in stored.metadata}
    restored = replace(
        stored,
        title=stored.title if "title" in edited else before.title,
        project=stored.project if "project" in edited else before.project,
        metadata=metadata,
        created_at=before.created_at,
        partial=before.partial,
        shared_ids=before.shared_ids,
    )
    date, imported = micros(stored.updated_at), state["imported"]
    if date == imported or (None not in (date, imported) and 0 <= date - imported < _SAME_DATE):
        return replace(restored, head=before.head, updated_at=before.updated_at)
    return restored  # it has grown since


def detach_from_imports(db: Database, key: int) -> None:
    """Delete everything that imports remember of a document that a person has changed."""
    db.run(f"update receipt_document set before = null where {db.own()} and document = ?", (key,))


def delete_document_states(db: Database, key: int) -> None:
    """Leave imports of a document nothing to restore, except that one of them created it."""
    db.run(
        "update receipt_document set before = null "
        f"where {db.own()} and document = ? and before <> ?",
        (key, NEW),
    )


def delete_undo_states(
    db: Database, is_unwanted: Callable[[str], bool], dry_run: bool = False
) -> int:
    """See Store.delete_undo_states."""
    states = db.rows(
        f"select document, before from receipt_document where {db.own()} and before <> ?", (NEW,)
    )
    documents = [document for document, before in states if is_unwanted(before)]
    if not dry_run:
        for document in sorted(set(documents)):
            delete_document_states(db, document)
    return len(documents)


# -- the names of deleted documents ---
# A receipt lists the places of a few problems, and a place may be the title of a conversation. It
# also has the names of the files that were imported, and a note is often named after its title.


def forget_document(db: Database, document: int) -> None:
    """Remove the title and the source id of a document from all receipts. Call it before deletion.

    The titles that imports replaced are in the receipts as well, as states to restore.
    """
    rows = db.rows(
        f"select title, source_id from document where {db.own()} and key = ?", (document,)
    )
    states = db.rows(
        f"select before from receipt_document where {db.own()} and document = ? and before <> ?",
        (document, NEW),
    )
    names = [name for row in rows for name in row]
    forget_names(db, names + [json.loads(before)["document"]["title"] for (before,) in states])


def forget_names(db: Database, names: Iterable[str]) -> None:
    """Remove names from all receipts."""
    variants = {
        variant
        for name in map(str.strip, names)
        if name
        for variant in (name, truncate(name, _SAMPLE_CHARACTERS))
    }
    for name in sorted(variants):
        escaped = json.dumps(name)[1:-1]  # as JSON has it
        rows = db.rows(
            f"select id, path, files from receipt where {db.own()} "
            "and (replace(files, ?, '') <> files or replace(path, ?, '') <> path)",
            (escaped, storable(name)),
        )
        for receipt, path, files in rows:
            records = [without_name(file, name) for file in json.loads(files or "[]")]
            db.run(
                f"update receipt set path = ?, files = ? where {db.own()} and id = ?",
                (path_without_name(path, name), json.dumps(records), receipt),
            )


def without_name(file: Mapping[str, Any], name: str) -> State:
    """The record of a file in a receipt, without a name."""
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")

    def clean(reason: str) -> str:
        if len(name) < _MIN_CHARACTERS_IN_REASON:
            return reason
        return pattern.sub(DELETED, reason)

    samples: dict[str, list[str]] = {}
    for reason, places in file["samples"].items():
        samples.setdefault(clean(reason), []).extend(pattern.sub(DELETED, p) for p in places)
    result = {**file, "samples": samples, "name": path_without_name(file["name"], name)}
    for unit in ("conversations", "messages"):
        counts = result[unit] = dict(file[unit])
        for outcome in ("skipped", "failed"):
            total: Counter[str] = Counter()
            for reason, count in counts[outcome].items():
                total[clean(reason)] += count
            counts[outcome] = total
    return result


def path_without_name(path: str, name: str) -> str:
    """A path whose last part is not named after a document, nor the whole path."""
    if path == name or path.endswith(f"/{name}"):
        return path.removesuffix(name) + DELETED
    file = PurePosixPath(path)
    if name in (file.name, file.stem):
        return path.removesuffix(file.name) + DELETED + file.suffix
    return path
