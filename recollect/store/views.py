"""Stores that stand before another store, and change what goes through.

`RedactingStore` removes secrets where text enters, and `AudienceStore` hides human-only messages
where text leaves. Both must handle every method of a store. So they name what they pass on
unchanged, and refuse the rest: a method that is added later cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar

from recollect.errors import InvalidInput
from recollect.model import undo
from recollect.model.documents import Document
from recollect.model.receipts import Receipt
from recollect.model.undo import Change
from recollect.store.audit_log import DELETE, FORGET, REDACT, RESTORE, UNDO, Entry
from recollect.store.base import Store
from recollect.store.values import Closure, Forgotten, Removal

METHODS = frozenset(name for name in vars(Store) if not name.startswith("_"))


class StoreView(Store):
    """A store that passes every call on to another one. Subclasses override what they change."""

    PASSES: ClassVar[Collection[str]] = METHODS
    """The methods that are passed on if they are not overridden. Others are refused."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __init_subclass__(cls) -> None:
        for name in METHODS.difference(cls.PASSES, vars(cls)):
            setattr(cls, name, _Refused(name))


class _PassedOn:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, view: StoreView, owner: type[StoreView]) -> Any:
        return getattr(view._store, self._name)


class _Refused(_PassedOn):
    def __get__(self, view: StoreView, owner: type[StoreView]) -> Any:
        raise InvalidInput(f"`{self._name}` needs the whole library, not {owner.__name__}.")


for _name in METHODS:
    setattr(StoreView, _name, _PassedOn(_name))


Recorder = Callable[[Entry], None]


class AuditedStore(StoreView):
    """Records every deletion in the audit log: every interface deletes through the store."""

    def __init__(self, store: Store, record: Recorder) -> None:
        super().__init__(store)
        self._record = record

    def delete(self, document: str, passage: str | None = None) -> Document:
        deleted = self._store.delete(document, passage)
        if passage is None:
            self._record(Entry.of(DELETE, deleted.kind, [document]))
        else:
            self._record(Entry.of(DELETE, "message", [document, passage], 1))
        return deleted

    def trash(self, document: str, until: datetime) -> Change:
        change = self._store.trash(document, until)
        self._record(Entry.of(DELETE, "document", [document]))
        return change

    def revert(self, number: int) -> Change:
        change = self._store.revert(number)
        if change.action == undo.DELETE:
            self._record(Entry.of(RESTORE, "document", [change.id]))
        return change

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

    def delete_undo_states(self, is_unwanted: Callable[[str], bool], dry_run: bool = False) -> int:
        count = self._store.delete_undo_states(is_unwanted, dry_run)
        if count and not dry_run:
            self._record(Entry.of(REDACT, "earlier states", (), count))
        return count

    def undo_import(self, receipt: int) -> Receipt:
        undone_receipt = self._store.undo_import(receipt)
        self._record(Entry.of(UNDO, "import", [str(receipt)]))
        return undone_receipt

    def remove_library(self, expected: Closure | None = None) -> None:
        self._store.remove_library(expected)
        self._record(Entry.of(DELETE, "library"))
