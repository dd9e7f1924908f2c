"""The vectors of a library: kept in the database, scanned in files that copy them.

A vector is eight-bit numbers and the scale that makes them a unit vector. The
table is what counts: a copy is two files a space, one with the numbers, row
after row, one with what the rows are and what filters ask of them. They only
grow, are mapped into memory, and are scanned whole, which is exact, needs no
building and takes filters into the scan. Numbers are written before the rows
that count them, so a kill leaves numbers that nobody counts.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import micros
from recollect.model.search import Filter
from recollect.store.sql.quantisation import Vector, best_scores, cosines, quantise
from recollect.store.sql.selection import DocumentKeys, document_filter, matching_documents
from recollect.store.sql.spaces import all_spaces
from recollect.store.sqlite import text
from recollect.store.sqlite.connection import Connection, Connections
from recollect.store.sqlite.sealed import locked
from recollect.store.values import Space

Columns = Callable[[str], NDArray[Any]]
"""The attributes of some rows, by name."""

_ROW = np.dtype(
    [
        ("row", "<i8"),
        ("passage", "<i8"),
        ("document", "<i8"),
        ("created_at", "<i8"),
        ("role", "<u4"),
        ("author", "<u4"),
        ("scale", "<f4"),
        ("hidden", "<u4"),
    ]
)
_NO_TIME = np.iinfo(np.int64).min
_CHUNK = 65_536  # rows scanned at once: what bounds the memory
_FIRST = 4_096  # rows scanned first, so that most of the others are soon known not to be near
_COPIED = 20_000  # rows copied at once
_SINGLY = 500  # passages whose vectors are sooner read from the table than looked for in the files,
_SHARE = 200  # or of all passages one in so many
_TAIL = 200  # rows from which copying is worth while


def packed(vectors: Sequence[Vector]) -> list[bytes]:
    """Vectors as the database keeps them."""
    if not len(vectors):
        return []
    numbers, scales = quantise(vectors)
    return [s.tobytes() + n.tobytes() for s, n in zip(scales, numbers, strict=True)]


def _unpacked(blobs: Sequence[bytes], dimensions: int) -> tuple[NDArray[np.int8], Vector]:
    data = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), 4 + dimensions)
    return data[:, 4:].view(np.int8), np.ascontiguousarray(data[:, :4]).view(np.float32)[:, 0]


class Vectors:
    def __init__(self, folder: Path, connections: Connections) -> None:
        self._folder = folder
        self._connections = connections
        self._open: dict[int, _Copy] = {}
        self._lock = threading.Lock()

    # -- searching ---

    def nearest(
        self, db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """The passages nearest to a unit vector, with their cosines, nearest first."""
        (query,), (query_scale,) = quantise([vector])
        few = text.keys_of_few(db, filter)
        if few is not None and len(few) <= max(_SINGLY, text.everything(db)[1] // _SHARE):
            near = self.cosines(
                db, space, query * query_scale, sorted(text.allowed(db, few, filter))
            )
            return sorted(near.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
        copy = self._copy(space)
        documents = db.remembered(document_filter(filter), lambda: matching_documents(db, filter))
        gone = np.array([row for (row,) in db.execute("select row from wiped")], np.int64)
        allowed = _Allowed(filter, documents, gone)
        nearest = _Nearest(query, allowed, limit)
        starts = [0, *range(_FIRST, len(copy), _CHUNK)] if len(copy) else []
        for start, end in pairwise([*starts, len(copy)]):
            nearest.scan(*copy.part(start, end))
        for attributes, numbers in _tail(db, space, copy.last):
            nearest.scan(attributes.__getitem__, numbers)
        return [(passage, score * float(query_scale)) for passage, score in nearest.ranked()]

    def cosines(
        self, db: Connection, space: Space, vector: Vector, keys: Sequence[int]
    ) -> dict[int, float]:
        """How near these passages are, each by its nearest part; without those that have no vector."""
        vectors = _vectors(db, space, keys)
        if not vectors:
            return {}
        numbers, scales = _unpacked([blob for _, blob in vectors], space.dimensions)
        return best_scores((passage for passage, _ in vectors), cosines(numbers, scales, vector))

    def of(self, db: Connection, space: Space, key: int) -> list[Vector]:
        """The vectors of a passage, one a part."""
        vectors = _vectors(db, space, [key])
        if not vectors:
            return []
        numbers, scales = _unpacked([blob for _, blob in vectors], space.dimensions)
        return list(numbers.astype(np.float32) * scales[:, None])

    def _copy(self, space: Space) -> _Copy:
        with self._lock:
            copy = self._open.get(space.id)
            if copy is None or copy.outgrown():
                copy = self._open[space.id] = _Copy(self._folder, space)
            return copy

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    # -- copying ---

    def refresh(self) -> None:
        """Bring the files up to the table, wipe from them what was deleted, and remove files of
        spaces that are no more."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._folder / "lock", wait=True) as alone:
            if not alone:
                return
            with self._connections.read() as db:
                spaces = all_spaces(db)
            self._remove_others({s.id for s in spaces})
            self._wipe(spaces)
            for space in spaces:
                self._extend(space)

    def _extend(self, space: Space) -> None:
        copy = _Copy(self._folder, space)
        while True:
            with self._connections.read() as db:
                batch = _listed(db, space, copy.last, _COPIED)
            if not batch or (len(copy) and len(batch) < _TAIL):
                return
            attributes, numbers = _attributes(batch, space)
            copy.append(attributes, numbers)
            copy = _Copy(self._folder, space)

    def wipe(self) -> None:
        """Make sure that vectors of deleted passages are in no file any more."""
        with locked(self._folder / "lock", wait=True):
            with self._connections.read() as db:
                spaces = all_spaces(db)
            self._wipe(spaces)

    def _wipe(self, spaces: list[Space]) -> None:
        with self._connections.read() as db:
            gone = [row for (row,) in db.execute("select row from wiped order by row")]
        if not gone:
            return
        for space in spaces:
            _Copy(self._folder, space).wipe(np.array(gone, np.int64))

        def settle(db: Connection) -> None:
            db.executemany("delete from wiped where row = ?", ((row,) for row in gone))

        self._connections.write(settle)

    def _remove_others(self, ids: set[int]) -> None:
        for path in self._folder.glob("space-*.*"):
            if int(path.stem.removeprefix("space-")) not in ids:
                path.unlink(missing_ok=True)


