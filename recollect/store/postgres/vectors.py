"""Vectors on PostgreSQL: compared by pgvector, within one user's rows.

Half-precision numbers hold the eight-bit integers exactly. pgvector chooses by
the cosine of the numbers; what it chose is measured again here as SQLite
measures it, so that both rank alike. Without pgvector all vectors of the user
are read and compared here: slower, and the same answer.

Comparing with all of a user's vectors is exact and takes half a microsecond
each. From GRAPH_FROM on a graph (HNSW) is kept of the user's partition, where
the login may make one, and asked by searches without a filter; it finds nearly
all of the nearest. Its vectors are of full precision: in some packages of
pgvector the arithmetic of halves has instructions that not every processor has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg

from recollect.model.search import Filter
from recollect.store.postgres import text
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import conditions
from recollect.store.postgres.migrations import SCHEMA
from recollect.store.postgres.server import Server
from recollect.store.sql.quantisation import Integers, Vector, best_scores, cosines, quantise
from recollect.store.sql.selection import matching_documents
from recollect.store.values import Space

# Zeros fill vectors up to a multiple of this. They change no product; but the loops over what is left of an odd
# length were built, in some packages of pgvector, with instructions that not every processor has.
_MULTIPLE = 128
GRAPH_FROM = 200_000  # passages of a user
_LOOKED_AT = 400  # candidates that a walk through the graph keeps
_SPARE = 50  # rows beyond what is asked for, since pgvector measures a little otherwise


def insert(
    db: Connection, space: Space, rows: Sequence[tuple[int, tuple[Integers, float]]]
) -> None:
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


def prepared(vectors: Sequence[Vector]) -> list[tuple[Integers, float]]:
    if not vectors:
        return []
    numbers, scales = quantise(vectors)
    return list(zip(numbers, scales.tolist(), strict=True))


def nearest(
    db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
) -> list[tuple[int, float]]:
    where, values = conditions(filter, "v", "v.hidden")
    if (few := text.keys_of_few(db, filter)) is not None:
        where, values = "v.passage = any(?::bigint[])", [few]
    else:
        documents = matching_documents(db, filter)
        if documents.only is not None:
            where += " and v.document in (select unnest(?::bigint[]))"
            values.append(documents.only)
        if documents.without:
            where += " and v.document not in (select unnest(?::bigint[]))"
            values.append(documents.without)
    source = f"from vector v where v.owner = ?::integer and v.space = ?::integer and {where}"
    parameters = (db.owner, space.id, *values)
    if not db.server.pgvector:
        return _measured(
            db.rows(f"select v.passage, v.scale, v.numbers {source}", parameters), space, vector
        )[:limit]
    order = "v.numbers <=> ?::halfvec"
    if filter in (Filter(), Filter(hidden=True)) and has_graph(db, space):
        for name, value in (
            ("hnsw.iterative_scan", "relaxed_order"),
            ("hnsw.ef_search", str(_LOOKED_AT)),
            ("enable_sort", "off"),
        ):
            db.run("select set_config(?, ?, true)", (name, value))
        source += f" and {_of_length(space)}"
        order = f"({_full(db.server, space, 'v.')}) <=> ?::{db.server.full_vector}"
    (query,), _ = quantise([vector])
    candidates = 2 * limit + _SPARE
    while True:  # a passage may have several rows
        rows = db.rows(
            f"select v.passage, v.scale, v.numbers {source} order by {order} limit ?",
            (*parameters, _written(db, query), candidates),
        )
        scores = _measured(rows, space, vector)
        if len(rows) < candidates or len(scores) >= limit:
            return scores[:limit]
        candidates *= 2


# -- the graph -------------------------------------------------------------------


def has_graph(db: Connection, space: Space) -> bool:
    if text.size(db) < GRAPH_FROM:
        return False
    name = graph_of(db, space)
    return bool(name and db.get("select to_regclass(?) is not null", (f"{SCHEMA}.{name}",)))


def graph_of(db: Connection, space: Space) -> str:
    """The name of the graph for a user's vectors; nothing while there are none."""
    partition = db.get(
        "select tableoid::regclass::text from vector where owner = ?::integer limit 1", (db.owner,)
    )
    return f"{partition.rpartition('.')[2]}_graph_{_padded(space.dimensions)}" if partition else ""


def make_graph(
    connection: psycopg.Connection[Any], server: Server, name: str, space: Space
) -> bool:
    """Build a graph while others go on writing; False where this login does not own the table."""
    partition = name.partition("_graph_")[0]
    mine = connection.execute(
        "select pg_has_role(current_user, c.relowner, 'usage') from pg_class c where c.oid = %s::regclass",
        [f"{SCHEMA}.{partition}"],
    ).fetchone()
    if not mine or not mine[0]:
        return False
    connection.execute(
        f"create index concurrently if not exists {name} on {SCHEMA}.{partition} using hnsw "
        f"(({_full(server, space, '')}) vector_cosine_ops) where {_of_length(space, '')}"
    )
    return True


def _full(server: Server, space: Space, alias: str) -> str:
    return f"{alias}numbers::{server.full_vector}({_padded(space.dimensions)})"


def _of_length(space: Space, alias: str = "v.") -> str:
    return f"vector_dims({alias}numbers) = {_padded(space.dimensions)}"


def _padded(dimensions: int) -> int:
    return dimensions + -dimensions % _MULTIPLE


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
    return best_scores((passage for passage, _, _ in rows), cosines(numbers, scales, vector))


def vectors(rows: Sequence[tuple[Any, ...]], space: Space) -> list[Vector]:
    if not rows:
        return []
    numbers, scales = _read(rows, space)
    return list(numbers.astype(np.float32) * scales[:, None])


def _measured(
    rows: Sequence[tuple[Any, ...]], space: Space, vector: Vector
) -> list[tuple[int, float]]:
    return sorted(near(rows, space, vector).items(), key=lambda hit: (-hit[1], hit[0]))


def _written(db: Connection, numbers: Integers) -> Any:
    if not db.server.pgvector:
        return numbers.tobytes()
    zeros = _padded(len(numbers)) - len(numbers)
    return f"[{','.join(map(str, numbers.tolist()))}{',0' * zeros}]"


def _read(rows: Sequence[tuple[Any, ...]], space: Space) -> tuple[Integers, Vector]:
    """Numbers and scales, as pgvector sends them: a length, nothing, and halves; or as plain bytes."""
    data = [bytes(numbers) for _, _, numbers in rows]
    scales = np.array([scale for _, scale, _ in rows], np.float32)
    if len(data[0]) == space.dimensions:
        return np.frombuffer(b"".join(data), np.int8).reshape(len(data), -1), scales
    halves = np.frombuffer(b"".join(data), ">f2").reshape(len(data), -1)
    return halves[:, 2 : 2 + space.dimensions].astype(np.int8), scales
