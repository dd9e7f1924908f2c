"""Undo a change of the undo log."""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.model.undo import DELETE, Change
from recollect.store.base import Store
from recollect.store.errors import missing_change
from recollect.transfer.archive import Archive
from recollect.transfer.document_restore import restore_document
from recollect.transfer.export_parsing import parse_export


def undo_change(store: Store, archive: Archive, number: int | None) -> Change:
    """Undo the change with this number, or the last one, and return it.

    Raises NotFound, and Conflict if a later change contradicts.
    """
    change = _find_change(store, number)
    if change.action == DELETE:
        document = parse_export(store.undo_state(change.number))
        restore_document(store, document)
        archive.undelete([(document.source, document.source_id)])
    store.revert(change.number)
    return change


def _find_change(store: Store, number: int | None) -> Change:
    for change in store.undo_log():
        if number is None or change.number == number:
            return change
    if number is None:
        raise NotFound("There is nothing to undo.")
    raise missing_change(number)
