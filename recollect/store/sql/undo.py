"""Undo changes, deletions and imports of documents.

The undo log keeps what is needed to undo a change: the earlier title or tags, or a whole deleted
document. That is text which the person may want to be gone, so every entry expires. Deleting a
document for good also deletes its entries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from recollect.errors import Conflict, InvalidInput
from recollect.language.text import fold, from_micros, identifier, micros, storable, truncate
from recollect.model.documents import Document, Json
from recollect.model.fields import (
    EDITED_FIELDS,
    edited_fields,
    mark_edited_fields,
    set_edited_fields,
)
from recollect.model.receipts import Receipt
from recollect.model.sources import PROXY
from recollect.model.undo import DELETE, Change, Edit
from recollect.store.errors import missing_change
from recollect.store.sql import changes, receipts
from recollect.store.sql import passages as passage_sql
from recollect.store.sql.database import Database, TextIndex, get_marker, set_marker
from recollect.store.sql.encoding import PASSAGE_COLUMNS, document_row, dump
from recollect.store.sql.lookup import key_of, read, read_header
from recollect.store.sql.saving import save

_NUMBER = "undo number"
PASSAGE_ID = PASSAGE_COLUMNS.index("id")
_COLUMNS = "number, action, document, title, changed_at, expires_at"
# Importing an older copy of a document must not revert an edit, so an edit makes the stored one
# newer, but by so little that its date stays the same for people.
_TICK = timedelta(microseconds=1)
_NOT_OBSERVED = ("tags", "pinned", EDITED_FIELDS)


# -- changes ---


def edit(
    db: Database, id: str, edit: Edit, until: datetime | None, index: TextIndex
) -> tuple[Change | None, bool]:
    """See Store.edit. Returns the change, and whether it removed any text."""
    key = key_of(db, id)
    stored = read_header(db, key)
    document = apply(stored, edit)
    if document == stored and until is not None:
        return None, False
    document = replace(document, metadata=mark_edited_fields(stored, document))
    date = stored.updated_at
    if until is None:
        now = datetime.now(UTC)
        date = max(date or now, now)
    elif date is not None:
        date += _TICK
    document = replace(document, updated_at=date)
    write(db, key, stored, document, index)
    has_removed = has_removed_text(stored, document)
    if until is None:
        return None, has_removed
    state = {"before": fields(stored), "after": fields(document)}
    return log(db, edit.action, document, state, until), has_removed


def has_removed_text(before: Document, after: Document) -> bool:
    """Whether a title, project or value of the metadata is gone, not only added."""
    if before.title not in ("", after.title) or before.project != after.project:
        return True
    return any(after.metadata.get(name) != value for name, value in before.metadata.items())


def trash(db: Database, id: str, until: datetime, index: TextIndex) -> Change:
    """See Store.trash."""
    key = key_of(db, id)
    document = read(db, key)
    _, rows = passage_sql.passage_rows(document)
    state = receipts.state_of(document, rows)
    changes.delete(db, key, index)
    return log(db, DELETE, document, state, until)


def apply(document: Document, edit: Edit) -> Document:
    metadata = dict(document.metadata)
    if edit.add_tags or edit.remove_tags:
        # Case does not matter.
        unwanted = {fold(tag) for tag in edit.remove_tags}
        tags = {fold(tag): tag for tag in _tags(metadata) if fold(tag) not in unwanted}
        for tag in edit.add_tags:
            tags.setdefault(fold(tag), tag)
        metadata.pop("tags", None)
        if tags:
            metadata["tags"] = list(tags.values())
    if edit.pinned is not None:
        metadata.pop("pinned", None)
        if edit.pinned:
            metadata["pinned"] = True
    for name, value in edit.metadata.items():
        metadata[name] = value
        if value is None:
            del metadata[name]
    title = document.title if edit.title is None else edit.title
    project = edit.project or document.project
    return replace(document, title=title, project=project, metadata=metadata)


def _tags(metadata: Mapping[str, Json]) -> list[str]:
    tags = metadata.get("tags")
    if not isinstance(tags, list):
        return []
    return [tag for tag in tags if isinstance(tag, str)]


def fields(document: Document) -> dict[str, Json]:
    return {
        "title": document.title,
        "tags": _tags(document.metadata),
        "pinned": document.metadata.get("pinned") is True,
        "edited": sorted(edited_fields(document.metadata)),
        "updated_at": micros(document.updated_at),
    }


def write(db: Database, key: int, stored: Document, document: Document, index: TextIndex) -> None:
    passage_sql.update_document(db, key, document_row(document), index)
    if observed_fields(document) == observed_fields(stored):
        db.run(
            "update document set version = version + 1, observed = "
            "case when observed = version then version + 1 "
            "when observed = -version then -version - 1 else observed end "
            f"where {db.own()} and key = ?",
            (key,),
        )
        return
    passage_sql.increment_version(db, key)
    if stored.title not in ("", document.title):
        receipts.forget_names(db, [stored.title])
        changes.delete_observations(db, key, index)  # they quote the title


def observed_fields(document: Document) -> Json:
    """What observations depend on. Tags and pins do not change what was observed."""
    metadata = {k: v for k, v in document.metadata.items() if k not in _NOT_OBSERVED}
    return [document.title, document.project, metadata]


# -- the log ---


def log(db: Database, action: str, document: Document, state: Json, until: datetime) -> Change:
    number = (get_marker(db, _NUMBER) or 0) + 1
    set_marker(db, _NUMBER, number)
    now = datetime.now(UTC)
    db.insert(
        "undo",
        ("number", "action", "document", "title", "changed_at", "expires_at", "state"),
        [
            (
                number,
                action,
                identifier(document.id),
                storable(document.title),
                micros(now),
                micros(until),
                dump(state),
            )
        ],
    )
    return Change(number, action, document.id, document.title, now, until)


def undo_log(db: Database) -> list[Change]:
    """See Store.undo_log."""
    rows = db.rows(
        f"select {_COLUMNS} from undo where {db.own()} and expires_at > ? order by number desc",
        (micros(datetime.now(UTC)),),
    )
    return [decode(row) for row in rows]


def revert(db: Database, number: int, index: TextIndex) -> Change:
    """See Store.revert."""
    rows = db.rows(f"select {_COLUMNS}, state from undo where {db.own()} and number = ?", (number,))
    if not rows:
        raise missing_change(number)
    *columns, text = rows[0]
    change, state = decode(columns), json.loads(text)
    if change.action == DELETE:
        put_back(db, receipts.load_document(state), index)
    else:
        key = key_of(db, change.id)
        stored = read_header(db, key)
        document = restore(stored, state["before"], state["after"])
        if document != stored:
            write(db, key, stored, document, index)
    db.run(f"delete from undo where {db.own()} and number = ?", (number,))
    return change


def put_back(db: Database, document: Document, index: TextIndex) -> None:
    """Save a deleted document again. Raises Conflict if the library has another version of it."""
    key = db.get(
        f"select key from document where {db.own()} and source = ? and source_id = ?",
        (identifier(document.source), identifier(document.source_id)),
    )
    if key is None:
        (saved,) = save(db, index, [document], None, index_ids=document.source == PROXY.name)
        if not saved.id:
            raise Conflict("All its messages are in another conversation.")
    elif read(db, key) != document:
        raise Conflict(
            "The library has another version of it. Delete that one first to restore this version."
        )


def restore(document: Document, before: Mapping[str, Json], after: Mapping[str, Json]) -> Document:
    """The document without one change. Later changes of its other fields stay."""
    restored = Edit("undo")
    if before["title"] != after["title"]:
        if document.title != after["title"]:
            raise Conflict(
                f"The title of {truncate(document.id, 80)!r} has changed again since. "
                "Undo the later change first."
            )
        restored = replace(restored, title=before["title"])
    if before["pinned"] != after["pinned"]:
        restored = replace(restored, pinned=before["pinned"])
    added = tuple(tag for tag in after["tags"] if tag not in before["tags"])
    removed = tuple(tag for tag in before["tags"] if tag not in after["tags"])
    document = apply(document, replace(restored, add_tags=removed, remove_tags=added))
    first_edited = set(after["edited"]) - set(before["edited"])
    if _tags(document.metadata) != before["tags"]:
        first_edited.discard("tags")
    edited = edited_fields(document.metadata) - first_edited
    date = document.updated_at
    if micros(date) == after["updated_at"]:
        date = from_micros(before["updated_at"])  # nothing has changed since
    elif date is not None:
        date += _TICK
    metadata = set_edited_fields(document.metadata, edited)
    return replace(document, metadata=metadata, updated_at=date)


def decode(row: Sequence[Any]) -> Change:
    number, action, document, title, changed_at, expires_at = row
    start, end = from_micros(changed_at), from_micros(expires_at)
    assert start is not None and end is not None
    return Change(number, action, document, title, start, end)


def has_entries(db: Database, until: datetime | None) -> bool:
    """Whether there are entries that expire until then, or any."""
    where, values = expired(db, until)
    return db.get(f"select 1 from undo where {where} limit 1", values) is not None


def clear(db: Database, until: datetime | None) -> int:
    """Delete the entries that expire until then, or all. Returns their number."""
    where, values = expired(db, until)
    count: int = db.get(f"select count(*) from undo where {where}", values)
    db.run(f"delete from undo where {where}", values)
    return count


def expired(db: Database, until: datetime | None) -> tuple[str, list[Any]]:
    if until is None:
        return db.own(), []
    return f"{db.own()} and expires_at <= ?", [micros(until)]


# -- imports ---


def undo_import(db: Database, id: int, index: TextIndex) -> Receipt:
    """See Store.undo_import."""
    receipt = receipts.read_receipt(db, id)
    if receipt.undone_at is not None:
        raise InvalidInput(f"Import {id} was undone on {receipt.undone_at:%Y-%m-%d %H:%M} UTC.")
    later: int | None = db.get(
        "select max(l.receipt) from receipt_document r "
        "join receipt_document l on l.document = r.document and l.receipt > r.receipt "
        f"where {db.own('r', 'l')} and r.receipt = ?",
        (id,),
    )
    if later is not None:
        path = truncate(receipts.read_receipt(db, later).path, 80)
        raise Conflict(
            f"Import {later} ({path}) contains conversations or items of import {id} as well. "
            f"Undo import {later} first."
        )
    rows = db.rows(
        "select r.document, d.kind, r.before from receipt_document r "
        f"join document d on d.key = r.document where {db.own('r', 'd')} and r.receipt = ? "
        "order by r.document",
        (id,),
    )
    db.run(f"delete from receipt_document where {db.own()} and receipt = ?", (id,))
    for document, kind, before in rows:
        state = None if before is None else json.loads(before)
        if not passage_sql.is_rewritable(kind):
            undo_merge(db, id, document, state, index)
        elif before == receipts.NEW:
            changes.delete(db, document, index)
        elif state is not None:
            passage_sql.rewrite_passages(db, index, document, receipts.state_rows(state), None)
            restore_fields(db, document, state, index)
            passage_sql.increment_version(db, document)
    receipt = receipts.read_receipt(db, id)  # names of deleted documents have been removed from it
    receipt.undone_at = datetime.now(UTC)
    for file in receipt.files:
        file.samples = {}  # they may be titles of conversations that are gone
    db.run(
        f"update receipt set undone_at = ?, files = ? where {db.own()} and id = ?",
        (micros(receipt.undone_at), receipts.encode_files(receipt), id),
    )
    return receipt


def undo_merge(
    db: Database, id: int, document: int, state: receipts.State | None, index: TextIndex
) -> None:
    """Remove the messages that an import added, and restore what it replaced."""
    rows = db.rows(
        f"select id, key, receipt from passage where {db.own()} and document = ?", (document,)
    )
    if state is not None:
        keys = {id_: key for id_, key, _ in rows}
        for row in receipts.state_rows(state):
            if row[PASSAGE_ID] in keys:
                passage_sql.replace_passage(db, keys[row[PASSAGE_ID]], row, index)
        restore_fields(db, document, state, index)
    added_keys = sorted(key for _, key, receipt in rows if receipt == id)
    passage_sql.delete_passages(db, {document: added_keys}, index)
    if added_keys:
        changes.delete_observations(db, document, index)
    other_imports = db.get(
        f"select count(*) from receipt_document where {db.own()} and document = ?", (document,)
    )
    if len(added_keys) == len(rows) and not other_imports:
        receipts.forget_document(db, document)
        db.run(f"delete from document where {db.own()} and key = ?", (document,))
        return
    if added_keys:
        passage_sql.reorder(db, document, index)
    if added_keys or state is not None:
        passage_sql.increment_version(db, document)


def restore_fields(db: Database, document: int, state: receipts.State, index: TextIndex) -> None:
    restored = receipts.restored_fields(read_header(db, document), state)
    passage_sql.update_document(db, document, document_row(restored), index)
