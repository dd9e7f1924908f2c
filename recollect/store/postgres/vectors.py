"""Vectors on PostgreSQL, compared by pgvector within the rows of one user.

pgvector's half-precision numbers hold our eight-bit integers exactly. pgvector selects by the
cosine of the integers. We then compute the scores as for SQLite, so both stores rank alike.
Comparing all vectors of a user is exact and takes half a microsecond each, so there is no graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import conditions
from recollect.store.postgres.text_search import keys_of_few
from recollect.store.sql import spaces
from recollect.store.sql.quantisation import Integers, Vector, best_scores, quantise
from recollect.store.sql.quantisation import cosines as cosines_of
from recollect.store.sql.selection import matching_documents
from recollect.store.values import Space, Unembedded

# Vectors are padded with zeros to a multiple of this length, which changes no product. Some builds
# of pgvector handle the rest of an odd length with instructions that not every processor has.
_PADDING = 128
# More rows than passages are read, because long passages have several, and because pgvector's order
# differs slightly from our scores.
_ROWS_PER_PASSAGE = 1.3
_SPARE_ROWS = 50

Row = tuple[Any, ...]
"""A row of the table `vector`: the passage, the scale and the integers."""


def add(
    db: Connection, space: Space, vectors: Mapping[Unembedded, Sequence[tuple[Integers, float]]]
) -> None:
    """See Store.add_vectors."""

    def insert(rows: Sequence[tuple[int, tuple[Integers, float]]]) -> None:
        counts: Counter[int] = Counter()
        parts = []  # a long passage has several vectors
        for key, _ in rows:
            parts.append(counts[key])
            counts[key] += 1
        db.run(
            f"""insert into vector (owner, space, passage, document, created_at, role, author,
              hidden, scale, numbers, part)
            select p.owner, ?::integer, p.key, p.document, p.created_at, p.role, p.author,
              p.visibility = 'hidden', k.scale, k.numbers::halfvec, k.part
            from unnest(?::bigint[], ?::integer[], ?::real[], ?::text[])
              k(key, part, scale, numbers)
            {db.by_key("passage", "p", "k.key")}""",
            (
                space.id,
                [key for key, _ in rows],
                parts,
                [float(scale) for _, (_, scale) in rows],
                [encode(integers) for _, (integers, _) in rows],
            ),
        )

    spaces.add_vectors(db, space, vectors, insert)


def quantise_all(vectors: Sequence[Vector]) -> list[tuple[Integers, float]]:
    """The integers and the scale of each vector."""
    if not vectors:
        return []
    integers, scales = quantise(vectors)
    return list(zip(integers, scales.tolist(), strict=True))


def encode(integers: Integers) -> str:
    zeros = -len(integers) % _PADDING
    return f"[{','.join(map(str, integers.tolist()))}{',0' * zeros}]"


def nearest(
    db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
) -> list[tuple[int, float]]:
    """See Store.nearest."""
    where, values = filter_conditions(db, filter)
    (quantised,), _ = quantise([vector])
    row_limit = round(_ROWS_PER_PASSAGE * limit) + _SPARE_ROWS
    # A passage can have many rows, so more rows may be needed.
    while True:
        rows = db.rows(
            f"""select v.passage, v.scale, v.numbers from vector v
            where v.owner = {db.owner:d} and v.space = {space.id:d} and {where}
            order by v.numbers <=> ?::halfvec limit {row_limit:d}""",
            (*values, encode(quantised)),
        )
        scores = best_cosines(rows, space, vector)
        hits = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
        if len(rows) < row_limit or len(hits) >= limit:
            return hits[:limit]
        row_limit *= 2


def filter_conditions(db: Connection, filter: Filter) -> tuple[str, list[Any]]:
    keys = keys_of_few(db, filter)
    if keys is not None:
        return "v.passage = any(?::bigint[])", [keys]
    where, values = conditions(filter, "v", "v.hidden")
    documents = matching_documents(db, filter)
    if documents.only is not None:
        where += " and v.document in (select unnest(?::bigint[]))"
        values.append(documents.only)
    if documents.without:
        where += " and v.document not in (select unnest(?::bigint[]))"
        values.append(documents.without)
    return where, values


def rows_of(db: Connection, space: Space, keys: Sequence[int]) -> list[Row]:
    """The vectors of these passages."""
    if not keys:
        return []
    return db.rows(
        f"""select v.passage, v.scale, v.numbers from vector v
        where {db.own("v")} and v.space = ?::integer and v.passage = any(?::bigint[])""",
        (space.id, list(keys)),
    )


def best_cosines(rows: Sequence[Row], space: Space, vector: Vector) -> dict[int, float]:
    """The cosine of the nearest vector of each passage."""
    if not rows:
        return {}
    integers, scales = decode(rows, space)
    return best_scores((passage for passage, _, _ in rows), cosines_of(integers, scales, vector))


def unit_vectors(rows: Sequence[Row], space: Space) -> list[Vector]:
    if not rows:
        return []
    integers, scales = decode(rows, space)
    return list(integers.astype(np.float32) * scales[:, None])


def decode(rows: Sequence[Row], space: Space) -> tuple[Integers, Vector]:
    """The integers and scales of rows.

    pgvector sends two 16-bit fields, of which the first is the length, followed by half-precision
    numbers.
    """
    scales = np.array([scale for _, scale, _ in rows], np.float32)
    numbers = b"".join(bytes(value) for _, _, value in rows)
    halves = np.frombuffer(numbers, ">f2").reshape(len(rows), -1)
    return halves[:, 2 : 2 + space.dimensions].astype(np.int8), scales
