"""A view of a store that records every deletion in the audit log.

Deletions are recorded here because every interface deletes through the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from recollect.model import undo
from recollect.model.documents import Document, Passage
from recollect.model.receipts import Receipt
from recollect.model.undo import Change
from recollect.store.audit_log import DELETE, FORGET, REDACT, RESTORE, UNDO, Entry
from recollect.store.base import Store
from recollect.store.values import Contents, Forgotten, Removal
from recollect.store.views.base import StoreView

Recorder = Callable[[Entry], None]


class AuditedStore(StoreView):
    def __init__(self, store: Store, record: Recorder) -> None:
        super().__init__(store)
        self._record = record

    def delete(self, document: str) -> None:
        self._store.delete(document)
        self._record(Entry.of(DELETE, "document", [document]))

    def pop(self, document: str) -> Document:
        deleted_document = self._store.pop(document)
        self._record(Entry.of(DELETE, deleted_document.kind, [document]))
        return deleted_document

    def trash(self, document: str, until: datetime) -> Change:
        change = self._store.trash(document, until)
        self._record(Entry.of(DELETE, "document", [document]))
        return change

    def revert(self, number: int) -> Change:
        change = self._store.revert(number)
        if change.action == undo.DELETE:
            self._record(Entry.of(RESTORE, "document", [change.id]))
        return change

    def delete_passage(self, document: str, passage: str) -> Passage:
        deleted_passage = self._store.delete_passage(document, passage)
        self._record(Entry.of(DELETE, "message", [document, passage], 1))
        return deleted_passage

    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        result = self._store.forget(removals)
        ids = [removal.document for removal in removals]
        self._record(Entry.of(FORGET, "messages", ids, result.passages))
        return result

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        count = self._store.revise(document, change)
        if count:
            self._record(Entry.of(REDACT, "messages", [document], count))
        return count

    def delete_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        count = self._store.delete_undo_states(is_unwanted)
        if count:
            self._record(Entry.of(REDACT, "earlier states", (), count))
        return count

    def undo_import(self, receipt: int) -> Receipt:
        undone_receipt = self._store.undo_import(receipt)
        self._record(Entry.of(UNDO, "import", [str(receipt)]))
        return undone_receipt

    def remove_library(self, expected: Contents | str | None = None) -> None:
        self._store.remove_library(expected)
        self._record(Entry.of(DELETE, "library"))
