"""Edits that can be undone, in SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from recollect.model.undo import Change, Edit
from recollect.store.contract.undo_log import UndoLog
from recollect.store.sql.database import TextIndex
from recollect.store.sql.imports import undo as undo_sql
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.sql.reading import lookup


class SqlUndoLog(SqlTransactions[Connection], UndoLog):
    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        def work(db: Connection, index: TextIndex) -> Change | None:
            change = undo_sql.edit(db, document, edit, until, index)
            if edit.title is not None or edit.remove_tags:
                self._drop_document_copies(db, lookup.key_of(db, document))
                self._request_purge(db)
            return change

        change = self._write_text(work)
        self._purge_if(edit.title is not None or bool(edit.remove_tags))
        return change

    def trash(self, document: str, until: datetime) -> Change:
        return self._delete_text(lambda db, index: undo_sql.trash(db, document, until, index))

    def undo_log(self) -> list[Change]:
        return self._read(lambda db: undo_sql.undo_log(db, datetime.now(UTC)))

    def undo_state(self, number: int) -> dict[str, Any]:
        return self._read(lambda db: undo_sql.undo_state(db, number))

    def revert(self, number: int) -> Change:
        return self._delete_text(lambda db, index: undo_sql.revert(db, number, index))

    def clear_undo_log(self, *, expired: bool = False) -> int:
        until = None
        if expired:
            until = datetime.now(UTC)
        if not self._read(lambda db: undo_sql.has_entries(db, until)):
            return 0

        def work(db: Connection) -> int:
            self._request_purge(db)
            return undo_sql.clear(db, until)

        count = self._write(work)
        self.purge()
        return count