class _Copy:
    """The files of one space as they are now."""

    def __init__(self, folder: Path, space: Space) -> None:
        self._rows = folder / f"space-{space.id}.rows"
        self._numbers = folder / f"space-{space.id}.vectors"
        self._dimensions = space.dimensions
        self._count = self._counted()
        self._columns: dict[str, NDArray[Any]] = {}
        self._attributes: NDArray[Any] = np.empty(0, _ROW)
        self._matrix: NDArray[np.int8] = np.empty((0, space.dimensions), np.int8)
        if self._count:
            self._attributes = np.asarray(np.memmap(self._rows, _ROW, "r", shape=(self._count,)))
            shape = (self._count, space.dimensions)
            self._matrix = np.asarray(np.memmap(self._numbers, np.int8, "r", shape=shape))

    def __len__(self) -> int:
        return self._count

    @property
    def last(self) -> int:
        """The last row of the table that is copied."""
        return int(self._attributes["row"][-1]) if self._count else 0

    def part(self, start: int, end: int) -> tuple[Columns, NDArray[np.int8]]:
        """Some rows: their attributes, by name, and their numbers."""
        return lambda name: self._column(name)[start:end], self._matrix[start:end]

    def _column(self, name: str) -> NDArray[Any]:
        """One attribute of every row, side by side: scanned many times faster than row by row."""
        if name not in self._columns:
            self._columns[name] = np.ascontiguousarray(self._attributes[name])
        return self._columns[name]

    def outgrown(self) -> bool:
        return self._counted() != self._count

    def _counted(self) -> int:
        return min(_size(self._rows) // _ROW.itemsize, _size(self._numbers) // self._dimensions)

    def append(self, attributes: NDArray[Any], numbers: NDArray[np.int8]) -> None:
        _write_at(self._numbers, self._count * self._dimensions, numbers.tobytes())
        _write_at(self._rows, self._count * _ROW.itemsize, attributes.tobytes())

    def wipe(self, gone: NDArray[np.int64]) -> None:
        at = np.searchsorted(self._attributes["row"], gone)
        at = at[at < self._count]
        at = at[np.isin(self._attributes["row"][at], gone)]
        if not len(at):
            return
        matrix = np.memmap(self._numbers, np.int8, "r+", shape=(self._count, self._dimensions))
        matrix[at] = 0
        matrix.flush()
        attributes = np.memmap(self._rows, _ROW, "r+", shape=(self._count,))
        attributes["passage"][at] = 0
        attributes.flush()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _write_at(path: Path, offset: int, data: bytes) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        os.ftruncate(file, offset)  # what a kill left uncounted
        os.lseek(file, offset, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)


# -- scanning ------------------------------------------------------------------


class _Allowed:
    """The filter, over the attributes of rows."""

    def __init__(self, filter: Filter, documents: DocumentKeys, gone: NDArray[np.int64]) -> None:
        self._filter = filter
        self._documents = None if documents.only is None else np.array(documents.only, np.int64)
        self._not_documents = np.array(documents.without, np.int64)
        self._gone = gone  # deleted, but not wiped from the files yet

    def of(self, columns: Columns, at: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of some rows that may be found."""
        filter = self._filter

        def rows(name: str) -> NDArray[Any]:
            return columns(name)[at]

        mask: NDArray[np.bool_] = rows("passage") != 0
        if len(self._gone):
            mask &= ~np.isin(rows("row"), self._gone)
        if not filter.hidden:
            mask &= rows("hidden") == 0
        for column, names, values in (
            ("role", filter.roles, True),
            ("author", filter.authors, True),
            ("role", filter.not_roles, False),
            ("author", filter.not_authors, False),
        ):
            if names:
                mask &= np.isin(rows(column), [_code(n) for n in names]) == values
        if filter.senders:
            senders = [_code(name) for name in filter.senders]
            mask &= np.isin(rows("role"), senders) | np.isin(rows("author"), senders)
        if filter.after is not None:
            mask &= rows("created_at") >= micros(filter.after)
        if filter.before is not None:
            mask &= (rows("created_at") <= micros(filter.before)) & (rows("created_at") != _NO_TIME)
        return self._of_documents(columns, at[mask])

    def _of_documents(self, columns: Columns, at: NDArray[np.intp]) -> NDArray[np.intp]:
        if self._documents is not None:
            at = at[np.isin(columns("document")[at], self._documents)]
        if len(self._not_documents):
            at = at[~np.isin(columns("document")[at], self._not_documents)]
        return at


class _Nearest:
    """The nearest passages met so far."""

    def __init__(self, query: NDArray[np.int8], allowed: _Allowed, limit: int) -> None:
        self._query = query[None, :]
        self._allowed = allowed
        self._limit = limit
        self._best: dict[int, float] = {}
        self._edge = -np.inf
        """Nothing that is not nearer than this can come in any more."""

    def scan(self, columns: Columns, numbers: NDArray[np.int8]) -> None:
        import numkong

        scores = np.asarray(numkong.cdist(self._query, numbers, metric="dot", out_dtype="float32"))[
            0
        ]
        scores *= columns("scale")
        at = self._allowed.of(columns, np.flatnonzero(scores > self._edge))
        at = self._enough(columns("passage"), scores, at)
        for passage, score in zip(
            columns("passage")[at].tolist(), scores[at].tolist(), strict=True
        ):
            if score > self._best.get(passage, -np.inf):
                self._best[passage] = score
        if len(self._best) >= self._limit:
            self._best = dict(self.ranked())
            self._edge = min(self._best.values())

    def _enough(
        self, passages: NDArray[Any], scores: Vector, at: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """The best of these rows, as many as `limit` passages need: several parts of a message count once."""
        limit = self._limit
        while len(at) > limit:
            row_scores = scores[at]
            threshold = np.partition(row_scores, len(at) - limit)[len(at) - limit]
            best: NDArray[np.intp] = at[row_scores >= threshold]
            if len(np.unique(passages[best])) >= self._limit:
                return best
            limit *= 2
        return at

    def ranked(self) -> list[tuple[int, float]]:
        return sorted(self._best.items(), key=lambda hit: (-hit[1], hit[0]))[: self._limit]


def _code(name: str | None) -> int:
    """A number for a name. Two names may share one: what is found is checked against the database."""
    return 0 if name is None else zlib.crc32(name.encode("utf-8", "surrogatepass")) | 1


# -- the table -------------------------------------------------------------------


def _vectors(db: Connection, space: Space, keys: Sequence[int]) -> list[tuple[Any, ...]]:
    return db.rows(
        "select v.passage, v.vector from json_each(?) k cross join vector v on v.passage = k.value where v.space = ?",
        (json.dumps(list(keys)), space.id),
    )


def _listed(db: Connection, space: Space, after: int, limit: int) -> list[tuple[Any, ...]]:
    return db.rows(
        """select v.row, v.passage, p.document, p.created_at, p.role, p.author, p.visibility = 'hidden', v.vector
        from vector v join passage p on p.key = v.passage
        where v.space = ? and v.row > ? order by v.row limit ?""",
        (space.id, after, limit),
    )


def _attributes(
    listed: list[tuple[Any, ...]], space: Space
) -> tuple[NDArray[Any], NDArray[np.int8]]:
    numbers, scales = _unpacked([row[-1] for row in listed], space.dimensions)
    attributes = np.empty(len(listed), _ROW)
    attributes["row"] = [r[0] for r in listed]
    attributes["passage"] = [r[1] for r in listed]
    attributes["document"] = [r[2] for r in listed]
    attributes["created_at"] = [_NO_TIME if r[3] is None else r[3] for r in listed]
    attributes["role"] = [_code(r[4]) for r in listed]
    attributes["author"] = [_code(r[5]) for r in listed]
    attributes["hidden"] = [r[6] for r in listed]
    attributes["scale"] = scales
    return attributes, np.ascontiguousarray(numbers)


def _tail(
    db: Connection, space: Space, after: int
) -> Iterator[tuple[NDArray[Any], NDArray[np.int8]]]:
    """What is not copied yet."""
    while listed := _listed(db, space, after, _COPIED):
        yield _attributes(listed, space)
        after = listed[-1][0]
