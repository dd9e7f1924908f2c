"""Put a deleted document back."""

from __future__ import annotations

from recollect.errors import Conflict
from recollect.model.documents import Document
from recollect.model.sources import PROXY
from recollect.store.base import Store
from recollect.transfer.export import as_json


def restore_document(store: Store, document: Document) -> tuple[str, bool]:
    """Returns its id, and whether it was missing.

    Raises Conflict if the stored one differs, or if another conversation has all its messages.
    """
    existing = store.find_id(document.source, document.source_id)
    if existing is None:
        (saved,) = store.save([document], index_ids=document.source == PROXY.name)
        if not saved.id:
            raise Conflict("All its messages are in another conversation.")
        return saved.id, True
    if as_json(store.document(existing)) != as_json(document):
        raise Conflict(
            "The library has another version of it. Delete that one first to restore this version."
        )
    return existing, False
