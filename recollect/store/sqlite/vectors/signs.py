"""Choose the rows of a large space that are worth comparing with a query.

Comparing a query with a million vectors takes as long as reading them from memory. The signs of a
vector need an eighth of that: where the signs of a query and of a row agree, their product is
likely high. So a query is first compared with the signs of all rows, and then exactly with the rows
that agree best: many times as many as are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.sql.vectors.quantisation import Integers
from recollect.store.sqlite.vectors.row_filter import Columns, Indexes, Key, RowFilter
from recollect.store.sqlite.vectors.space_rows import SpaceRows

ROWS_PER_BLOCK = 131_072
# In smaller spaces, choosing rows takes as long as comparing all of them.
MIN_ROWS = 4 * ROWS_PER_BLOCK
# The signs of a block take about as long as comparing all rows of a million. A process that
# searches a few times does not need them.
SEARCHES_WITHOUT_SIGNS = 4
# Of the 300 nearest of 1,200,000 vectors, 99 % are among the rows chosen, and all of the first 20.
ROWS_PER_RESULT = 64
# A wrong sign counts more where the number of the query is large: this share, and this often.
_LARGE_NUMBERS = 0.4
_WEIGHT_OF_LARGE_NUMBERS = 3
# The intermediate results of this many rows fit into the cache of a core.
_ROWS_AT_ONCE = 16_384

Block = NDArray[np.uint64]
"""The signs of some rows. Its first axis is the dimensions, 64 to a number; its second the rows."""
Distances = NDArray[np.uint16]


class SpaceSigns:
    """The signs of a space, as far as they have been computed: each search adds a block."""

    def __init__(self) -> None:
        # In one attribute, because several threads may set it.
        self._latest: tuple[Signs, SpaceRows | None] = (NO_SIGNS, None)
        self._searches = 0

    def of(self, rows: SpaceRows) -> Signs:
        """The signs of the first of these rows."""
        if len(rows) < MIN_ROWS:
            return NO_SIGNS
        signs, latest_rows = self._latest
        columns, _ = rows.part(0, len(rows))
        if rows is not latest_rows and not signs.are_of(columns):
            signs = NO_SIGNS
        self._searches += 1
        end = len(signs) + ROWS_PER_BLOCK
        if self._searches > SEARCHES_WITHOUT_SIGNS and end <= len(rows):
            signs = signs.with_block(*rows.part(0, end))
        self._latest = (signs, rows)
        return signs


class Signs:
    """The signs of the first rows of a space, in whole blocks. An object never changes."""

    def __init__(self, numbers: NDArray[Key], blocks: Sequence[Block]) -> None:
        """`numbers`: of the rows in the table of vectors. No number is ever used again."""
        self._numbers = numbers
        self._blocks = blocks

    def __len__(self) -> int:
        return len(self._numbers)

    def are_of(self, columns: Columns) -> bool:
        """Whether these are the signs of the first rows of a space with these attributes."""
        return np.array_equal(columns("row")[: len(self)], self._numbers)

    def with_block(self, columns: Columns, integers: Integers) -> Signs:
        """These signs, and those of the next block: the last of these rows."""
        block = _bits(integers[len(self) :] > 0)
        return Signs(columns("row"), [*self._blocks, np.ascontiguousarray(block.T)])

    def likely_rows(
        self, query: Integers, columns: Columns, searches: Sequence[tuple[RowFilter, int]]
    ) -> list[Indexes]:
        """For each filter and limit, the rows that are likely among the nearest."""
        weights = _weights(query)
        likely_rows = [_LikelyRows(filter, limit * ROWS_PER_RESULT) for filter, limit in searches]
        for number, block in enumerate(self._blocks):
            start = number * ROWS_PER_BLOCK
            distances = _distances(block, *weights)
            for rows in likely_rows:
                rows.add(columns, start, distances)
        return [rows.indexes() for rows in likely_rows]


NO_SIGNS = Signs(np.empty(0, Key), [])


class _LikelyRows:
    """Collects the rows with the smallest distances that pass a filter."""

    def __init__(self, row_filter: RowFilter, limit: int) -> None:
        self._row_filter = row_filter
        self._limit = limit
        self._indexes: Indexes = np.empty(0, np.intp)
        self._distances: Distances = np.empty(0, np.uint16)
        self._threshold = np.iinfo(np.uint16).max
        """Only rows with a smaller distance can still be among them."""

    def add(self, columns: Columns, start: int, distances: Distances) -> None:
        indexes = np.flatnonzero(distances < self._threshold)
        passing = self._row_filter.passing(columns, indexes + start)
        self._indexes = np.concatenate([self._indexes, passing])
        self._distances = np.concatenate([self._distances, distances[passing - start]])
        if len(self._indexes) > self._limit:
            self._threshold = np.partition(self._distances, self._limit)[self._limit]
            is_kept = self._distances <= self._threshold
            self._indexes, self._distances = self._indexes[is_kept], self._distances[is_kept]

    def indexes(self) -> Indexes:
        return self._indexes


def _bits(rows: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """For each row, its bits in numbers of 64."""
    bits = np.packbits(rows, axis=1)
    padding = -bits.shape[1] % 8
    if padding:
        bits = np.pad(bits, ((0, 0), (0, padding)))
    return bits.view(np.uint64)


def _weights(query: Integers) -> tuple[Any, Any, Any]:
    """The signs of a query, and which of its numbers are small and which are large."""
    sizes = np.abs(query.astype(np.int16))
    is_large = sizes > np.quantile(sizes, 1 - _LARGE_NUMBERS)
    rows = _bits(np.stack([query > 0, ~is_large, is_large]))
    return rows[0], rows[1], rows[2]


def _distances(block: Block, signs: Any, small: Any, large: Any) -> Distances:
    """How much the signs of each row of a block differ from those of a query."""
    distances = np.empty(block.shape[1], np.uint16)
    for start in range(0, len(distances), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        distances[rows] = _distances_of_few(block[:, rows], signs, small, large)
    return distances


def _distances_of_few(block: Block, signs: Any, small: Any, large: Any) -> Distances:
    differences = np.empty(block.shape[1], np.uint64)
    masked = np.empty_like(differences)
    counts = np.empty(len(differences), np.uint8)
    distances = np.zeros(len(differences), np.uint16)
    large_distances = np.zeros(len(differences), np.uint16)
    for number, words in enumerate(block):
        np.bitwise_xor(words, signs[number], out=differences)
        distances += np.bitwise_count(
            np.bitwise_and(differences, small[number], out=masked), counts
        )
        np.bitwise_and(differences, large[number], out=masked)
        large_distances += np.bitwise_count(masked, counts)
    large_distances *= _WEIGHT_OF_LARGE_NUMBERS
    distances += large_distances
    return distances
