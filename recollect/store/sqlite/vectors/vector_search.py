"""Search the vectors of a library. Filters are applied as its rows are scanned."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.model.search import Filter
from recollect.store.sql.reading.selection import (
    document_filter,
    matching_documents,
    resolve_filter,
)
from recollect.store.sql.vectors.quantisation import (
    Integers,
    Vector,
    best_scores,
    cosines,
    quantise,
)
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.key_ranges import all_keys, keys_in_few_documents, passing_keys
from recollect.store.sqlite.vectors.row_filter import Key, RowFilter, document_mask
from recollect.store.sqlite.vectors.signs import SpaceSigns
from recollect.store.sqlite.vectors.space_rows import SpaceRows
from recollect.store.sqlite.vectors.vector_scan import HighestScan, NearestPassages, NearestScan
from recollect.store.sqlite.vectors.vector_table import uncopied_rows, unpack, vector_rows
from recollect.store.sqlite.vectors.writable_space_files import open_verified
from recollect.store.values import Space

# The vectors of this many passages are read from the table faster than the files are scanned.
_MAX_PASSAGES_READ_SINGLY = 500
# The same for one in this many of all passages.
_SHARE_READ_SINGLY = 200


class VectorSearch:
    """Searches the vectors in the files, and those in the table that are not in them yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open_rows: dict[int, SpaceRows] = {}
        self._signs: dict[int, SpaceSigns] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._open_rows.clear()
            self._signs.clear()

    def nearest(
        self, db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """See Store.nearest. Expected searches with the same vector share a scan."""
        plans, neighbours = db.shared.plans, db.shared.neighbours
        numbers = [
            number
            for number, plan in enumerate(plans)
            if plan.vector is vector and plan.space == space
        ]
        arguments = [(plans[number].filter, plans[number].limit) for number in numbers]
        if (filter, limit) not in arguments:
            return self._nearest(db, space, vector, [(filter, limit)])[0]
        number = numbers[arguments.index((filter, limit))]
        if number not in neighbours:
            results = self._nearest(db, space, vector, arguments)
            neighbours.update(zip(numbers, results, strict=True))
        return neighbours[number]

    def _nearest(
        self, db: Connection, space: Space, vector: Vector, arguments: Sequence[tuple[Filter, int]]
    ) -> list[list[tuple[int, float]]]:
        """The nearest passages for each filter and limit."""
        (query,), (query_scale,) = quantise([vector])
        results: dict[int, list[tuple[int, float]]] = {}
        scans: dict[int, NearestPassages] = {}
        for number, (plan_filter, limit) in enumerate(arguments):
            filter = resolve_filter(db, plan_filter)
            keys = _keys_read_singly(db, filter)
            if keys is None:
                scans[number] = NearestPassages(_row_filter(db, filter), limit)
            else:
                scores = self.cosines(db, space, query * query_scale, keys)
                results[number] = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
        if scans:
            self._scan_nearest(db, space, NearestScan(query, list(scans.values())))
        factor = float(query_scale)
        for number, scan in scans.items():
            results[number] = [(passage, score * factor) for passage, score in scan.ranked()]
        return [results[number] for number in range(len(arguments))]

    def highest_cosines(
        self, db: Connection, space: Space, vectors: Sequence[Vector]
    ) -> list[float]:
        """See Store.highest_cosines."""
        queries, scales = quantise(vectors)
        scan = HighestScan(queries, _row_filter(db, Filter()))
        self._scan(db, space, scan, self._rows(space))
        scores = zip(scan.scores.tolist(), scales.tolist(), strict=True)
        return [score * scale for score, scale in scores if score > -np.inf]

    def _scan_nearest(self, db: Connection, space: Space, scan: NearestScan) -> None:
        """Scan all rows of a space; of those whose signs are in memory, the likely ones."""
        rows = self._rows(space)
        signs = self._signs.setdefault(space.id, SpaceSigns()).of(rows)
        if signs:
            scan.scan_likely(signs, *rows.part(slice(len(signs))))
        self._scan(db, space, scan, rows, start=len(signs))

    def _scan(
        self,
        db: Connection,
        space: Space,
        scan: NearestScan | HighestScan,
        rows: SpaceRows,
        *,
        start: int = 0,
    ) -> None:
        """Scan the rows of a space from `start` on, and those that only the table has."""
        for batch in rows.batches(start):
            scan.scan(*rows.part(batch))
        if _last_row(db) != rows.last_row:
            for attributes, integers in uncopied_rows(db, space, rows.last_row):
                scan.scan(attributes.__getitem__, integers)

    def cosines(
        self, db: Connection, space: Space, vector: Vector, keys: Sequence[int]
    ) -> dict[int, float]:
        """See Store.cosines. If a passage has several vectors, the nearest one counts."""
        passages, integers, scales = self._read(db, space, keys)
        if not passages:
            return {}
        return best_scores(passages, cosines(integers, scales, vector))

    def vectors(self, db: Connection, space: Space, key: int) -> list[Vector]:
        """See Store.vectors."""
        _, integers, scales = self._read(db, space, [key])
        return list(integers.astype(np.float32) * scales[:, None])

    def _read(
        self, db: Connection, space: Space, keys: Sequence[int]
    ) -> tuple[list[int], Integers, Vector]:
        """The vectors of passages: for each its passage, its integers and its scale."""
        vectors = self._find_copied(db, space, keys)
        if vectors is not None:
            return vectors
        rows = vector_rows(db, space, keys)
        # The files are opened after the table was read, so they contain all rows without a blob.
        blobs = [(passage, blob) for passage, _, blob in rows if blob]
        integers, scales = unpack([blob for _, blob in blobs], space.dimensions)
        passages = [passage for passage, _ in blobs]
        if len(blobs) == len(rows):
            return passages, integers, scales
        copied_rows = [(row, passage) for passage, row, blob in rows if not blob]
        # Several times faster than an array of the pairs.
        numbers = np.fromiter(chain.from_iterable(copied_rows), Key, 2 * len(copied_rows))
        pairs = numbers.reshape(-1, 2)
        copied_passages, copied_integers, copied_scales = self._rows(space).read(pairs)
        return (
            passages + copied_passages,
            np.concatenate([integers, copied_integers]),
            np.concatenate([scales, copied_scales]),
        )

    def _find_copied(
        self, db: Connection, space: Space, keys: Sequence[int]
    ) -> tuple[list[int], Integers, Vector] | None:
        """The vectors of passages without the table, if the files have all rows of the table."""
        # Read before the files are opened.
        last_row = _last_row(db)
        has_deleted_rows = len(_deleted_rows(db)) > 0
        rows = self._rows(space)
        if has_deleted_rows or last_row != rows.last_row:
            return None
        return rows.find(keys)

    def _rows(self, space: Space) -> SpaceRows:
        with self._lock:
            rows = self._open_rows.get(space.id)
            if rows is None or rows.is_outdated():
                rows = open_verified(self._folder, space)
                self._open_rows[space.id] = rows
            return rows


def _keys_read_singly(db: Connection, filter: Filter) -> list[int] | None:
    """The passages that pass a filter, if they are few."""
    keys = keys_in_few_documents(db, filter)
    _, newest_key = all_keys(db)
    max_keys = max(_MAX_PASSAGES_READ_SINGLY, newest_key // _SHARE_READ_SINGLY)
    if keys is None or len(keys) > max_keys:
        return None
    return sorted(passing_keys(db, keys, filter))


def _row_filter(db: Connection, filter: Filter) -> RowFilter:
    key = ("document mask", document_filter(filter), filter.hidden)
    mask = db.memoize(key, lambda: document_mask(matching_documents(db, filter)))
    return RowFilter(filter, mask, _deleted_rows(db))


def _last_row(db: Connection) -> int | None:
    """The last row of the table; None if it never had any."""
    sql = "select seq from sqlite_sequence where name = 'vector'"
    last_row: int | None = db.memo.small_value("last vector", lambda: db.get(sql))
    return last_row


def _deleted_rows(db: Connection) -> NDArray[Key]:
    """Rows that the files still contain."""

    def rows() -> NDArray[Key]:
        return np.array([row for (row,) in db.rows("select row from wiped")], Key)

    return db.memoize("deleted vectors", rows)
