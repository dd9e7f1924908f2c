"""Change and delete single documents and passages, the same for both databases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from recollect.errors import Conflict, NotFound, OutdatedPosition
from recollect.language.text import from_micros, identifier, micros, truncate
from recollect.model.documents import Document, Passage
from recollect.model.kinds import OBSERVATIONS
from recollect.store.errors import missing_document
from recollect.store.sql import passages as passage_sql
from recollect.store.sql import receipts, tombstones
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import (
    decode_passage,
    document_row,
    passage_digest,
    passage_row,
)
from recollect.store.sql.lookup import key_of, passage_key, read, read_row
from recollect.store.values import Appended

# -- adding passages ---


def append(
    db: Database, id: str, passage: Passage, index: TextIndex, expected_passages: int | None = None
) -> Appended:
    """See Store.append."""
    extension = _Extension(db, id)
    stored_keys = _stored_keys(db, extension.document, [passage])
    stored_key = stored_keys.get(identifier(passage.id))
    if stored_key is not None:
        return _require_same(passage, read_row(db, stored_key))
    position = extension.position
    if expected_passages not in (None, position):
        raise outdated_position(id, position, expected_passages)
    extension.add(passage, stored_keys.keys())
    extension.store(index, shared=False)
    return Appended(position, True)


def extend(
    db: Database,
    id: str,
    passages: Sequence[Passage],
    index: TextIndex,
    require_same: bool = False,
) -> int:
    """See Store.extend."""
    extension = _Extension(db, id)
    passages = tombstones.remembered_passages(db, extension.document, passages)
    if not passages:
        return 0
    if require_same:
        require_all_same(db, extension.document, passages)
    known_ids = set(_stored_keys(db, extension.document, passages))
    for passage in passages:
        if identifier(passage.id) not in known_ids:
            extension.add(passage, known_ids)
            known_ids.add(identifier(passage.id))
    return extension.store(index, shared=True)


def require_all_same(db: Database, document: int, passages: Sequence[Passage]) -> None:
    """Raise Conflict if a document has another passage with the id of one of these."""
    has_id, value = db.has_id_in(sorted({identifier(passage.id) for passage in passages}))
    rows = db.rows(
        "select id, digest, parent, created_at from passage "
        f"where {db.own()} and document = ? and {has_id}",
        (document, value),
    )
    stored = {id_: columns for id_, *columns in rows}
    for passage in passages:
        columns = stored.get(identifier(passage.id))
        if columns is not None:
            digest, parent, created_at = columns
            require_digest(passage, bytes(digest), parent, from_micros(created_at))


def _stored_keys(db: Database, document: int, passages: Sequence[Passage]) -> dict[str, int]:
    """The keys of those of the passages and of their parents that a document has, by id."""
    ids = {identifier(passage.id) for passage in passages}
    ids.update(identifier(passage.parent) for passage in passages if passage.parent)
    has_id, value = db.has_id_in(sorted(ids))
    return dict(
        db.rows(
            f"select id, key from passage where {db.own()} and document = ? and {has_id}",
            (document, value),
        )
    )


class _Extension:
    """New passages at the end of a document. They are stored together, in few statements."""

    def __init__(self, db: Database, id: str) -> None:
        self._db = db
        self._id = id
        self.document, self._head, started_at, updated_at, self._start = document_end(db, id)
        self._dates = (from_micros(started_at), from_micros(updated_at))
        self._rows: list[tuple[Any, ...]] = []
        self._has_branches = False

    @property
    def position(self) -> int:
        """The position of the next passage."""
        position: int = self._start + len(self._rows)
        return position

    def add(self, passage: Passage, known_ids: Collection[str]) -> None:
        """Add a passage after its parent, which must be one of the known ids, or after the head."""
        parent = identifier(passage.parent or "")
        if passage.parent is not None and parent != self._head:
            if parent not in known_ids:
                raise missing_parent(self._id, passage.parent)
            self._has_branches = True
        created_at = passage.created_at or datetime.now(UTC)
        dates = extended_dates(*self._dates, created_at)
        if self.position == 0:
            # A conversation without messages has the dates of its creation, not of its content.
            dates = (dates[0], created_at)
        passage = passage._replace(parent=passage.parent or self._head, created_at=created_at)
        self._rows.append(passage_row(passage, self.position))
        self._dates = dates
        self._head = identifier(passage.id)

    def store(self, index: TextIndex, *, shared: bool) -> int:
        """Store and index the passages under the next keys. Returns their number."""
        if not self._rows:
            return 0
        db = self._db
        last_key: int = db.get(
            f"update last_key set passage = passage + ? where {db.own()} returning passage",
            (len(self._rows),),
        )
        keys = range(last_key - len(self._rows) + 1, last_key + 1)
        keyed_rows = list(zip(keys, self._rows, strict=True))
        passage_sql.insert_passages(
            db, [(key, self.document, None, shared, *row) for key, row in keyed_rows]
        )
        index.add([(key, "", row[-1]) for key, row in keyed_rows])
        self._advance_end()
        if self._has_branches:
            mark_path(db, self.document, self._head)
        if self._start == 0:
            passage_sql.ensure_opening(db, self.document, index)
        mark_extended(db, self._id)
        return len(self._rows)

    def _advance_end(self) -> None:
        """Store that the document has more passages, and that the last one is its head."""
        self._db.run(
            "update document set head = ?, passages = passages + ?, created_at = ?, "
            f"updated_at = ? where {self._db.own()} and key = ?",
            (self._head, len(self._rows), *map(micros, self._dates), self.document),
        )


def document_end(db: Database, id: str) -> tuple[Any, ...]:
    """The key, head, dates and number of passages of a document."""
    rows = db.rows(
        "select key, head, created_at, updated_at, passages from document "
        f"where {db.own()} and id = ?",
        (identifier(id),),
    )
    if not rows:
        raise missing_document(id)
    return rows[0]


def outdated_position(id: str, passages: int, expected: int | None) -> OutdatedPosition:
    return OutdatedPosition(
        f"Conversation {truncate(id, 80)!r} has {passages} messages, not {expected}. "
        "Read the new ones, then add the message again."
    )


def missing_parent(id: str, parent: str) -> NotFound:
    return NotFound(
        f"Message {truncate(parent, 80)!r}, named as the parent, "
        f"is not in conversation {truncate(id, 80)!r}."
    )


def extended_dates(
    start: datetime | None, end: datetime | None, created_at: datetime
) -> tuple[datetime, datetime]:
    """The dates of a document with one more passage, which may be older than all others."""
    return min(start or created_at, created_at), max(end or created_at, created_at)


def _require_same(passage: Passage, row: tuple[Any, ...]) -> Appended:
    """Accept a message that was sent before, if it is the same. Fields left out count as equal."""
    stored = decode_passage(row)
    require_digest(passage, bytes(row[0]), stored.parent, stored.created_at)
    return Appended(stored.position, False)


def require_digest(
    passage: Passage, digest: bytes, parent: str | None, created_at: datetime | None
) -> None:
    again = passage._replace(
        parent=passage.parent or parent, created_at=passage.created_at or created_at
    )
    if passage_digest(again) != digest:
        raise Conflict(
            f"The message id {truncate(passage.id, 80)!r} is already used in this conversation "
            "for a message with other contents."
        )


def mark_extended(db: Database, id: str) -> None:
    """Count a new version of a document that got passages."""
    ((key, kind),) = db.rows(
        f"update document set version = version + 1 where {db.own()} and id = ? "
        "returning key, kind",
        (identifier(id),),
    )
    if passage_sql.is_rewritable(kind):
        receipts.detach_from_imports(db, key)


def mark_path(db: Database, key: int, head: str) -> None:
    """Make the path from the root to the head the canonical one."""
    outline, keys = passage_sql.load_outline(db, key)
    path = set()
    step: str | None = head
    while step is not None and step in outline and step not in path:
        path.add(step)
        step = outline[step].parent
    positions = {
        keys[id_]: (passage.position, id_ in path)
        for id_, passage in outline.items()
        if passage.canonical != (id_ in path)
    }
    passage_sql.renumber(db, positions)


# -- changing documents ---


def revise(db: Database, id: str, change: Callable[[Document], Document], index: TextIndex) -> int:
    """See Store.revise."""
    key = key_of(db, id)
    stored = read(db, key)
    revision = change(stored)
    keys = dict(db.rows(f"select id, key from passage where {db.own()} and document = ?", (key,)))
    count = 0
    for before, after in zip(stored.passages, revision.passages, strict=True):
        if after is before:
            continue
        row = passage_row(after, before.position, before.canonical)
        if row[0] != passage_digest(before):
            passage_sql.replace_passage(db, keys[identifier(before.id)], row, index)
            count += 1
    document = replace(stored, title=revision.title, metadata=revision.metadata)
    if not count and document == stored:
        return 0
    passage_sql.update_document(db, key, document_row(document), index)
    passage_sql.increment_version(db, key)
    if document.title != stored.title:
        receipts.forget_names(db, [stored.title])
    delete_observations(db, key, index)
    receipts.delete_document_states(db, key)
    return count


# -- deleting ---


def delete_passage(db: Database, id: str, passage: str, index: TextIndex) -> Passage:
    """See Store.delete_passage."""
    key = key_of(db, id)
    deleted_key = passage_key(db, id, passage)
    deleted_passage = decode_passage(read_row(db, deleted_key))
    has_replies = db.get(
        f"select 1 from passage where {db.own()} and document = ? and parent = ? limit 1",
        (key, identifier(passage)),
    )
    if has_replies:
        raise Conflict(f"Message {truncate(passage, 80)!r} has replies. Delete them first.")
    delete_observations(db, key, index)
    parent = None
    if deleted_passage.parent is not None:
        parent = identifier(deleted_passage.parent)
    db.run(
        f"update document set head = ? where {db.own()} and key = ? and head = ?",
        (parent, key, identifier(passage)),
    )
    passage_sql.delete_passages(db, {key: [deleted_key]}, index)
    passage_sql.reorder(db, key, index)
    passage_sql.increment_version(db, key)
    return deleted_passage


def pop(db: Database, id: str, index: TextIndex) -> Document:
    """See Store.pop."""
    key = key_of(db, id)
    document = read(db, key)
    delete(db, key, index)
    return document


def delete(db: Database, document: int, index: TextIndex) -> None:
    """Delete a document and its observations."""
    receipts.forget_document(db, document)
    db.run(
        f"delete from undo where {db.own()} and document = "
        f"(select d.id from document d where {db.own('d')} and d.key = ?)",
        (document,),
    )
    delete_observations(db, document, index)
    _delete(db, document, index)


def delete_observations(db: Database, conversation: int, index: TextIndex) -> bool:
    """Delete the observations of a conversation and mark it as unobserved.

    Returns whether there were any.
    """
    rows = db.rows(
        "select o.key from document o join document d on d.id = o.source_id "
        f"where {db.own('o', 'd')} and d.key = ? and o.source = ?",
        (conversation, OBSERVATIONS),
    )
    for (key,) in rows:
        _delete(db, key, index)
    db.run(
        f"update document set observed = 0 where {db.own()} and key = ? and observed <> 0",
        (conversation,),
    )
    return bool(rows)


def _delete(db: Database, document: int, index: TextIndex) -> None:
    rows = db.rows(f"select key from passage where {db.own()} and document = ?", (document,))
    passage_sql.delete_passages(db, {document: [key for (key,) in rows]}, index)
    db.run(f"delete from document where {db.own()} and key = ?", (document,))
