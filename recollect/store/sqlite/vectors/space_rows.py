"""The rows of a space, as a search reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from numpy.typing import NDArray

from recollect.store.sql.vectors.quantisation import Integers, Vector
from recollect.store.sqlite.vectors.row_filter import Columns, Key


class SpaceRows(Protocol):
    """Vectors that a search scans."""

    def __len__(self) -> int: ...

    @property
    def last_row(self) -> int:
        """The last row of the table that is among them."""

    def batches(self, start: int = 0) -> Iterator[slice]:
        """The rows from `start` on, in parts that are scanned at once. Some may come twice."""

    def part(self, rows: slice) -> tuple[Columns, Integers]:
        """The attributes and integers of some rows."""

    def is_outdated(self) -> bool: ...

    def read(self, pairs: NDArray[Key]) -> tuple[list[int], Integers, Vector]:
        """The passages, integers and scales of pairs (row of the table, passage)."""

    def find(self, passages: Sequence[int]) -> tuple[list[int], Integers, Vector] | None:
        """Like `read`, for all rows of these passages; None if only the table knows them."""
