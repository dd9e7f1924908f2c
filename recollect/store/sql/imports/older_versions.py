"""What other imports have of documents, in older versions, when an import is undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recollect.language.text import identifier, micros
from recollect.model.documents import Document
from recollect.model.receipts import Receipt
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import document_row
from recollect.store.sql.reading.lookup import read_header
from recollect.store.sql.writing import forgetting, passages, rewriting, unused_versions
from recollect.store.sql.writing.merging import is_older, merge_headers


class OlderVersions:
    """The versions of documents that other imports contain and that were not used.

    Create it before an import is undone, and save them afterwards.
    """

    def __init__(self, db: Database, receipt: Receipt, states: Mapping[int, str | None]) -> None:
        """`states` are the documents of the import, with their states before it."""
        self._db = db
        self._receipt = receipt
        self._versions = self._read()
        """The versions by the key of the document and the number of the import."""
        self._without_fields = {
            document
            for document in self._versions
            if states[document] is None and self._is_only_in(receipt.id, document)
        }
        """Documents whose title and dates are only from the import that is undone."""

    def _read(self) -> dict[int, dict[int, Document]]:
        rows = self._db.rows(
            "select document, receipt, before from receipt_document "
            f"where {self._db.own()} and document in (select r.document from receipt_document r "
            f"where {self._db.own('r')} and r.receipt = ?) "
            f"and receipt <> ? and {unused_versions.HAS_VERSION} order by document, receipt",
            (self._receipt.id, self._receipt.id),
        )
        versions: dict[int, dict[int, Document]] = {}
        for document, receipt, before in rows:
            version = unused_versions.load_version(before)
            versions.setdefault(document, {})[receipt] = version
        return versions

    def _is_only_in(self, id: int, document: int) -> bool:
        """Whether no other import has the document as it is, and no person has added to it."""
        receipts = self._db.rows(
            f"select receipt from receipt_document where {self._db.own()} and document = ? "
            f"and {unused_versions.IS_USED}",
            (document,),
        )
        has_own_passages = self._db.get(
            f"select 1 from passage where {self._db.own()} and document = ? and receipt is null "
            "limit 1",
            (document,),
        )
        return [receipt for (receipt,) in receipts] == [id] and not has_own_passages

    def save(self, index: TextIndex) -> None:
        """Save what is now the newest version, as if its import ran now."""
        for document, versions in self._versions.items():
            exists = self._db.get(
                f"select 1 from document where {self._db.own()} and key = ?", (document,)
            )
            if exists:
                self._merge(document, versions, index)
            else:
                for receipt, version in versions.items():
                    self._save(receipt, version, index)

    def _save(self, receipt: int, version: Document, index: TextIndex) -> None:
        forgetting.save_remembered(self._db, index, [version], receipt, False)

    def _merge(self, document: int, versions: Mapping[int, Document], index: TextIndex) -> None:
        """Save versions of a document that is not deleted."""
        if document in self._without_fields:
            self._replace_fields(document, next(iter(versions.values())), index)
        older: list[tuple[int, Document]] = []
        for receipt, version in versions.items():
            if version.partial or is_older(version, read_header(self._db, document)):
                older.append((receipt, version))
            else:
                self._set_unused(receipt, document, None)
                self._save(receipt, version, index)
        older.sort(key=lambda item: (micros(item[1].updated_at) or 0, item[0]), reverse=True)
        for receipt, version in older:
            self._save_missing(receipt, document, version, index)

    def _save_missing(
        self, receipt: int, document: int, version: Document, index: TextIndex
    ) -> None:
        """Save the passages of a conversation that are no longer stored in any version."""
        if rewriting.is_rewritable(version.kind):
            return
        rows = self._db.rows(
            f"select id from passage where {self._db.own()} and document = ?", (document,)
        )
        stored_ids = {id_ for (id_,) in rows}
        missing = [p for p in version.passages if identifier(p.id) not in stored_ids]
        if not missing:
            return
        self._save(receipt, replace(version, passages=tuple(missing)), index)
        others = [p for p in version.passages if identifier(p.id) in stored_ids]
        unused = unused_versions.dump_version(version, version.id, others)
        self._set_unused(receipt, document, unused)

    def _set_unused(self, receipt: int, document: int, version: str | None) -> None:
        self._db.run(
            f"update receipt_document set before = ? where {self._db.own()} "
            "and receipt = ? and document = ?",
            (version, receipt, document),
        )

    def _replace_fields(self, key: int, version: Document, index: TextIndex) -> None:
        stored = read_header(self._db, key)
        if stored.updated_at is not None and stored.updated_at > self._receipt.started_at:
            return  # a person has changed it since then
        row = document_row(merge_headers(version, stored))
        passages.update_document(self._db, key, row, index)
