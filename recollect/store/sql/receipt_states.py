"""What an import records in its receipt about the documents that it saves.

By these records, the import can be undone (`store.sql.receipts`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect.language.text import micros
from recollect.model.documents import Document
from recollect.model.edited_fields import (
    EDITED_FIELDS,
    PERSONAL_METADATA,
    edited_fields,
    edited_metadata,
)
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import (
    decode_document,
    decode_passage,
    document_row,
    passage_digest,
)
from recollect.store.sql.rewriting import is_rewritable, passage_rows, replace_passages

_TABLE = "receipt_document"
_COLUMNS = ("receipt", "document", "before")


NEW = "null"
"""The state before an import created a document, as JSON."""


class ReceiptRecord:
    """The records of one import. If there is no receipt, nothing is recorded."""

    def __init__(self, db: Database, receipt: int | None) -> None:
        self._db = db
        self._receipt = receipt
        self._new_rows: list[tuple[Any, ...]] = []

    def add_new(self, document: int, before: str | None) -> None:
        """Collect the record of a document that the import creates."""
        if self._receipt is not None:
            self._new_rows.append((self._receipt, document, before))

    def flush(self) -> None:
        """Insert the collected records."""
        if self._new_rows:
            self._db.insert(_TABLE, _COLUMNS, self._new_rows)
        self._new_rows = []

    def add(self, document: int, before: str | None = None) -> None:
        """Record that the import contains a document, and the state before, if it changed it."""
        if self._receipt is None:
            return
        where = f"from {_TABLE} where {self._db.own()} and receipt = ? and document = ?"
        for (earlier,) in self._db.rows(f"select before {where}", (self._receipt, document)):
            before = later_state(earlier, before) or before
        self._db.run(f"delete {where}", (self._receipt, document))
        self._db.insert(_TABLE, _COLUMNS, [(self._receipt, document, before)])

    def add_revision(self, passage: int, row: Sequence[Any]) -> None:
        """Record the row of a passage as it was before the import first replaced it."""
        if self._receipt is None:
            return
        self._db.insert(
            "receipt_revision",
            ("receipt", "passage", "before"),
            [(self._receipt, passage, json.dumps(row))],
            keep_existing=True,
        )

    def earlier_attempt(self, key: int, document: Document) -> tuple[int, bool]:
        """What this import had stored of a rewritable document before it was interrupted.

        That is the number of its passages, and whether the import had created the document.
        """
        if self._receipt is None:
            return 0, False
        states = self._db.rows(
            f"select before from {_TABLE} where {self._db.own()} and receipt = ? and document = ?",
            (self._receipt, key),
        )
        if not states:
            return 0, False
        rows = self._db.rows(
            f"select digest from passage where {self._db.own()} and document = ? and receipt = ?",
            (key, self._receipt),
        )
        digests = {digest for (digest,) in rows}
        count = sum(passage_digest(passage) in digests for passage in document.passages)
        return count, states[0][0] == NEW


# -- the fields of a document ---

IMPORTED = "imported"
"""The key, in the state before an import, of the date that the import gave the document."""
# Editing tags and pins moves the date by a microsecond (see `undo.py`).
_SAME_DATE = 1_000_000


def dump_fields(before: Document, after: Document) -> str:
    """The fields of a conversation before an import, as a receipt stores them."""
    return json.dumps(document_row(before) | {IMPORTED: micros(after.updated_at)})


def restore_fields(stored: Document, state: Mapping[str, Any]) -> Document:
    """The stored document with the fields before an import. What a person has set stays."""
    before = decode_document(state.get("document", state) | {"version": 0})
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
    date, imported = micros(stored.updated_at), state[IMPORTED]
    if date == imported or (None not in (date, imported) and 0 <= date - imported < _SAME_DATE):
        return replace(restored, head=before.head, updated_at=before.updated_at)
    return restored  # it has grown since


def later_state(state: str | None, later: str | None) -> str | None:
    """The state before an import that has changed the document again."""
    if state in (None, NEW) or later is None:
        return state
    return json.dumps(json.loads(state) | {IMPORTED: json.loads(later)[IMPORTED]})


# -- earlier states ---


def dump_state(document: Document, after: Document | None = None) -> str:
    """A whole document, as a receipt stores it before an import that changed it."""
    _, rows = passage_rows(document)
    state = {
        "document": document_row(document),
        "passages": [[digest.hex(), *rest] for digest, *rest in rows],
        IMPORTED: micros(after.updated_at) if after else None,
    }
    return json.dumps(state)


def load_document(state: Mapping[str, Any]) -> Document:
    """A whole document from a state."""
    passages = [decode_passage((bytes.fromhex(d), *rest)) for d, *rest in state["passages"]]
    return decode_document(state["document"] | {"version": 0}, tuple(passages))


def restore_passages(db: Database, index: TextIndex, key: int, before: Mapping[str, Any]) -> None:
    """Restore the passages of a document from a state in a receipt."""
    rows = [(bytes.fromhex(digest), *rest) for digest, *rest in before["passages"]]
    replace_passages(db, index, key, rows, None)


def detach_from_imports(db: Database, key: int) -> None:
    """Delete everything that imports remember of a document that a person has changed."""
    db.run(
        "update receipt_document set before = null "
        f"where {db.own()} and document = ? and before is not null",
        (key,),
    )
    delete_passage_states(db, key)
    db.run(
        "update passage set receipt = null "
        f"where {db.own()} and document = ? and receipt is not null",
        (key,),
    )


def delete_document_states(db: Database, key: int) -> None:
    """Delete the earlier states of a document and its passages.

    Undoing the import that created the document still removes it.
    """
    has_states = db.get(
        f"select 1 from receipt_document where {db.own()} and document = ? and before <> ? limit 1",
        (key, NEW),
    )
    if has_states:
        clear_before(db, key)
    delete_passage_states(db, key)


def delete_passage_states(db: Database, key: int) -> None:
    db.run(
        "delete from receipt_revision "
        f"where {db.own()} and passage in "
        f"(select p.key from passage p where {db.own('p')} and p.document = ?)",
        (key,),
    )


def count_undo_states(db: Database, is_unwanted: Callable[[str], bool]) -> int:
    """See Store.count_undo_states."""
    documents, revisions = undo_states(db, is_unwanted)
    return len(documents) + len(revisions)


def delete_undo_states(db: Database, is_unwanted: Callable[[str], bool]) -> int:
    """See Store.delete_undo_states."""
    documents, revisions = undo_states(db, is_unwanted)
    for document in sorted(set(documents)):
        clear_before(db, document)
    db.run_many(
        f"delete from receipt_revision where {db.own()} and receipt = ? and passage = ?", revisions
    )
    return len(documents) + len(revisions)


def undo_states(
    db: Database, is_unwanted: Callable[[str], bool]
) -> tuple[list[int], list[tuple[int, int]]]:
    """The documents with unwanted earlier states, and the receipts and passages with such states.

    A document is listed once for each of its states.
    """
    states = db.rows(
        f"select document, before from receipt_document where {db.own()} and before <> ?", (NEW,)
    )
    documents = [document for document, before in states if is_unwanted(before)]
    rows = db.rows(f"select receipt, passage, before from {db.own_rows('receipt_revision')}")
    revisions = [(receipt, passage) for receipt, passage, before in rows if is_unwanted(before)]
    return documents, revisions


def clear_before(db: Database, key: int) -> None:
    """Leave imports of a document nothing to restore, except that one of them created it."""
    db.run(
        "update receipt_document set before = null "
        f"where {db.own()} and document = ? and before <> ?",
        (key, NEW),
    )
    if is_rewritable(db.get(f"select kind from document where {db.own()} and key = ?", (key,))):
        db.run(
            "update passage set receipt = null "
            f"where {db.own()} and document = ? and receipt is not null",
            (key,),
        )
