"""Vectors on PostgreSQL: compared by pgvector, within one user's rows.

Half-precision numbers hold the eight-bit integers exactly. pgvector chooses by
the cosine of the numbers; what it chose is measured again here as SQLite
measures it, so that both rank alike. Without pgvector all vectors of the user
are read and compared here: slower, and the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from recollect.model import Filter
from recollect.store.base import Space
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import conditions
from recollect.store.postgres.text import documents_of
from recollect.store.quantised import Numbers, Vector, cosines, nearest_parts, quantised

# Zeros fill vectors up to a multiple of this. They change no product; but the loops over what is left of an odd
# length were built, in some packages of pgvector, with instructions that not every processor has.
_MULTIPLE = 128
_SPARE = 50  # rows beyond what is asked for, since pgvector measures a little otherwise


def insert(db: Connection, space: Space, rows: Sequence[tuple[int, tuple[Numbers, float]]]) -> None:
    db.run(
        f"""insert into vector (space, passage, document, created_at, role, author, hidden, scale, numbers)
        select ?::integer, p.key, p.document, p.created_at, p.role, p.author, p.visibility = 'hidden', k.scale,
          k.numbers{"::halfvec" if db.server.pgvector else ""}
        from unnest(?::bigint[], ?::real[], ?::{"text" if db.server.pgvector else "bytea"}[]) k(key, scale, numbers)
        join passage p on p.owner = ?::integer and p.key = k.key""",
        (
            space.id,
            [key for key, _ in rows],
            [float(scale) for _, (_, scale) in rows],
            [_written(db, numbers) for _, (numbers, _) in rows],
            db.owner,
        ),
    )


def prepared(vectors: Sequence[Vector]) -> list[tuple[Numbers, float]]:
    if not vectors:
        return []
    numbers, scales = quantised(vectors)
    return list(zip(numbers, scales.tolist(), strict=True))


def nearest(db: Connection, space: Space, vector: Vector, filter: Filter, limit: int) -> list[tuple[int, float]]:
    where, values = conditions(filter, "v", "v.hidden")
    if (documents := documents_of(db, filter)) is not None:
        where += " and v.document = any(?::bigint[])"
        values.append(documents)
    source = f"from vector v where v.owner = ?::integer and v.space = ?::integer and {where}"
    given = (db.owner, space.id, *values)
    if not db.server.pgvector:
        return _measured(db.rows(f"select v.passage, v.scale, v.numbers {source}", given), space, vector)[:limit]
    query, _ = quantised([vector])
    wanted = limit + _SPARE
    while True:  # a passage may have several rows
        rows = db.rows(
            f"select v.passage, v.scale, v.numbers {source} order by v.numbers <=> ?::halfvec limit ?",
            (*given, _written(db, query[0]), wanted),
        )
        found = _measured(rows, space, vector)
        if len(rows) < wanted or len(found) >= limit + min(_SPARE, limit):
            return found[:limit]
        wanted *= 2


def of(db: Connection, space: Space, keys: Sequence[int]) -> list[tuple[Any, ...]]:
    return db.rows(
        """select v.passage, v.scale, v.numbers from vector v
        where v.owner = ?::integer and v.space = ?::integer and v.passage = any(?::bigint[])""",
        (db.owner, space.id, list(keys)),
    )


def near(rows: Sequence[tuple[Any, ...]], space: Space, vector: Vector) -> dict[int, float]:
    """How near these passages are, each by its nearest part."""
    if not rows:
        return {}
    numbers, scales = _read(rows, space)
    return nearest_parts((passage for passage, _, _ in rows), cosines(numbers, scales, vector))


def vectors(rows: Sequence[tuple[Any, ...]], space: Space) -> list[Vector]:
    if not rows:
        return []
    numbers, scales = _read(rows, space)
    return list(numbers.astype(np.float32) * scales[:, None])


def _measured(rows: Sequence[tuple[Any, ...]], space: Space, vector: Vector) -> list[tuple[int, float]]:
    return sorted(near(rows, space, vector).items(), key=lambda hit: (-hit[1], hit[0]))


def _written(db: Connection, numbers: Numbers) -> Any:
    if not db.server.pgvector:
        return numbers.tobytes()
    padding = -len(numbers) % _MULTIPLE
    return f"[{','.join(map(str, numbers.tolist()))}{',0' * padding}]"


def _read(rows: Sequence[tuple[Any, ...]], space: Space) -> tuple[Numbers, Vector]:
    """Numbers and scales, as pgvector sends them: a length, nothing, and halves; or as plain bytes."""
    data = [bytes(numbers) for _, _, numbers in rows]
    scales = np.array([scale for _, scale, _ in rows], np.float32)
    if len(data[0]) == space.dimensions:
        return np.frombuffer(b"".join(data), np.int8).reshape(len(data), -1), scales
    halves = np.frombuffer(b"".join(data), ">f2").reshape(len(data), -1)
    return halves[:, 2 : 2 + space.dimensions].astype(np.int8), scales
