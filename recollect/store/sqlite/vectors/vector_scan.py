"""Scan rows of vectors for those nearest to a query, with filters applied during the scan."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import micros
from recollect.model.search import Filter
from recollect.store.sql.reading.selection import DocumentKeys
from recollect.store.sql.vectors.quantisation import Integers, Vector, products

Columns = Callable[[str], NDArray[Any]]
"""Returns an attribute of all rows, by name."""
Indexes = NDArray[np.intp]
"""Indexes of some rows."""

ROW = np.dtype(
    [
        ("row", "<u4"),
        ("passage", "<u4"),
        ("document", "<u4"),
        ("created_at", "<i8"),
        ("role", "<u4"),
        ("author", "<u4"),
        ("scale", "<f4"),
        ("hidden", "u1"),
    ]
)
"""The attributes of a vector. The passage of a wiped vector is 0."""
Key = np.uint32
"""The type of rows, passages and documents. Numpy compares arrays of the same type faster."""
_ROWS_PER_PRODUCT = 1_024  # rows that are compared with several queries at once
NO_DATE = np.iinfo(np.int64).min


def name_code(name: str | None) -> int:
    """A number for a name. Names may share a number, so results are checked in the database."""
    if name is None:
        return 0
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) | 1


class RowFilter:
    """A filter on the attributes of rows."""

    def __init__(
        self, filter: Filter, documents: NDArray[np.bool_] | None, deleted_rows: NDArray[Key]
    ) -> None:
        """`documents`: see `document_mask`."""
        self._filter = filter
        self._documents = documents
        self._deleted_rows = deleted_rows
        """Rows that the files still contain."""

    def passing(self, columns: Columns, indexes: Indexes) -> Indexes:
        """The rows that pass the filter."""
        filter = self._filter
        if self._documents is not None:
            documents = columns("document")[indexes]
            indexes = indexes[self._documents.take(documents, mode="clip")]

        def column(name: str) -> NDArray[Any]:
            return columns(name)[indexes]

        mask: NDArray[np.bool_] = column("passage") != 0
        if len(self._deleted_rows):
            mask &= ~np.isin(column("row"), self._deleted_rows)
        if not filter.hidden:
            mask &= column("hidden") == 0
        for name, names, expected in (
            ("role", filter.roles, True),
            ("author", filter.authors, True),
            ("role", filter.not_roles, False),
            ("author", filter.not_authors, False),
        ):
            if names:
                mask &= np.isin(column(name), [name_code(n) for n in names]) == expected
        if filter.senders:
            senders = [name_code(sender) for sender in filter.senders]
            mask &= np.isin(column("role"), senders) | np.isin(column("author"), senders)
        if filter.after is not None:
            mask &= column("created_at") >= micros(filter.after)
        if filter.before is not None:
            dates = column("created_at")
            mask &= (dates <= micros(filter.before)) & (dates != NO_DATE)
        return indexes[mask]


def document_mask(documents: DocumentKeys) -> NDArray[np.bool_] | None:
    """For each key of a document, whether it is selected; None if all are.

    The last element is for all later keys. Looking up a key takes a fraction of the time of
    searching a list of keys.
    """
    only, without = documents
    if only is None and not without:
        return None
    mask = np.full(max([*(only or ()), *without], default=-1) + 2, only is None)
    if only is not None:
        mask[np.array(only, np.intp)] = True
    mask[np.array(without, np.intp)] = False
    return mask


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


class NearestPassages:
    """Collects the passages nearest to a query that pass a filter."""

    def __init__(self, row_filter: RowFilter, limit: int) -> None:
        self._row_filter = row_filter
        self._limit = limit
        self._passages: NDArray[Key] = np.empty(0, Key)
        """The keys of the nearest passages so far, nearest first."""
        self._scores: Vector = np.empty(0, np.float32)
        self._threshold = -np.inf
        """Only rows with a higher score can still be among the nearest."""

    def add(self, columns: Columns, scores: Vector) -> None:
        indexes = self._row_filter.passing(columns, np.flatnonzero(scores > self._threshold))
        indexes = self._best_rows(columns("passage"), scores, indexes)
        if len(indexes):
            self._add(columns("passage")[indexes], scores[indexes])

    def _add(self, passages: NDArray[Key], scores: Vector) -> None:
        passages = np.concatenate([self._passages, passages])
        scores = np.concatenate([self._scores, scores])
        order = np.lexsort((passages, -scores))
        best = order[np.sort(_first_places(passages[order]))[: self._limit]]
        self._passages, self._scores = passages[best], scores[best]
        if len(best) >= self._limit:
            self._threshold = self._scores[-1]

    def _best_rows(self, passages: NDArray[Any], scores: Vector, indexes: Indexes) -> Indexes:
        """The best of these rows: as many as `limit` passages need.

        A passage may have several vectors, and counts once.
        """
        limit = self._limit
        while len(indexes) > limit:
            row_scores = scores[indexes]
            threshold = np.partition(row_scores, len(indexes) - limit)[len(indexes) - limit]
            best: Indexes = indexes[row_scores >= threshold]
            if len(_first_places(passages[best])) >= self._limit:
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
