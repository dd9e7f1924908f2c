"""Moving a library from one store to another, in SQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from recollect.store.contract.transfer import Transfer
from recollect.store.sql import markers
from recollect.store.sql.copying import closing, handover, transfer
from recollect.store.sql.database import TextIndex
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.values import Batch, Closure, Contents, Fingerprints


class SqlTransfer(SqlTransactions[Connection], Transfer):
    def export_batches(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        return self._read(lambda db: transfer.export_batches(db, receive))

    def import_batch(self, batch: Batch) -> str | None:
        self.join_move()

        def work(db: Connection, index: TextIndex) -> transfer.Import:
            result = transfer.import_batch(db, batch, index)
            if result.has_removed:
                self._request_purge(db)
            return result

        result = self._write_text(work)
        if batch.is_last:
            self._complete_vocabulary()
        return result.correction

    def fingerprints(self) -> Fingerprints:
        return self._read(handover.fingerprints)

    def export_changes(self, copy: Fingerprints, receive: Callable[[Batch], None]) -> int:
        return self._read(lambda db: handover.export_changes(db, copy, receive)[0])

    def hand_over(
        self,
        copy: Fingerprints,
        receive: Callable[[Batch], None],
        seconds: float,
        close: Callable[[str], Closure | None],
    ) -> None:
        def work(db: Connection) -> None:
            deadline = time.monotonic() + seconds
            _, state = handover.export_changes(db, copy, receive, deadline)
            handover.require_time(deadline)
            reason = close(state)
            if reason is not None:
                closing.close(db, reason)

        self._write(work)

    def rows_in_range(self, batch: Batch) -> list[tuple[Any, ...]]:
        return self._read(lambda db: handover.rows_in_range(db, batch))

    def closure(self) -> Closure | None:
        return self._read(closing.closure)

    def complete_move(self) -> None:
        def work(db: Connection) -> None:
            markers.set_marker(db, transfer.MOVING, None)
            closing.close(db, None)

        self.join_move()
        self._write(work)
        self.purge()

    def get_marker(self, name: str) -> int | None:
        return self._read(lambda db: markers.get_marker(db, name))

    def set_marker(self, name: str, number: int | None) -> None:
        self._write(lambda db: markers.set_marker(db, name, number))
