"""The vectors of a space: how the database stores them, and how a search reads them.

A vector is stored as 8-bit integers and the scale that makes it a unit vector. The table `vector`
lists all vectors. New ones are stored in `new_vector` until they are in files, durably
(`vector_files.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.sql.quantisation import Integers, Vector, quantise
from recollect.store.sqlite.connection import Connection
from recollect.store.values import Space

Indexes = NDArray[np.intp]
"""Indexes of some rows."""
Attributes = NDArray[Any]
"""Rows of the type `ROW`."""

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
NO_DATE = np.iinfo(np.int64).min
_ROWS_PER_READ = 20_000
_SCALE_BYTES = 4


class VectorRows:
    """Vectors in memory or in files that are mapped into memory. An object never changes."""

    def __init__(self, attributes: Attributes, integers: Integers) -> None:
        self.attributes = attributes
        self.integers = integers
        self._columns: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def last_row(self) -> int:
        """The last row of the table that is among them."""
        return int(self.attributes["row"][-1]) if len(self) else 0

    def column(self, name: str) -> NDArray[Any]:
        """An attribute of all rows as a contiguous array, which is scanned many times faster."""
        if name not in self._columns:
            self._columns[name] = np.ascontiguousarray(self.attributes[name])
        return self._columns[name]

    def find(self, passages: Sequence[int]) -> Indexes:
        """The rows of these passages."""
        keys = np.array(passages, Key)
        column = self.column("passage")
        starts = np.searchsorted(column, keys, side="left", sorter=self._order)
        ends = np.searchsorted(column, keys, side="right", sorter=self._order)
        counts = ends - starts
        first_places = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(keys)), counts)
        indexes = starts[owners] + np.arange(len(owners)) - first_places[owners]
        if self._order is not None:
            indexes = self._order[indexes]
        # Another process may have wiped a row in the meantime.
        found: Indexes = indexes[self.attributes["passage"][indexes] == keys[owners]]
        return found

    @cached_property
    def _order(self) -> Indexes | None:
        """The indexes of the rows in the order of their passages; None if they are in order."""
        column = self.column("passage")
        if (column[1:] >= column[:-1]).all():
            return None
        return np.argsort(column, kind="stable")


def no_rows(space: Space) -> VectorRows:
    return VectorRows(np.empty(0, ROW), np.empty((0, space.dimensions), np.int8))


# -- the table ---


def pack(vectors: Sequence[Vector]) -> list[bytes]:
    """Vectors as the database stores them: the scale, then the integers."""
    if not len(vectors):
        return []
    integers, scales = quantise(vectors)
    rows = np.hstack([scales[:, None].view(np.int8), integers])
    data = rows.tobytes()
    return [data[start : start + rows.shape[1]] for start in range(0, len(data), rows.shape[1])]


def insert_vectors(db: Connection, space: Space, rows: Sequence[tuple[int, bytes]]) -> None:
    """Add new vectors, given as the key of a passage and a blob."""
    first = newest_row(db) + 1
    db.insert(
        "vector",
        ("row", "space", "passage", "vector"),
        [(row, space.id, key, b"") for row, (key, _) in enumerate(rows, first)],
    )
    db.insert(
        "new_vector",
        ("row", "space", "vector"),
        [(row, space.id, blob) for row, (_, blob) in enumerate(rows, first)],
    )


def newest_row(db: Connection) -> int:
    """The last row that the table ever had, in any space."""
    return db.get("select seq from sqlite_sequence where name = 'vector'") or 0


def rows_after(db: Connection, space: Space, row: int, limit: int) -> VectorRows:
    """The next rows of the table whose vectors it has, at most `limit`."""
    rows = db.rows(
        """select v.row, v.passage, p.document, p.created_at, p.role, p.author,
          p.visibility = 'hidden', coalesce(n.vector, v.vector) as blob
        from vector v join passage p on p.key = v.passage
        left join new_vector n on n.row = v.row
        where v.space = ? and v.row > ? and blob <> x'' order by v.row limit ?""",
        (space.id, row, limit),
    )
    if not rows:
        return no_rows(space)
    numbers, passages, documents, dates, roles, authors, hidden, blobs = zip(*rows, strict=True)
    data = np.frombuffer(b"".join(blobs), np.uint8)
    data = data.reshape(len(blobs), _SCALE_BYTES + space.dimensions)
    attributes = np.empty(len(rows), ROW)
    attributes["row"] = numbers
    attributes["passage"] = passages
    attributes["document"] = documents
    attributes["created_at"] = [NO_DATE if date is None else date for date in dates]
    for column, names in (("role", roles), ("author", authors)):
        codes = {name: name_code(name) for name in set(names)}  # few of them are distinct
        attributes[column] = [codes[name] for name in names]
    attributes["hidden"] = hidden
    attributes["scale"] = np.ascontiguousarray(data[:, :_SCALE_BYTES]).view(np.float32)[:, 0]
    return VectorRows(attributes, np.ascontiguousarray(data[:, _SCALE_BYTES:].view(np.int8)))


def all_rows_after(db: Connection, space: Space, row: int) -> VectorRows:
    batches = [rows_after(db, space, row, _ROWS_PER_READ)]
    while len(batches[-1]) == _ROWS_PER_READ:
        batches.append(rows_after(db, space, batches[-1].last_row, _ROWS_PER_READ))
    return join_rows(batches)


def join_rows(parts: Sequence[VectorRows]) -> VectorRows:
    if len(parts) == 1:
        return parts[0]
    return VectorRows(
        np.concatenate([part.attributes for part in parts]),
        np.concatenate([part.integers for part in parts]),
    )


def name_code(name: str | None) -> int:
    """A number for a name. Names may share a number, so results are checked in the database."""
    if name is None:
        return 0
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) | 1
