"""The spaces of vectors and what is left to embed, in SQL. Each engine stores the vectors."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.store.contract.vectors import Vectors
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.sql.vectors import spaces as space_sql
from recollect.store.values import Space, Unembedded


class SqlVectors(SqlTransactions[Connection], Vectors):
    def spaces(self) -> list[Space]:
        return self._read(space_sql.all_spaces)

    def add_space(
        self, name: str, version: str, dimensions: int, model_state: bytes | None
    ) -> Space:
        return self._write(lambda db: space_sql.add(db, name, version, dimensions, model_state))

    def drop_space(self, space: Space) -> None:
        self._write(lambda db: space_sql.drop(db, space))
        self._clear_dropped_spaces()

    def _clear_dropped_spaces(self) -> None:
        """Delete the vectors of dropped spaces, a batch per transaction."""
        more = True
        while more:
            more = self._write(space_sql.clear_dropped)

    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        return self._read(lambda db: space_sql.unembedded(db, space, limit))

    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        return self._read(lambda db: space_sql.vectorless(db, space, after, limit))

    def queue(self, space: Space, passages: Sequence[int]) -> None:
        self._write(lambda db: space_sql.queue(db, space, passages))

    def mark_space_ready(self, space: Space) -> None:
        self._write(lambda db: space_sql.mark_ready(db, space))

    def calibrate_space(self, space: Space, noise_floor: float, size: int) -> None:
        self._write(lambda db: space_sql.calibrate(db, space, noise_floor, size))
