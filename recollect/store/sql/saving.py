"""Save documents: create new ones, merge conversations, rewrite everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

from recollect.errors import Conflict, ImportUndone, InvalidInput
from recollect.language.text import identifier, truncate
from recollect.model.audience import is_human_only
from recollect.model.documents import Document, Passage, places
from recollect.store.sql import passages as passage_sql
from recollect.store.sql import receipts
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import (
    document_row,
    heading,
    passage_digest,
    passage_row,
)
from recollect.store.sql.lookup import key_of, read, read_header, read_row
from recollect.store.sql.merging import (
    is_older,
    keep_creation_date,
    keep_personal_fields,
    merge_fields,
    merge_headers,
    merge_outlines,
    unique_passages,
)
from recollect.store.values import SaveResult

# Columns that do not count as a change of a rewritten document.
_MINOR_COLUMNS = ("head", "updated_at")


def save(
    db: Database,
    index: TextIndex,
    documents: Sequence[Document],
    receipt: int | None,
    index_ids: bool = False,
    only_new: bool = False,
) -> list[SaveResult]:
    """See Store.save."""
    if not documents:
        return []
    if receipt is not None:
        require_active(db, receipt)
    saver = _Saver(db, index, documents, receipt, index_ids)
    results = [saver.save(document, only_new) for document in documents]
    saver.flush()
    return results


def require_active(db: Database, receipt: int) -> None:
    """Raise ImportUndone if a running import was undone: nobody could undo what follows."""
    is_undone = db.get(
        f"select 1 from receipt where {db.own()} and id = ? and undone_at is not null", (receipt,)
    )
    if is_undone:
        raise ImportUndone(f"Import {receipt} was undone while it was running, so it was stopped.")


def rewrite(
    db: Database, index: TextIndex, id: str, replacement: Document, version: int | None
) -> SaveResult:
    """See Store.rewrite."""
    key = key_of(db, id)
    stored = read_header(db, key)
    if not passage_sql.is_rewritable(stored.kind):
        raise InvalidInput(
            f"{truncate(id, 80)!r} is a conversation and cannot be rewritten. Add messages instead."
        )
    if version is not None and version != stored.version:
        raise Conflict(
            f"{truncate(id, 80)!r} has changed: it is now version {stored.version}, not {version}. "
            "Read it again and apply your change to the current text."
        )
    return _Saver(db, index, [replacement], None, False).rewrite(key, replacement)


class _Saver:
    """Saves documents in one transaction.

    It looks up all documents at once, and collects the rows of new documents to insert them
    together.
    """

    def __init__(
        self,
        db: Database,
        index: TextIndex,
        documents: Sequence[Document],
        receipt: int | None,
        index_ids: bool,
    ) -> None:
        self._db = db
        self._index = index
        self._receipt = receipt
        self._index_ids = index_ids
        self._next_passage: int = db.get(f"select passage + 1 from {db.own_rows('last_key')}")
        self._next_document: int = db.get(
            f"select coalesce(max(key), 0) + 1 from {db.own_rows('document')}"
        )
        self._stored_keys = self._find_stored(documents)
        self._used_ids = self._find_used_ids(documents)
        self._shared: dict[tuple[str, str], int] = {}
        """Passages with shared ids that this transaction added: (source, id) and document."""
        self._document_rows: list[dict[str, Any]] = []
        self._passage_rows: list[tuple[Any, ...]] = []
        self._may_be_human_only: list[tuple[Any, ...]] = []
        """The passage rows whose metadata has to be examined."""
        self._index_rows: list[IndexRow] = []
        self._receipt_rows: list[tuple[Any, ...]] = []

    def _find_stored(self, documents: Iterable[Document]) -> dict[tuple[str, str], int]:
        """The keys of the documents that are stored already, by source and source id."""
        ids_by_source: dict[str, list[str]] = {}
        for document in documents:
            ids = ids_by_source.setdefault(identifier(document.source), [])
            ids.append(identifier(document.source_id))
        keys: dict[tuple[str, str], int] = {}
        for source, ids in ids_by_source.items():
            members, value = self._db.in_list(ids)
            rows = self._db.rows(
                "select source_id, key from document "
                f"where {self._db.own()} and source = ? and source_id in ({members})",
                (source, value),
            )
            keys |= {(source, id_): key for id_, key in rows}
        return keys

    def _find_used_ids(self, documents: Iterable[Document]) -> set[str]:
        """The preferred ids of the documents that other documents have already."""
        ids = [identifier(id_) for document in documents for id_ in preferred_ids(document)]
        members, value = self._db.in_list(ids)
        rows = self._db.rows(
            f"select id from document where {self._db.own()} and id in ({members})", (value,)
        )
        return {id_ for (id_,) in rows}

    def save(self, document: Document, only_new: bool) -> SaveResult:
        key = self._stored_keys.get((identifier(document.source), identifier(document.source_id)))
        document = replace(document, passages=unique_passages(document.passages))
        if key is None:
            return self._create(document)
        if only_new:
            self.flush()  # the document may be in the collected rows
            return SaveResult(read_header(self._db, key).id, False)
        return self._merge(key, document)

    def flush(self) -> None:
        """Insert the collected rows."""
        if self._document_rows:
            columns = tuple(self._document_rows[0])
            rows = [tuple(row.values()) for row in self._document_rows]
            self._db.insert("document", columns, rows)
        if self._passage_rows:
            passage_sql.insert_passages(self._db, self._passage_rows, self._may_be_human_only)
            self._db.run(
                f"update last_key set passage = ? where {self._db.own()}",
                (self._next_passage - 1,),
            )
            self._index.add(self._index_rows)
        if self._receipt_rows:
            columns = ("receipt", "document", "before")
            self._db.insert("receipt_document", columns, self._receipt_rows)
        self._document_rows, self._passage_rows, self._may_be_human_only = [], [], []
        self._index_rows, self._receipt_rows = [], []

    # -- new documents ---

    def _create(self, document: Document) -> SaveResult:
        passages, copies = self._without_copies(document, document.passages, 0)
        if copies and not passages:
            return SaveResult("", False, copies=copies)
        head, order = places(passages, document.head)
        document = replace(document, id=self._unused_id(document), head=head)
        key = self._next_document
        self._next_document += 1
        self._stored_keys[identifier(document.source), identifier(document.source_id)] = key
        row = document_row(document)
        opening = None
        if order:
            opening = self._next_passage
        self._document_rows.append(
            {
                "key": key,
                **row,
                **self._db.derived_columns(row),
                "opening": opening,
                "passages": len(order),
            }
        )
        title = heading(row) or row["title"]
        for position, (n, canonical) in enumerate(order):
            self._add(key, document, passages[n], (position, canonical), title)
            title = ""  # only the opening passage carries it
        if self._receipt is not None:
            before = receipts.NEW if passage_sql.is_rewritable(document.kind) else None
            self._receipt_rows.append((self._receipt, key, before))
        return SaveResult(document.id, True, new=len(order), copies=copies)

    def _unused_id(self, document: Document) -> str:
        """The source's own id, or one with the source's name if another document has that id."""
        preferred = preferred_ids(document)
        numbered = (f"{preferred[-1]}#{n}" for n in count(2))
        for id_ in chain(preferred, numbered):
            # The preferred ids were looked up for all documents at once.
            is_used = identifier(id_) in self._used_ids
            if not is_used and id_ not in preferred:
                sql = f"select 1 from document where {self._db.own()} and id = ?"
                is_used = self._db.get(sql, (identifier(id_),)) is not None
            if not is_used:
                break
        self._used_ids.add(identifier(id_))
        return id_

    def _add(
        self,
        key: int,
        document: Document,
        passage: Passage,
        place: tuple[int, bool],
        title: str = "",
    ) -> None:
        """Collect the row of a new passage at a place (position, canonical)."""
        passage_key = self._next_passage
        self._next_passage += 1
        has_indexed_id = document.shared_ids or self._index_ids
        columns = passage_row(passage, *place)
        row = (passage_key, key, self._receipt, has_indexed_id, *columns)
        self._passage_rows.append(row)
        if is_human_only(passage):
            self._may_be_human_only.append(row)
        self._index_rows.append((passage_key, title, row[-1]))
        if document.shared_ids:
            self._shared[document.source, identifier(passage.id)] = key

    def _without_copies(
        self, document: Document, passages: Sequence[Passage], key: int
    ) -> tuple[Sequence[Passage], int]:
        """The passages that no other document of the source has, and the number of the others."""
        if not document.shared_ids or not passages:
            return passages, 0
        ids = [identifier(passage.id) for passage in passages]
        has_id, value = self._db.has_id_in(ids, "p")
        rows = self._db.rows(
            "select p.id, p.document from passage p join document d on d.key = p.document "
            f"where {self._db.own('p', 'd')} and p.shared and {has_id} "
            "and d.source = ? and d.key <> ?",
            (value, document.source, key),
        )
        copied_ids = {id_ for id_, _ in rows}
        for other in sorted({other for _, other in rows}):
            receipts.record(self._db, self._receipt, other, None)
        own = []
        for passage in passages:
            id_ = identifier(passage.id)
            if id_ not in copied_ids and self._shared.get((document.source, id_), key) == key:
                own.append(passage)
        return own, len(passages) - len(own)

    # -- conversations ---

    def _merge(self, key: int, document: Document) -> SaveResult:
        """Add what is new in a document to the stored one, and replace what changed."""
        self.flush()  # the document may be in the collected rows
        stored = read_header(self._db, key)
        replaces = not document.partial and not is_older(document, stored)
        if passage_sql.is_rewritable(stored.kind, document.kind):
            document = keep_creation_date(document, stored)
            if replaces:
                return self._replace(key, stored, keep_personal_fields(document, stored))
            return self._compare(key, stored, document)
        rows = self._db.rows(
            f"select id, key, digest, receipt from passage where {self._db.own()} and document = ?",
            (key,),
        )
        stored_passages = {row[0]: row[1:] for row in rows}
        result = SaveResult(stored.id, False)
        if self._receipt is not None:
            result.created_earlier = bool(rows) and all(row[3] == self._receipt for row in rows)
        unknown = [p for p in document.passages if identifier(p.id) not in stored_passages]
        new, result.copies = self._without_copies(document, unknown, key)
        result.new = len(new)
        replaced_rows = self._merge_passages(document, stored_passages, replaces, result)
        if replaces:
            new_row = document_row(merge_headers(document, stored))
            result.document_changed = document_row(stored) != new_row
            if result.document_changed:
                passage_sql.update_document(self._db, key, new_row, self._index)
        before = None
        if result.new or result.changed or result.document_changed:
            self._arrange(key, stored, document, new, replaces)
            passage_sql.increment_version(self._db, key)
        if result.document_changed or replaced_rows:
            date = read_header(self._db, key).updated_at
            before = receipts.state_of(stored, replaced_rows, date)
        receipts.record(self._db, self._receipt, key, before)
        return result

    def _merge_passages(
        self,
        document: Document,
        stored_passages: Mapping[str, tuple[Any, ...]],
        replaces: bool,
        result: SaveResult,
    ) -> list[tuple[Any, ...]]:
        """Compare passages with the stored ones, and count them. The rows that were replaced."""
        replaced_rows = []
        for passage in document.passages:
            if identifier(passage.id) not in stored_passages:
                continue
            passage_key, digest, receipt = stored_passages[identifier(passage.id)]
            is_same = passage_digest(passage) == digest
            if is_same:
                result.same += 1
                result.repeated += receipt is not None and receipt == self._receipt
            elif replaces:
                result.changed += 1
                stored_row = read_row(self._db, passage_key)
                row = passage_row(passage, *stored_row[1:3])  # its position and canonical flag
                passage_sql.replace_passage(self._db, passage_key, row, self._index)
                replaced_rows.append(stored_row)
            else:
                result.outdated += 1
        return replaced_rows

    def _arrange(
        self,
        key: int,
        stored: Document,
        document: Document,
        new: Sequence[Passage],
        replaces: bool,
    ) -> None:
        """Add new passages and number all passages again."""
        stored_outline, keys = passage_sql.load_outline(self._db, key)
        outline = merge_outlines(stored_outline, document, new, replaces)
        head = None
        if replaces and document.head:
            head = identifier(document.head)
        elif not new:
            head = stored.head
        passages = list(outline.values())
        head, order = places(passages, head)
        new_places = {
            passages[n].id: (position, canonical) for position, (n, canonical) in enumerate(order)
        }
        for passage in new:
            self._add(key, document, passage, new_places[identifier(passage.id)])
        moved_places = {
            keys[id_]: place
            for id_, place in new_places.items()
            if id_ in stored_outline
            and place != (stored_outline[id_].position, stored_outline[id_].canonical)
        }
        passage_sql.renumber(self._db, moved_places)
        self._db.run(
            "update document set head = ?, passages = passages + ? "
            f"where {self._db.own()} and key = ?",
            (head, len(new), key),
        )
        self.flush()
        passage_sql.ensure_opening(self._db, key, self._index)

    # -- other documents ---

    def rewrite(self, key: int, document: Document) -> SaveResult:
        """See Store.rewrite."""
        stored = read_header(self._db, key)
        document = replace(document, passages=unique_passages(document.passages))
        is_newer = document.updated_at is not None and not is_older(document, stored)
        if not is_newer or document.updated_at == stored.updated_at:
            now = datetime.now(UTC)
            document = replace(document, updated_at=max(stored.updated_at or now, now))
        return self._replace(key, stored, document)

    def _compare(self, key: int, stored: Document, document: Document) -> SaveResult:
        """Count the passages that are the same, without changing anything."""
        rows = self._db.rows(
            f"select digest from passage where {self._db.own()} and document = ?", (key,)
        )
        digests = {digest for (digest,) in rows}
        same = sum(passage_digest(passage) in digests for passage in document.passages)
        outdated = len(document.passages) - same
        repeated, is_own = self._earlier_attempt(key, document)
        receipts.record(self._db, self._receipt, key, None)
        return SaveResult(
            stored.id,
            False,
            same=same,
            outdated=outdated,
            repeated=repeated,
            created_earlier=is_own,
        )

    def _replace(self, key: int, stored: Document, document: Document) -> SaveResult:
        """Replace all of a document, and remember the old state in the receipt."""
        whole = None
        if self._receipt is not None:
            whole = read(self._db, key)
        repeated, is_own = self._earlier_attempt(key, document)
        head, rows = passage_sql.passage_rows(document)
        has_indexed_ids = document.shared_ids or self._index_ids
        replacement = passage_sql.rewrite_passages(
            self._db, self._index, key, rows, self._receipt, has_indexed_ids
        )
        self._next_passage = self._db.get(
            f"select passage + 1 from {self._db.own_rows('last_key')}"
        )
        if not replacement:
            head = stored.head
        old_row = document_row(stored)
        new_document = replace(merge_fields(document, stored), head=head)
        new_row = document_row(new_document)
        before = None
        result = SaveResult(
            stored.id,
            False,
            new=replacement.new,
            same=replacement.same,
            changed=replacement.changed,
            removed=replacement.removed,
            document_changed=differ(old_row, new_row),
            repeated=min(repeated, replacement.same),
            created_earlier=is_own,
        )
        if replacement or result.document_changed:
            passage_sql.update_document(self._db, key, new_row, self._index)
            passage_sql.increment_version(self._db, key)
            if whole is None:
                receipts.detach_from_imports(self._db, key)
            else:
                _, whole_rows = passage_sql.passage_rows(whole)
                before = receipts.state_of(whole, whole_rows, new_document.updated_at)
        receipts.record(self._db, self._receipt, key, before)
        return result

    def _earlier_attempt(self, key: int, document: Document) -> tuple[int, bool]:
        """What this import had stored of a rewritable document before it was interrupted.

        That is the number of its passages, and whether the import had created the document.
        """
        if self._receipt is None:
            return 0, False
        own = self._db.own()
        states = self._db.rows(
            f"select before from receipt_document where {own} and receipt = ? and document = ?",
            (self._receipt, key),
        )
        if not states:
            return 0, False
        rows = self._db.rows(
            f"select digest from passage where {own} and document = ? and receipt = ?",
            (key, self._receipt),
        )
        digests = {digest for (digest,) in rows}
        count = sum(passage_digest(passage) in digests for passage in document.passages)
        return count, states[0][0] == receipts.NEW


def differ(old_row: Mapping[str, Any], new_row: Mapping[str, Any]) -> bool:
    """Whether two rows of a document differ in a column that counts as a change."""
    return any(old_row[name] != new_row[name] for name in new_row if name not in _MINOR_COLUMNS)


def preferred_ids(document: Document) -> tuple[str, str]:
    id_ = document.id or document.source_id
    return id_, f"{document.source}:{id_}"
