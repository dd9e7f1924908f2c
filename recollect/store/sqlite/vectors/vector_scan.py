"""Scan rows of vectors for those nearest to a query, with filters applied during the scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.sql.vectors.quantisation import Integers, Vector, products
from recollect.store.sqlite.vectors.row_filter import Columns, Indexes, Key, RowFilter
from recollect.store.sqlite.vectors.signs import Signs

_ROWS_PER_PRODUCT = 1_024  # rows that are compared with several queries at once


class NearestScan:
    """Compares batches of rows with a query, for one or more collections of nearest passages."""

    def __init__(self, query: Integers, nearest: Sequence[NearestPassages]) -> None:
        self._query = query[None, :]
        self._nearest = nearest

    def scan(self, columns: Columns, integers: Integers) -> None:
        scores = products(self._query, integers)
        scores *= columns("scale")
        for nearest in self._nearest:
            nearest.add(columns, scores)

    def scan_likely(self, signs: Signs, columns: Columns, integers: Integers) -> None:
        """Compare the rows that are likely near, by their signs, instead of all."""
        searches = [(nearest.row_filter, nearest.limit) for nearest in self._nearest]
        likely_rows = signs.likely_rows(self._query[0], columns, searches)
        for nearest, indexes in zip(self._nearest, likely_rows, strict=True):
            if not len(indexes):
                continue

            def column(name: str, indexes: Indexes = indexes) -> NDArray[Any]:
                return columns(name)[indexes]

            nearest.add(column, products(self._query, integers[indexes]) * column("scale"))


class NearestPassages:
    """Collects the passages nearest to a query that pass a filter."""

    def __init__(self, row_filter: RowFilter, limit: int) -> None:
        self.row_filter = row_filter
        self.limit = limit
        self._passages: NDArray[Key] = np.empty(0, Key)
        """The keys of the nearest passages so far, nearest first."""
        self._scores: Vector = np.empty(0, np.float32)
        self._threshold = -np.inf
        """Only rows with a higher score can still be among the nearest."""

    def add(self, columns: Columns, scores: Vector) -> None:
        indexes = self.row_filter.passing(columns, np.flatnonzero(scores > self._threshold))
        indexes = self._best_rows(columns("passage"), scores, indexes)
        if len(indexes):
            self._add(columns("passage")[indexes], scores[indexes])

    def _add(self, passages: NDArray[Key], scores: Vector) -> None:
        passages = np.concatenate([self._passages, passages])
        scores = np.concatenate([self._scores, scores])
        order = np.lexsort((passages, -scores))
        best = order[np.sort(_first_places(passages[order]))[: self.limit]]
        self._passages, self._scores = passages[best], scores[best]
        if len(best) >= self.limit:
            self._threshold = self._scores[-1]

    def _best_rows(self, passages: NDArray[Any], scores: Vector, indexes: Indexes) -> Indexes:
        """The best of these rows: as many as `limit` passages need.

        A passage may have several vectors, and counts once.
        """
        limit = self.limit
        while len(indexes) > limit:
            row_scores = scores[indexes]
            threshold = np.partition(row_scores, len(indexes) - limit)[len(indexes) - limit]
            best: Indexes = indexes[row_scores >= threshold]
            if len(_first_places(passages[best])) >= self.limit:
                return best
            limit *= 2
        return indexes

    def ranked(self) -> list[tuple[int, float]]:
        """The keys of the nearest passages with their scores, nearest first."""
        return list(zip(self._passages.tolist(), self._scores.tolist(), strict=True))


class HighestScan:
    """Finds the highest score of each of several queries in batches of rows."""

    def __init__(self, queries: Integers, row_filter: RowFilter) -> None:
        import numkong

        self._queries = numkong.dots_pack(queries)
        self._multiply = numkong.dots_packed
        self._row_filter = row_filter
        self.scores: Vector = np.full(len(queries), -np.inf, np.float32)

    def scan(self, columns: Columns, integers: Integers) -> None:
        indexes = self._row_filter.passing(columns, np.arange(len(integers)))
        scales = columns("scale")
        if len(indexes) < len(integers):
            integers, scales = integers[indexes], scales[indexes]
        for start in range(0, len(integers), _ROWS_PER_PRODUCT):
            rows = slice(start, start + _ROWS_PER_PRODUCT)
            scores = np.asarray(self._multiply(integers[rows], self._queries)).astype(np.float32)
            scores *= scales[rows, None]
            np.maximum(self.scores, scores.max(axis=0), out=self.scores)


def _first_places(values: NDArray[Any]) -> Indexes:
    """The index of the first occurrence of each value.

    `np.unique` would do, but its first call imports `numpy.ma`: 4 % of the time of a cold search.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = np.ones(len(values), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return order[is_first]
