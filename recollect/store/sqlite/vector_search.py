"""Search the vectors of a library: no graph, all of them are compared with the query.

In large spaces, only some rows are compared (`SpaceSigns`). Vectors that are in the table, but not
in the files yet, are compared as well. An encrypted library has no files, because a text can be
guessed from its vector. All its vectors stay in the table, and the first search of a process reads
them into memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import micros
from recollect.model.search import Filter
from recollect.store.sql.quantisation import (
    Integers,
    Vector,
    best_scores,
    cosines,
    products,
    quantise,
)
from recollect.store.sql.selection import (
    DocumentKeys,
    document_filter,
    matching_documents,
    resolve_filter,
)
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.scans import all_keys, keys_in_few_documents, passing_keys
from recollect.store.sqlite.vector_files import VectorFiles, open_verified
from recollect.store.sqlite.vector_rows import (
    NO_DATE,
    Indexes,
    Key,
    VectorRows,
    all_rows_after,
    join_rows,
    name_code,
    newest_row,
    no_rows,
)
from recollect.store.values import Space

RowFilter = Callable[[VectorRows, Indexes], Indexes]
"""Returns those of some rows that pass."""

# The vectors of this many passages are looked up faster than all are compared.
_MAX_PASSAGES_READ_SINGLY = 500
# The same for one in this many of all passages.
_SHARE_READ_SINGLY = 200
# What score enough rows have is estimated by one row in this many.
_ROWS_PER_SAMPLE = 64
_ROWS_PER_PRODUCT = 1_024  # rows that are compared with several queries at once


class VectorSearch:
    """Searches the vectors of one library."""

    def __init__(self, folder: Path, in_memory: bool) -> None:
        """`in_memory`: there are no files, and all vectors are in the table."""
        self._folder = folder
        self._in_memory = in_memory
        self._files: dict[int, VectorFiles] = {}
        self._rows_in_memory: dict[int, VectorRows] = {}
        self._signs: dict[int, SpaceSigns] = {}
        self._last_scores: tuple[VectorRows, bytes, Vector] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._files.clear()
            self._rows_in_memory.clear()
            self._signs.clear()
            self._last_scores = None

    def nearest(
        self, db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """See Store.nearest."""
        filter = resolve_filter(db, filter)
        keys = keys_read_singly(db, filter)
        if keys is not None:
            scores = self.cosines(db, space, vector, keys)
        else:
            (query,), (scale,) = quantise([vector])
            passes = row_filter(db, filter)
            scores = {}
            for rows in self._parts(db, space):
                signs = self._signs.setdefault(space.id, SpaceSigns())
                row_scores = signs.likely_scores(rows, query, passes, limit)
                if row_scores is None:
                    row_scores = self._all_scores(rows, query)
                for passage, score in best_passages(rows, row_scores, passes, limit).items():
                    scores[passage] = max(score * float(scale), scores.get(passage, -np.inf))
        return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _all_scores(self, rows: VectorRows, query: Integers) -> Vector:
        """The product of a query and each row. A search asks for one query with several filters."""
        key = query.tobytes()
        if self._last_scores is not None:
            last_rows, last_key, last_scores = self._last_scores
            if last_rows is rows and last_key == key:
                return last_scores
        scores: Vector = products(query[None, :], rows.integers) * rows.column("scale")
        self._last_scores = rows, key, scores
        return scores

    def highest_cosines(
        self, db: Connection, space: Space, vectors: Sequence[Vector]
    ) -> list[float]:
        """See Store.highest_cosines."""
        import numkong

        queries, scales = quantise(vectors)
        packed_queries = numkong.dots_pack(queries)
        passes = row_filter(db, Filter())
        highest: Vector = np.full(len(queries), -np.inf, np.float32)
        for rows in self._parts(db, space):
            indexes = passes(rows, np.arange(len(rows)))
            for start in range(0, len(indexes), _ROWS_PER_PRODUCT):
                some = indexes[start : start + _ROWS_PER_PRODUCT]
                table = numkong.dots_packed(rows.integers[some], packed_queries)
                scores = np.asarray(table).astype(np.float32) * rows.column("scale")[some, None]
                np.maximum(highest, scores.max(axis=0), out=highest)
        pairs = zip(highest.tolist(), scales.tolist(), strict=True)
        return [score * scale for score, scale in pairs if score > -np.inf]

    def cosines(
        self, db: Connection, space: Space, vector: Vector, keys: Sequence[int]
    ) -> dict[int, float]:
        """See Store.cosines. If a passage has several vectors, the nearest one counts."""
        best: dict[int, float] = {}
        for passages, integers, scales in self._vectors_of(db, space, keys):
            for passage, score in best_scores(passages, cosines(integers, scales, vector)).items():
                best[passage] = max(score, best.get(passage, score))
        return best

    def vectors(self, db: Connection, space: Space, key: int) -> list[Vector]:
        """See Store.vectors."""
        return [
            vector
            for _, integers, scales in self._vectors_of(db, space, [key])
            for vector in integers.astype(np.float32) * scales[:, None]
        ]

    def _vectors_of(
        self, db: Connection, space: Space, keys: Sequence[int]
    ) -> Iterator[tuple[list[int], Integers, Vector]]:
        """The vectors of passages: for each its passage, its integers and its scale."""
        deleted = _deleted_rows(db)
        for rows in self._parts(db, space):
            indexes = rows.find(keys)
            if len(deleted):
                indexes = indexes[~np.isin(rows.column("row")[indexes], deleted)]
            if len(indexes):
                passages: list[int] = rows.column("passage")[indexes].tolist()
                yield passages, rows.integers[indexes], rows.column("scale")[indexes]

    def _parts(self, db: Connection, space: Space) -> Iterator[VectorRows]:
        """The rows in files or in memory, and those that only the table has."""
        # Read before the files are opened, so that no row is missed.
        last_row = db.memoize("last vector", lambda: newest_row(db))
        rows = self._load(db, space) if self._in_memory else self._open(space)
        if len(rows):
            yield rows
        if not self._in_memory and last_row != rows.last_row:
            new_rows = db.memoize(
                ("new vectors", space.id, rows.last_row),
                lambda: all_rows_after(db, space, rows.last_row),
            )
            if len(new_rows):
                yield new_rows

    def _open(self, space: Space) -> VectorRows:
        with self._lock:
            files = self._files.get(space.id)
            if files is None or files.complete_rows() != len(files.rows):
                files = self._files[space.id] = open_verified(self._folder, space)
            return files.rows

    def _load(self, db: Connection, space: Space) -> VectorRows:
        """The vectors in memory, after those that are new in the table were read.

        Numbers of rows are never used again, so if the table has as many rows as there are in
        memory, they are the same.
        """
        sql = (
            "select count(*) from vector v join space s on s.id = v.space "
            "where v.space = ? and v.row > s.copied"
        )
        count = db.memoize(("vectors", space.id), lambda: db.get(sql, (space.id,)))
        with self._lock:
            rows = self._rows_in_memory.get(space.id, no_rows(space))
            new_rows = all_rows_after(db, space, rows.last_row)
            if len(new_rows):
                rows = join_rows([rows, new_rows])
            if len(rows) != count:  # some were deleted
                rows = all_rows_after(db, space, 0)
            self._rows_in_memory[space.id] = rows
            return rows


def keys_read_singly(db: Connection, filter: Filter) -> list[int] | None:
    """The passages that pass a filter, if they are few."""
    keys = keys_in_few_documents(db, filter)
    _, newest_key = all_keys(db)
    max_keys = max(_MAX_PASSAGES_READ_SINGLY, newest_key // _SHARE_READ_SINGLY)
    if keys is None or len(keys) > max_keys:
        return None
    return sorted(passing_keys(db, keys, filter))


def best_passages(
    rows: VectorRows, scores: Vector, passes: RowFilter, limit: int
) -> dict[int, float]:
    """The best passages that pass a filter, at least `limit` of them, with their scores."""
    size = limit
    while True:
        best = best_rows(rows, scores, passes, size)
        passages = rows.column("passage")[best]
        order = np.lexsort((passages, -scores[best]))[:size]
        found = best_scores(passages[order].tolist(), scores[best][order].tolist())
        # A passage may have several vectors.
        if len(found) >= limit or len(best) <= size:
            return found
        size *= 2


def best_rows(rows: VectorRows, scores: NDArray[Any], passes: RowFilter, limit: int) -> Indexes:
    """Rows that pass a filter: the best, at least `limit` of them. `scores` may be of the first."""
    sample = np.sort(scores[::_ROWS_PER_SAMPLE])
    count = limit + limit // 8 + 4 * _ROWS_PER_SAMPLE  # because this is an estimate
    while True:
        if count < len(scores):
            indexes = np.flatnonzero(scores >= sample[-1 - count // _ROWS_PER_SAMPLE])
        else:
            indexes = np.arange(len(scores))
        passing = passes(rows, indexes)
        if len(passing) >= limit or len(indexes) == len(scores):
            return passing
        # Twice as many as are expected to be enough. The sample may be unlike the other rows.
        count = 2 * max(count, len(indexes)) * limit // max(len(passing), 1)


# -- filters ---


def row_filter(db: Connection, filter: Filter) -> RowFilter:
    """A filter on the attributes of rows."""
    key = ("document mask", document_filter(filter), filter.hidden)
    documents = db.memoize(key, lambda: document_mask(matching_documents(db, filter)))
    deleted_rows = _deleted_rows(db)

    def passing(rows: VectorRows, indexes: Indexes) -> Indexes:
        if documents is not None:
            indexes = indexes[documents.take(rows.column("document")[indexes], mode="clip")]

        def column(name: str) -> NDArray[Any]:
            return rows.column(name)[indexes]

        mask: NDArray[np.bool_] = column("passage") != 0
        if len(deleted_rows):
            mask &= ~np.isin(column("row"), deleted_rows)
        return indexes[mask & matches(filter, column)]

    return passing


def matches(filter: Filter, column: Callable[[str], NDArray[Any]]) -> NDArray[np.bool_]:
    """Which rows pass the part of a filter that is about passages."""
    mask: NDArray[np.bool_] = column("hidden") <= filter.hidden
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
    return mask


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


def _deleted_rows(db: Connection) -> NDArray[Key]:
    """Rows that the files still contain."""
    return db.memoize(
        "deleted vectors",
        lambda: np.array([row for (row,) in db.rows("select row from wiped")], Key),
    )


# -- signs ---

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
# The intermediate results of this many rows fit into the cache of a core.
_ROWS_AT_ONCE = 16_384


class SpaceSigns:
    """The signs of the vectors of a large space, by which a search chooses rows to compare.

    Comparing a query with a million vectors takes as long as reading them from memory. The signs of
    a vector need an eighth of that: where the signs of a query and of a row agree, their product is
    likely high. So a query is first compared with the signs of all rows, and then exactly with the
    rows that agree best: many times as many as are asked for. (`python -m bench.speed`: a question
    in 1,000,000 messages takes two thirds of the time.) Each search adds a block of signs.
    """

    def __init__(self) -> None:
        # In one attribute, because several threads may set it.
        self._latest: tuple[NDArray[Key], list[NDArray[np.uint64]]] = (np.empty(0, Key), [])
        """The numbers of the rows, which are never used again. The signs: the first axis of a block
        is the dimensions, 64 to a number; its second the rows."""
        self._searches = 0

    def likely_scores(
        self, rows: VectorRows, query: Integers, passes: RowFilter, limit: int
    ) -> Vector | None:
        """The product of a query and each row that is likely among the nearest.

        That of the others is -inf. None if there are too few signs to choose by.
        """
        if len(rows) < MIN_ROWS:
            return None
        numbers, blocks = self._update(rows)
        if not blocks:
            return None
        size = len(numbers)
        agreement = -_distances(query, blocks)
        likely = best_rows(rows, agreement, passes, limit * ROWS_PER_RESULT)
        scores: Vector = np.full(len(rows), -np.inf, np.float32)
        if len(likely):
            scores[likely] = products(query[None, :], rows.integers[likely])
        if size < len(rows):
            scores[size:] = products(query[None, :], rows.integers[size:])
        scores *= rows.column("scale")
        return scores

    def _update(self, rows: VectorRows) -> tuple[NDArray[Key], list[NDArray[np.uint64]]]:
        """The signs of the first of these rows, with one more block."""
        numbers, blocks = self._latest
        all_numbers = rows.column("row")
        if not np.array_equal(all_numbers[: len(numbers)], numbers):
            numbers, blocks = all_numbers[:0], []
        self._searches += 1
        end = len(numbers) + ROWS_PER_BLOCK
        if self._searches > SEARCHES_WITHOUT_SIGNS and end <= len(rows):
            block = _bits(rows.integers[len(numbers) : end] > 0)
            numbers, blocks = all_numbers[:end], [*blocks, np.ascontiguousarray(block.T)]
        self._latest = numbers, blocks
        return self._latest


def _distances(query: Integers, blocks: Sequence[NDArray[np.uint64]]) -> NDArray[np.int16]:
    """How much the signs of each row differ from those of a query."""
    sizes = np.abs(query.astype(np.int16))
    is_large = sizes > np.quantile(sizes, 1 - _LARGE_NUMBERS)
    signs, large = _bits(np.stack([query > 0, is_large]))
    distances = np.zeros(len(blocks) * ROWS_PER_BLOCK, np.int16)
    for number, block in enumerate(blocks):
        block_distances = distances[number * ROWS_PER_BLOCK :][:ROWS_PER_BLOCK]
        for start in range(0, ROWS_PER_BLOCK, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            some_distances = block_distances[rows]
            for words, word_signs, word_large in zip(block[:, rows], signs, large, strict=True):
                differences = words ^ word_signs
                some_distances += np.bitwise_count(differences)
                differences &= word_large
                some_distances += np.bitwise_count(differences) * _ADDITIONAL_WEIGHT
    return distances


def _bits(rows: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """For each row, its bits in numbers of 64."""
    bits = np.packbits(rows, axis=1)
    padding = -bits.shape[1] % 8
    if padding:
        bits = np.pad(bits, ((0, 0), (0, padding)))
    return bits.view(np.uint64)
