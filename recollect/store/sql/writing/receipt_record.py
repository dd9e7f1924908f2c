"""What an import records in its receipt about the documents that it saves.

By these records, the import can be undone (`store.sql.imports.receipts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from recollect.model.documents import Document
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import dump_keys, load_keys, passage_digest
from recollect.store.sql.writing import rewriting, unused_versions
from recollect.store.sql.writing.field_changes import add_marks

_TABLE = "receipt_document"
_COLUMNS = ("receipt", "document", "runs", "before")


class ReceiptRecord:
    """The records of one import. If there is no receipt, nothing is recorded."""

    def __init__(self, db: Database, receipt: int | None) -> None:
        self._db = db
        self._receipt = receipt
        self._new_rows: list[tuple[Any, ...]] = []

    def add_new(self, document: int, passages: set[int], before: str | None) -> None:
        """Collect the record of a document that the import creates."""
        if self._receipt is not None:
            self._new_rows.append((self._receipt, document, dump_keys(passages), before))

    def flush(self) -> None:
        """Insert the collected records."""
        if self._new_rows:
            self._db.insert(_TABLE, _COLUMNS, self._new_rows)
        self._new_rows = []

    def add(self, document: int, passages: Iterable[int], before: str | None) -> None:
        """Record which passages of a document the import contained, and the state before."""
        if self._receipt is None:
            return
        where = f"from {_TABLE} where {self._db.own()} and receipt = ? and document = ?"
        keys = set(passages)
        for earlier_keys, earlier in self._db.rows(
            f"select runs, before {where}", (self._receipt, document)
        ):
            keys |= load_keys(earlier_keys)
            if earlier == unused_versions.COPIES:
                continue
            if before == unused_versions.COPIES:
                before = earlier
            elif before is None or not unused_versions.is_unused(earlier):
                before = add_marks(earlier, before) or before
        self._db.run(f"delete {where}", (self._receipt, document))
        self._db.insert(_TABLE, _COLUMNS, [(self._receipt, document, dump_keys(keys), before)])

    def add_copies(self, copies: Iterable[tuple[int, int]]) -> None:
        """Record that the import contains passages of other documents.

        `copies` are the keys of the passages and of their documents.
        """
        keys_by_document: dict[int, set[int]] = {}
        for passage, document in copies:
            keys_by_document.setdefault(document, set()).add(passage)
        for document, keys in keys_by_document.items():
            self.add(document, keys, unused_versions.COPIES)

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
        return count, states[0][0] == rewriting.NEW
