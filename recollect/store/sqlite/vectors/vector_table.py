"""The tables with vectors: `vector` lists all of them, `new_vector` has those not in the files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.sql.vectors import spaces
from recollect.store.sql.vectors.quantisation import Integers, Vector, quantise
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.vectors.row_filter import NO_DATE, ROW, name_code
from recollect.store.values import Space, Unembedded

_ROWS_PER_READ = 20_000
_SCALE_BYTES = 4


def pack(vectors: Sequence[Vector]) -> list[bytes]:
    """Vectors as the database stores them: the scale, then the integers."""
    if not len(vectors):
        return []
    integers, scales = quantise(vectors)
    rows = np.hstack([scales[:, None].view(np.int8), integers])
    data = rows.tobytes()
    return [data[start : start + rows.shape[1]] for start in range(0, len(data), rows.shape[1])]


def unpack(blobs: Sequence[bytes], dimensions: int) -> tuple[Integers, Vector]:
    """The integers and scales of vectors that `pack` has packed."""
    if not blobs:
        return np.empty((0, dimensions), np.int8), np.empty(0, np.float32)
    data = np.frombuffer(b"".join(blobs), np.uint8)
    data = data.reshape(len(blobs), _SCALE_BYTES + dimensions)
    scales = np.ascontiguousarray(data[:, :_SCALE_BYTES]).view(np.float32)[:, 0]
    return data[:, _SCALE_BYTES:].view(np.int8), scales


def unembedded(db: Connection, space: Space, limit: int) -> tuple[list[Unembedded], int]:
    """See Store.unembedded. To decompress texts here is faster than in an SQL function."""
    passages, total = spaces.unembedded(db, space, limit, content="p.body")
    contents = db.codec.contents([passage.content for passage in passages])
    for passage, content in zip(passages, contents, strict=True):
        passage.content = content
    return passages, total


def insert_vectors(db: Connection, space: Space, rows: Sequence[tuple[int, bytes]]) -> None:
    """Add new vectors, given as the key of a passage and a blob."""
    last: int = db.get("select seq from sqlite_sequence where name = 'vector'") or 0
    numbers = range(last + 1, last + 1 + len(rows))
    db.insert(
        "vector",
        ("row", "space", "passage", "vector"),
        [(row, space.id, key, b"") for row, (key, _) in zip(numbers, rows, strict=True)],
    )
    db.insert(
        "new_vector",
        ("row", "space", "vector"),
        [(row, space.id, blob) for row, (_, blob) in zip(numbers, rows, strict=True)],
    )


def vector_rows(db: Connection, space: Space, keys: Sequence[int]) -> list[tuple[Any, ...]]:
    """The rows of passages: passage, number of the row, blob."""
    return db.rows(
        "select v.passage, v.row, coalesce(n.vector, v.vector) from json_each(?) k "
        "cross join vector v on v.passage = k.value "
        "left join new_vector n on n.row = v.row where v.space = ?",
        (json.dumps(list(keys)), space.id),
    )


def rows_after(db: Connection, space: Space, row: int, limit: int) -> list[tuple[Any, ...]]:
    """The next rows of the table, with the attributes that the files need."""
    return db.rows(
        """select v.row, v.passage, p.document, p.created_at, p.role, p.author,
          p.visibility = 'hidden', coalesce(n.vector, v.vector) as blob
        from vector v join passage p on p.key = v.passage
        left join new_vector n on n.row = v.row
        where v.space = ? and v.row > ? and blob <> x'' order by v.row limit ?""",
        (space.id, row, limit),
    )


def decode_rows(rows: list[tuple[Any, ...]], space: Space) -> tuple[NDArray[Any], Integers]:
    """Rows of the table as attributes and integers."""
    numbers, passages, documents, dates, roles, authors, hidden, blobs = zip(*rows, strict=True)
    integers, scales = unpack(blobs, space.dimensions)
    attributes = np.empty(len(rows), ROW)
    attributes["row"] = numbers
    attributes["passage"] = passages
    attributes["document"] = documents
    attributes["created_at"] = [NO_DATE if date is None else date for date in dates]
    attributes["role"] = _name_codes(roles)
    attributes["author"] = _name_codes(authors)
    attributes["hidden"] = hidden
    attributes["scale"] = scales
    return attributes, np.ascontiguousarray(integers)


def _name_codes(names: Sequence[str | None]) -> list[int]:
    """The code of each name. Few of them are distinct."""
    codes = {name: name_code(name) for name in set(names)}
    return [codes[name] for name in names]


def uncopied_rows(
    db: Connection, space: Space, row: int
) -> Iterator[tuple[NDArray[Any], Integers]]:
    """The rows of the table that are not in the files yet, in batches."""
    rows = rows_after(db, space, row, _ROWS_PER_READ)
    while rows:
        yield decode_rows(rows, space)
        rows = rows_after(db, space, rows[-1][0], _ROWS_PER_READ)
