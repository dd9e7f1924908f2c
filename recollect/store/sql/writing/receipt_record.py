"""What an import records in its receipt about the documents that it saves.

By these records, the import can be undone (`store.sql.imports.receipts`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recollect.model.documents import Document
from recollect.store.sql.database import Database
from recollect.store.sql.encoding import passage_digest
from recollect.store.sql.writing import rewriting
from recollect.store.sql.writing.field_changes import add_marks

_TABLE = "receipt_document"
_COLUMNS = ("receipt", "document", "before")


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
            before = add_marks(earlier, before) or before
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
        return count, states[0][0] == rewriting.NEW
