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
# A wrong sign counts 3 instead of 1 where the number of the query is large: for this share.
_LARGE_NUMBERS = 0.4
_ADDITIONAL_WEIGHT = 2
# The distance that enough rows have is estimated by one row in this many.
_ROWS_PER_SAMPLE = 64
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
        columns, _ = rows.part(slice(len(rows)))
        if rows is not latest_rows and not signs.are_of(columns):
            signs = NO_SIGNS
        self._searches += 1
        end = len(signs) + ROWS_PER_BLOCK
        if self._searches > SEARCHES_WITHOUT_SIGNS and end <= len(rows):
            signs = signs.with_block(*rows.part(slice(end)))
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
        distances = self._distances(query)
        return [
            _likely_rows(columns, distances, filter, limit * ROWS_PER_RESULT)
            for filter, limit in searches
        ]

    def _distances(self, query: Integers) -> Distances:
        """How much the signs of each row differ from those of a query."""
        sizes = np.abs(query.astype(np.int16))
        is_large = sizes > np.quantile(sizes, 1 - _LARGE_NUMBERS)
        signs, large = _bits(np.stack([query > 0, is_large]))
        distances = np.zeros(len(self), np.uint16)
        for number, block in enumerate(self._blocks):
            block_distances = distances[number * ROWS_PER_BLOCK :][:ROWS_PER_BLOCK]
            for start in range(0, ROWS_PER_BLOCK, _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                _add_distances(block_distances[rows], block[:, rows], signs, large)
        return distances


NO_SIGNS = Signs(np.empty(0, Key), [])


def _likely_rows(
    columns: Columns, distances: Distances, row_filter: RowFilter, limit: int
) -> Indexes:
    """Of the rows that pass a filter, those with the smallest distances: about `limit`, or more."""
    sample = np.sort(distances[::_ROWS_PER_SAMPLE])
    count = limit + limit // 8  # because this is an estimate
    while True:
        if count < len(distances):
            indexes = np.flatnonzero(distances <= sample[count // _ROWS_PER_SAMPLE])
        else:
            indexes = np.arange(len(distances))
        passing = row_filter.passing(columns, indexes)
        if len(passing) >= limit or len(indexes) == len(distances):
            return passing
        # Twice as many as are expected to be enough. The sample may be unlike the other rows.
        count = 2 * max(count, len(indexes)) * limit // max(len(passing), 1)


def _add_distances(distances: Distances, block: Block, signs: Any, large: Any) -> None:
    """Add how much the signs of some rows differ from those of a query."""
    differences = np.empty(block.shape[1], np.uint64)
    counts, large_counts = np.empty((2, len(differences)), np.uint8)
    for number, words in enumerate(block):
        np.bitwise_xor(words, signs[number], out=differences)
        np.bitwise_count(differences, counts)
        np.bitwise_and(differences, large[number], out=differences)
        np.bitwise_count(differences, large_counts)
        large_counts *= _ADDITIONAL_WEIGHT
        counts += large_counts
        distances += counts


def _bits(rows: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """For each row, its bits in numbers of 64."""
    bits = np.packbits(rows, axis=1)
    padding = -bits.shape[1] % 8
    if padding:
        bits = np.pad(bits, ((0, 0), (0, padding)))
    return bits.view(np.uint64)
