"""Documents and their passages, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from recollect.errors import DamagedLibrary, NotFound
from recollect.model.documents import Document, Passage, Position, Summary
from recollect.model.search import Filter
from recollect.store.contract.documents import Documents
from recollect.store.errors import damaged_document, reason_of
from recollect.store.sql.database import TextIndex
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.sql.reading import listing, lookup, times
from recollect.store.sql.writing import changes, forgetting, moves, rewriting, saving
from recollect.store.values import Appended, Forgotten, ListPosition, OnDamage, Removal, SaveResult


class SqlDocuments(SqlTransactions[Connection], Documents):
    def save(
        self,
        documents: Sequence[Document],
        receipt: int | None = None,
        index_ids: bool = False,
        skip_forgotten: bool = False,
        only_new: bool = False,
    ) -> list[SaveResult]:
        def work(db: Connection, index: TextIndex) -> list[SaveResult]:
            if skip_forgotten:
                results = forgetting.save_remembered(db, index, documents, receipt, index_ids)
            else:
                results = saving.save(db, index, documents, receipt, index_ids, only_new)
            if _has_removed_text(results):
                self._request_purge(db)
            return results

        results = self._write_text(work)
        # During an import, this is done once at its end.
        if receipt is None:
            self._complete_vocabulary()
        self._purge_if(_has_removed_text(results))
        return results

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        def work(db: Connection, index: TextIndex) -> SaveResult:
            result = saving.rewrite(db, index, document, replacement, version)
            self._drop_document_copies(db, lookup.key_of(db, result.id))
            self._request_purge(db)
            return result

        result = self._write_text(work)
        self._complete_vocabulary()
        self.purge()
        return result

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        def work(db: Connection, index: TextIndex) -> int:
            count = changes.revise(db, document, change, index)
            self._drop_document_copies(db, lookup.key_of(db, document))
            self._request_purge(db)
            return count

        count = self._write_text(work)
        self._complete_vocabulary()
        self.purge()
        return count

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        def work(db: Connection, index: TextIndex) -> Appended:
            return changes.append(db, document, passage, index, expected_passages)

        return self._write_text(work)

    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        return self._write_text(
            lambda db, index: changes.extend(db, document, passages, index, require_same)
        )

    def update(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        def work(db: Connection, index: TextIndex) -> bool:
            if not changes.update(db, document, index, title, project, metadata):
                return False
            self._drop_document_copies(db, lookup.key_of(db, document))
            self._request_purge(db)
            return True

        self._purge_if(self._write_text(work))

    def count_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        return self._read(lambda db: rewriting.count_undo_states(db, is_unwanted))

    def delete_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        def work(db: Connection) -> int:
            self._request_purge(db)
            return rewriting.delete_undo_states(db, is_unwanted)

        count = self._write(work)
        self.purge()
        return count

    def delete_passage(self, document: str, passage: str) -> Passage:
        return self._delete_text(
            lambda db, index: changes.delete_passage(db, document, passage, index)
        )

    def delete(self, document: str) -> None:
        self._delete_text(lambda db, index: changes.delete(db, lookup.key_of(db, document), index))

    def pop(self, document: str) -> Document:
        return self._delete_text(lambda db, index: changes.pop(db, document, index))

    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        def work(db: Connection, index: TextIndex) -> Forgotten:
            result = Forgotten()
            for removal in removals:
                key = forgetting.forget(db, index, removal, result)
                if key is not None:
                    self._drop_document_copies(db, key)
            return result

        return self._delete_text(work)

    def document(self, id: str) -> Document:
        return self._read(lambda db: lookup.read(db, lookup.key_of(db, id)))

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        return self._read(lambda db: lookup.read_all(db, ids))

    def header(self, id: str) -> Document:
        return self._read(lambda db: lookup.read_header(db, lookup.key_of(db, id)))

    def summary(self, id: str) -> Summary:
        return self._read(lambda db: lookup.summary(db, id))

    def summaries(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        return self._search(lambda db: lookup.summaries(db, filter, search, limit, offset))

    def list_position(self, id: str, filter: Filter, search: str) -> int | None:
        return self._read(lambda db: lookup.list_position(db, id, filter, search))

    def last_move(self) -> int:
        return self._read(moves.last_move)

    def summaries_after(
        self, filter: Filter, search: str, limit: int, order: str, after: ListPosition
    ) -> tuple[list[Summary], ListPosition | None]:
        return self._search(
            lambda db: listing.summaries_after(db, filter, search, limit, order, after)
        )

    def ids_with_prefix(self, prefix: str, limit: int) -> list[str]:
        return self._read(lambda db: lookup.ids_with_prefix(db, prefix, limit))

    def passage_ids_with_prefix(self, document: str, prefix: str, limit: int) -> list[str]:
        return self._read(lambda db: lookup.passage_ids_with_prefix(db, document, prefix, limit))

    def find_id(self, source: str, source_id: str) -> str | None:
        return self._read(lambda db: lookup.find_id(db, source, source_id))

    def documents_containing(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        return self._read(lambda db: lookup.documents_containing(db, source, passages))

    def iter_documents(
        self, filter: Filter, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        for key in self._read(lambda db: lookup.keys(db, filter)):
            try:
                document = self._read(partial(lookup.read, key=key))
            except NotFound:  # deleted in the meantime
                continue
            except DamagedLibrary as error:
                id_ = self._id_of_damaged(key)
                if on_damage is None:
                    raise damaged_document(id_, error) from error
                on_damage(id_, reason_of(error))
                continue
            yield document

    def _id_of_damaged(self, key: int) -> str:
        try:
            return str(self._read(partial(lookup.id_of, key=key)))
        except DamagedLibrary:
            return f"row {key}"

    def is_linear(self, id: str) -> bool:
        return self._read(lambda db: lookup.is_linear(db, id))

    def positions(self, id: str) -> list[Position]:
        return self._read(lambda db: lookup.positions(db, id))

    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        return self._read(lambda db: lookup.passage_page(db, id, position, limit))

    def passage_key(self, document: str, passage: str) -> int:
        return self._search(lambda db: lookup.passage_key(db, document, passage))

    def passages_by_id(self, document: str, ids: Sequence[str]) -> list[Passage]:
        return self._read(lambda db: lookup.passages_by_id(db, document, ids))

    def passages_by_key(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        return self._read(lambda db: lookup.passages_by_key(db, keys))

    def passages_with_summaries(self, keys: Sequence[int]) -> dict[int, tuple[Summary, Passage]]:
        return self._read(lambda db: lookup.passages_with_summaries(db, keys))

    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        return self._search(lambda db: db.human_only(keys))

    def change_times(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        return self._read(lambda db: times.change_times(db, keys))


def _has_removed_text(results: Sequence[SaveResult]) -> bool:
    return any(result.removed for result in results)
