"""The receipts of imports, in SQL."""

from __future__ import annotations

from recollect.model.receipts import Receipt
from recollect.store.contract.receipts import Receipts
from recollect.store.sql.database import TextIndex
from recollect.store.sql.imports import receipts as receipt_sql
from recollect.store.sql.parts.transactions import Connection, SqlTransactions


class SqlReceipts(SqlTransactions[Connection], Receipts):
    def start_import(self, path: str, job: str = "") -> Receipt:
        return self._write(lambda db: receipt_sql.start_import(db, path, job))

    def update_receipt(self, receipt: Receipt) -> None:
        self._write(lambda db: receipt_sql.update_receipt(db, receipt))

    def finish_import(self, receipt: Receipt) -> None:
        self.update_receipt(receipt)
        self._complete_vocabulary()

    def receipts(self) -> list[Receipt]:
        return self._read(receipt_sql.all_receipts)

    def undo_import(self, receipt: int) -> Receipt:
        def work(db: Connection, index: TextIndex) -> Receipt:
            undone_receipt = receipt_sql.undo_import(db, receipt, index)
            self._drop_outdated_copies(db)
            return undone_receipt

        return self._delete_text(work)
