"""Read documents that a program has made or exported, put deleted ones back, and undo changes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.importers.chats import own
from recollect.importers.entries import Entry
from recollect.language.text import truncate
from recollect.model.chat_messages import plain
from recollect.model.documents import Document
from recollect.model.receipts import Problem
from recollect.model.sources import PROXY
from recollect.model.undo import DELETE, Change
from recollect.store.base import Store
from recollect.store.errors import missing_change
from recollect.transfer.archive import Archive
from recollect.transfer.export import as_json


def parse_item(item: Document | Mapping[str, Any] | Problem) -> Iterator[Document | Problem]:
    """A document that a program has made, or the reasons why it cannot be used, or in part."""
    if isinstance(item, (Document, Problem)):
        yield item
        return
    try:
        yield from read(dict(item))
    except (TypeError, ValueError, RecursionError) as error:
        where = ""
        if isinstance(item, Mapping):
            where = str(item.get("id") or item.get("title") or "")
        yield Problem(truncate(str(error), 200), truncate(where, 80), True, "conversations")


def parse_export(export: dict[str, Any], kind: str = "conversation") -> Document:
    """The one document in an export, read by the same code as an imported file."""
    records = read(export)
    for record in records:
        if isinstance(record, Problem) and record.failed:
            raise InvalidInput(
                f"This is not an export of a {kind}: {record.reason} ({record.where})."
            )
    documents = [record for record in records if isinstance(record, Document)]
    if len(documents) != 1:
        raise InvalidInput(
            f"Send the export of exactly one {kind}. This body contains {len(documents)}."
        )
    return documents[0]


def read(item: dict[str, Any]) -> list[Document | Problem]:
    data = json.dumps(plain(item)).encode()
    return list(own.read(Entry("export.json", len(data), lambda: io.BytesIO(data))))


def restore_document(store: Store, document: Document) -> tuple[str, bool]:
    """Put a deleted document back. Returns its id, and whether it was missing.

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


def undo_change(store: Store, archive: Archive, number: int | None) -> Change:
    """Undo the change with this number, or the last one, and return it.

    Raises NotFound, and Conflict if a later change contradicts.
    """
    changes = (change for change in store.undo_log() if number in (None, change.number))
    change = next(changes, None)
    if change is None:
        if number is None:
            raise NotFound("There is nothing to undo.")
        raise missing_change(number)
    store.revert(change.number)
    if change.action == DELETE:
        document = store.summary(change.id)
        archive.undelete([(document.source, document.source_id)])
    return change
