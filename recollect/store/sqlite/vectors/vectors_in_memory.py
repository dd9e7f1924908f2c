"""The vectors of an encrypted library: stored in the database only, and scanned in memory.

Files with vectors would not be encrypted, and the text can be guessed from its vector. So all
vectors stay in the table `new_vector`. The first search of a process reads them into memory; later
ones read those that are new. Numbers of rows are never used again, so if the table has as many rows
as there are in memory, they are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.model.search import Filter
from recollect.store.sql.vectors.quantisation import Integers, Vector
from recollect.store.sql.vectors.spaces import all_spaces
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.vectors.row_filter import ROW, Columns, Key
from recollect.store.sqlite.vectors.space_rows import SpaceRows
from recollect.store.sqlite.vectors.vector_search import VectorSearch
from recollect.store.sqlite.vectors.vector_table import uncopied_rows
from recollect.store.sqlite.vectors.vector_upkeep import VectorUpkeep
from recollect.store.values import Space


class MemorySearch(VectorSearch):
    """Scans rows in memory instead of files."""

    def nearest(
        self, db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        self._load(db, space)
        return super().nearest(db, space, vector, filter, limit)

    def highest_cosines(
        self, db: Connection, space: Space, vectors: Sequence[Vector]
    ) -> list[float]:
        self._load(db, space)
        return super().highest_cosines(db, space, vectors)

    def _load(self, db: Connection, space: Space) -> None:
        """Bring the vectors in memory up to date with the table."""
        with self._lock:
            rows = self._open_rows.get(space.id)
            if not isinstance(rows, _RowsInMemory):
                rows = _RowsInMemory(space)
            rows = rows.with_new_rows(db)
            if len(rows) != _count(db, space):  # some were deleted
                rows = _RowsInMemory(space).with_new_rows(db)
            self._open_rows[space.id] = rows

    def _rows(self, space: Space) -> SpaceRows:
        with self._lock:
            return self._open_rows.get(space.id) or _RowsInMemory(space)


class TableUpkeep(VectorUpkeep):
    """There are no files, so nothing is copied and nothing is wiped."""

    def refresh(self) -> None:
        """Queue vectors for embedding that were in files, before the library was encrypted."""
        with self._connections.read() as db:
            spaces = all_spaces(db)
        for space in spaces:
            self._queue_lost(space)
        self._connections.write(lambda db: db.run("delete from wiped"))

    def wipe(self) -> bool:
        return True


class _RowsInMemory:
    """The vectors of a space. An object of this class never changes."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._attributes: NDArray[Any] = np.empty(0, ROW)
        self._integers: Integers = np.empty((0, space.dimensions), np.int8)

    def with_new_rows(self, db: Connection) -> _RowsInMemory:
        """These rows, and those that the table has after them."""
        batches = list(uncopied_rows(db, self._space, self.last_row))
        if not batches:
            return self
        longer = _RowsInMemory(self._space)
        longer._attributes = np.concatenate([self._attributes, *(rows for rows, _ in batches)])
        longer._integers = np.concatenate([self._integers, *(values for _, values in batches)])
        return longer

    def __len__(self) -> int:
        return len(self._attributes)

    @property
    def last_row(self) -> int:
        if not len(self):
            return 0
        return int(self._attributes["row"][-1])

    def batches(self, start: int = 0) -> Iterator[slice]:
        if start < len(self):
            yield slice(start, len(self))

    def part(self, rows: slice) -> tuple[Columns, Integers]:
        return lambda name: self._attributes[name][rows], self._integers[rows]

    def is_outdated(self) -> bool:
        return False

    def read(self, pairs: NDArray[Key]) -> tuple[list[int], Integers, Vector]:
        """Vectors that are not in the table are lost."""
        return [], self._integers[:0], np.empty(0, np.float32)

    def find(self, passages: Sequence[int]) -> tuple[list[int], Integers, Vector] | None:
        return None


def _count(db: Connection, space: Space) -> int:
    """The number of vectors that are stored in the database."""
    query = (
        "select count(*) from vector v join space s on s.id = v.space "
        "where v.space = ? and v.row > s.copied"
    )

    def count() -> int:
        number: int = db.get(query, (space.id,))
        return number

    return db.memoize(("vectors", space.id), count)
