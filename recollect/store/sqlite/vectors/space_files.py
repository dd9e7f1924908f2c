"""The two files of a space: the integers of its vectors, and the attributes of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.sql.vectors.quantisation import Integers, Vector
from recollect.store.sqlite.vectors.row_filter import ROW, Columns, Key
from recollect.store.values import Space

# Bounds the memory that a scan needs.
_ROWS_PER_SCAN = 131_072
# A few rows of the whole space come first: they show how near the nearest are, so that most other
# rows are rejected early.
_ROWS_OF_FIRST_SCAN = 4_096


class SpaceFiles:
    """The two files of a space, as they were when this object was created."""

    def __init__(self, folder: Path, space: Space) -> None:
        self._folder = folder
        self._space = space
        self._attributes_file = folder / f"space-{space.id}.attributes"
        self._integers_file = folder / f"space-{space.id}.vectors"
        self._dimensions = space.dimensions
        self._columns: dict[str, NDArray[Any]] = {}
        self._size = 0
        self._attributes: NDArray[Any] = np.empty(0, ROW)
        self._integers: Integers = np.empty((0, space.dimensions), np.int8)
        try:
            self._map_files()
        except (FileNotFoundError, ValueError):
            # Another process removed or truncated them between looking and mapping.
            self._map_files()

    def _map_files(self) -> None:
        self._size = self._complete_rows()
        if self._size:
            self._attributes = np.asarray(self._map_attributes("r"))
            self._integers = np.asarray(self._map_integers("r"))

    def _map_attributes(self, mode: Any) -> np.memmap[Any, Any]:
        return np.memmap(self._attributes_file, ROW, mode, shape=(self._size,))

    def _map_integers(self, mode: Any) -> np.memmap[Any, Any]:
        shape = (self._size, self._dimensions)
        return np.memmap(self._integers_file, np.int8, mode, shape=shape)

    def __len__(self) -> int:
        return self._size

    @property
    def last_row(self) -> int:
        """The last row of the table that has been copied."""
        if not self._size:
            return 0
        return int(self._attributes["row"][-1])

    def batches(self, start: int = 0) -> Iterator[slice]:
        """The rows from `start` on, in parts that are scanned at once. Some may come twice."""
        step = (self._size - start) // _ROWS_OF_FIRST_SCAN
        if step > 1:
            yield slice(start, self._size, step)
        for batch_start in range(start, self._size, _ROWS_PER_SCAN):
            yield slice(batch_start, min(batch_start + _ROWS_PER_SCAN, self._size))

    def part(self, rows: slice) -> tuple[Columns, Integers]:
        """The attributes and integers of some rows."""
        return lambda name: self._column(name)[rows], self._integers[rows]

    def _column(self, name: str) -> NDArray[Any]:
        """An attribute of all rows as a contiguous array, which is scanned many times faster."""
        if name not in self._columns:
            self._columns[name] = np.ascontiguousarray(self._attributes[name])
        return self._columns[name]

    def is_outdated(self) -> bool:
        return self._complete_rows() != self._size

    def _complete_rows(self) -> int:
        """The number of rows that are complete in both files."""
        return min(
            _file_size(self._attributes_file) // ROW.itemsize,
            _file_size(self._integers_file) // self._dimensions,
        )

    def read(self, pairs: NDArray[Key]) -> tuple[list[int], Integers, Vector]:
        """The passages, integers and scales of pairs (row of the table, passage).

        Rows that the files do not contain are left out: their vectors are lost.
        """
        if not self._size:
            return [], self._integers, np.empty(0, np.float32)
        numbers = self._column("row")
        indexes = np.searchsorted(numbers, pairs[:, 0])
        indexes[indexes == self._size] = 0
        is_same = numbers[indexes] == pairs[:, 0]
        is_same &= self._attributes["passage"][indexes] == pairs[:, 1]
        indexes = indexes[is_same]
        passages: list[int] = pairs[is_same, 1].tolist()
        return passages, self._integers[indexes], self._attributes["scale"][indexes]

    def find(self, passages: Sequence[int]) -> tuple[list[int], Integers, Vector] | None:
        """The passages, integers and scales of all rows of these passages."""
        keys = np.array(passages, Key)
        column = self._column("passage")
        starts = np.searchsorted(column, keys, side="left", sorter=self._order)
        ends = np.searchsorted(column, keys, side="right", sorter=self._order)
        counts = ends - starts
        first_places = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(keys)), counts)
        indexes = starts[owners] + np.arange(len(owners)) - first_places[owners]
        if self._order is not None:
            indexes = self._order[indexes]
        # Another process may have wiped a row in the meantime.
        is_same = self._attributes["passage"][indexes] == keys[owners]
        indexes, owners = indexes[is_same], owners[is_same]
        owner_keys: list[int] = keys[owners].tolist()
        return owner_keys, self._integers[indexes], self._attributes["scale"][indexes]

    @cached_property
    def _order(self) -> NDArray[np.intp] | None:
        """The indexes of the rows in the order of their passages; None if they are in order."""
        column = self._column("passage")
        if (column[1:] >= column[:-1]).all():
            return None
        return np.argsort(column, kind="stable")


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
