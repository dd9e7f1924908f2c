"""Forget documents and passages: delete them, and remember not to import them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recollect.language.text import identifier
from recollect.model.documents import Document
from recollect.store.sql import changes, receipts, saving
from recollect.store.sql import passages as passage_sql
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import decode_passage, document_row, passage_row
from recollect.store.sql.lookup import read_header, read_row
from recollect.store.sql.tombstones import (
    Tombstone,
    add_tombstones,
    document_tombstone,
    has_tombstones,
    metadata_tombstone,
    passage_tombstone,
    remembered_part,
    surviving_parent,
    title_tombstone,
)
from recollect.store.values import Forgotten, Removal, SaveResult


def save_remembered(
    db: Database,
    index: TextIndex,
    documents: Sequence[Document],
    receipt: int | None,
    index_ids: bool,
) -> list[SaveResult]:
    """Save documents, but leave out what was forgotten."""
    if not has_tombstones(db):
        return saving.save(db, index, documents, receipt, index_ids)
    parts = [remembered_part(db, document, index_ids) for document in documents]
    remembered = [document for document, _ in parts if document is not None]
    results = iter(saving.save(db, index, remembered, receipt, index_ids))
    all_results = []
    for document, count in parts:
        result = SaveResult("", False)
        if document is not None:
            result = next(results)
        result.forgotten = count
        all_results.append(result)
    return all_results


def forget(db: Database, index: TextIndex, removal: Removal, result: Forgotten) -> int | None:
    """Forget a document or a part of it, and count it. The key of the document if it remains."""
    key: int | None = db.get(
        f"select key from document where {db.own()} and id = ?", (identifier(removal.document),)
    )
    if key is None:
        return None
    document = read_header(db, key)
    rows = db.rows(
        f"select id, key, shared, parent from passage where {db.own()} and document = ? "
        "order by position",
        (key,),
    )
    if removal.passages is not None:
        ids = set(map(identifier, removal.passages))
        selected_rows = [row for row in rows if row[0] in ids]
    else:
        selected_rows = rows
    is_whole = removal.passages is None
    add_tombstones(db, _tombstones(document, removal, selected_rows))
    if is_whole or (rows and len(selected_rows) == len(rows)):
        changes.delete(db, key, index)
        result.documents += 1
        result.passages += len(rows)
        return None
    if not selected_rows and not removal.has_title and not removal.metadata:
        return None
    remove_passages(db, index, key, rows, {row[0] for row in selected_rows})
    remove_fields(db, index, key, removal)
    receipts.delete_document_states(db, key)
    changes.delete_observations(db, key, index)
    passage_sql.increment_version(db, key)
    result.changed_documents += 1
    result.passages += len(selected_rows)
    return key


def _tombstones(
    document: Document, removal: Removal, rows: Sequence[tuple[str, int, bool, str | None]]
) -> list[Tombstone]:
    tombstones = []
    is_whole = removal.passages is None
    for id_, _, is_shared, _ in rows:
        if is_shared or not is_whole:
            tombstones.append(passage_tombstone(document, id_, bool(is_shared)))
    if is_whole:
        tombstones.append(document_tombstone(document))
    if removal.has_title:
        tombstones.append(title_tombstone(document))
    tombstones += [metadata_tombstone(document, key) for key in removal.metadata]
    return tombstones


def remove_passages(
    db: Database,
    index: TextIndex,
    key: int,
    rows: Sequence[tuple[str, int, bool, str | None]],
    ids: set[str],
) -> None:
    if not ids:
        return
    find_parent = surviving_parent({id_: parent for id_, _, _, parent in rows}, ids)
    for id_, passage_key, _, parent in rows:
        if id_ not in ids and parent in ids:
            passage = decode_passage(read_row(db, passage_key))
            reply = passage._replace(parent=find_parent(parent))
            row = passage_row(reply, passage.position, passage.canonical)
            passage_sql.replace_passage(db, passage_key, row, index)
    head = db.get(f"select head from document where {db.own()} and key = ?", (key,))
    if head in ids:
        db.run(
            f"update document set head = ? where {db.own()} and key = ?", (find_parent(head), key)
        )
    passage_keys = [passage_key for id_, passage_key, _, _ in rows if id_ in ids]
    passage_sql.delete_passages(db, {key: passage_keys}, index)
    passage_sql.reorder(db, key, index)


def remove_fields(db: Database, index: TextIndex, key: int, removal: Removal) -> None:
    """Remove the title and the metadata that must go."""
    if not removal.has_title and not removal.metadata:
        return
    document = read_header(db, key)
    if removal.has_title:
        receipts.forget_names(db, [document.title])
        document = replace(document, title="")
    metadata = {
        name: value for name, value in document.metadata.items() if name not in removal.metadata
    }
    row = document_row(replace(document, metadata=metadata))
    passage_sql.update_document(db, key, row, index)
