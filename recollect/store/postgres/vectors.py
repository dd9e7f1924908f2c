"""Vectors on PostgreSQL, compared by pgvector within the rows of one user.

pgvector's half-precision numbers hold our eight-bit integers exactly. pgvector selects by the
cosine of the integers. We then compute the scores as for SQLite, so both stores rank alike. Without
pgvector, all vectors of the user are read and compared here: slower, with the same results.

Comparing all vectors of a user is exact and takes half a microsecond each. From GRAPH_FROM passages
on, there is an HNSW graph of the user's partition, if the login may create one. Searches without a
filter use it and find nearly all nearest vectors. The graph has full precision, because some builds
of pgvector use half-precision instructions that not every processor has.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from psycopg import errors

from recollect.errors import IndexingStopped
from recollect.model.search import Filter
from recollect.store.postgres.capabilities import Server
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import conditions
from recollect.store.postgres.schema import SCHEMA
from recollect.store.postgres.text_search import keys_of_few, size
from recollect.store.sql.quantisation import (
    Integers,
    Vector,
    best_scores,
    cosines,
    quantise,
)
from recollect.store.sql.selection import matching_documents
from recollect.store.values import Space

# Vectors are padded with zeros to a multiple of this length, which changes no product. Some builds
# of pgvector handle the rest of an odd length with instructions that not every processor has.
_PADDING = 128
# Passages of a user from which a graph is built. At 180,000, a question then takes 70 ms of CPU
# time instead of 200.
GRAPH_FROM = 100_000
_ROWS_PER_PRODUCT = 4_096
# Candidates that a search of the graph considers (hnsw.ef_search).
_GRAPH_CANDIDATES = 450
# More rows than passages are read, because long passages have several, and because pgvector's order
# differs slightly from our scores.
_ROWS_PER_PASSAGE = 1.3
_SPARE_ROWS = 50

Row = tuple[Any, ...]
"""A row of the table `vector`: the passage, the scale and the integers."""


# -- storing ---


def quantise_all(vectors: Sequence[Vector]) -> list[tuple[Integers, float]]:
    """The integers and the scale of each vector."""
    if not vectors:
        return []
    integers, scales = quantise(vectors)
    return list(zip(integers, scales.tolist(), strict=True))


def insert(
    db: Connection, space: Space, rows: Sequence[tuple[int, tuple[Integers, float]]]
) -> None:
    column_type = "text" if db.server.pgvector else "bytea"
    cast = "::halfvec" if db.server.pgvector else ""
    db.run(
        f"""insert into vector (owner, space, passage, document, created_at, role, author, hidden,
          scale, numbers, part)
        select p.owner, ?::integer, p.key, p.document, p.created_at, p.role, p.author,
          p.visibility = 'hidden', k.scale, k.numbers{cast}, k.part
        from unnest(?::bigint[], ?::integer[], ?::real[], ?::{column_type}[])
          k(key, part, scale, numbers)
        {db.by_key("passage", "p", "k.key")}""",
        (
            space.id,
            [key for key, _ in rows],
            part_numbers([key for key, _ in rows]),
            [float(scale) for _, (_, scale) in rows],
            [encode(db, integers) for _, (integers, _) in rows],
        ),
    )


def part_numbers(keys: Sequence[int]) -> list[int]:
    """Number the vectors of each passage. A long passage has several."""
    counts: Counter[int] = Counter()
    numbers = []
    for key in keys:
        numbers.append(counts[key])
        counts[key] += 1
    return numbers


def encode(db: Connection, integers: Integers) -> Any:
    if not db.server.pgvector:
        return integers.tobytes()
    zeros = padded_length(len(integers)) - len(integers)
    return f"[{','.join(map(str, integers.tolist()))}{',0' * zeros}]"


def padded_length(dimensions: int) -> int:
    return dimensions + -dimensions % _PADDING


# -- searching ---


def nearest(
    db: Connection, space: Space, vector: Vector, filter: Filter, limit: int
) -> list[tuple[int, float]]:
    """See Store.nearest."""
    if not db.server.pgvector:
        source, parameters = _source(db, space, filter)
        rows = db.rows(f"select v.passage, v.scale, v.numbers {source}", parameters)
        return sorted_scores(rows, space, vector)[:limit]
    row_limit = round(_ROWS_PER_PASSAGE * limit) + _SPARE_ROWS
    # A passage can have many rows, so more rows may be needed.
    while True:
        query, values = nearest_query(db, space, vector, filter, row_limit)
        rows = db.rows(query, values, generic_plan=True)
        hits = sorted_scores(rows, space, vector)
        if len(rows) < row_limit or len(hits) >= limit:
            return hits[:limit]
        row_limit *= 2


def highest_cosines(db: Connection, space: Space, vectors: Sequence[Vector]) -> list[float]:
    """See Store.highest_cosines. Without a graph, one scan here is faster than many there."""
    if has_graph(db, space):
        neighbours = [nearest(db, space, vector, Filter(), 1) for vector in vectors]
        return [cosine for hits in neighbours for _, cosine in hits]
    source, parameters = _source(db, space, Filter())
    rows = db.rows(f"select v.passage, v.scale, v.numbers {source}", parameters)
    if not rows:
        return []
    integers, scales = decode(rows, space)
    queries, query_scales = quantise(vectors)
    best = np.full(len(queries), -np.inf, np.float32)
    for start in range(0, len(rows), _ROWS_PER_PRODUCT):
        some = slice(start, start + _ROWS_PER_PRODUCT)
        # Sums of integers are exact, and numpy multiplies floating-point numbers much faster.
        products = integers[some].astype(np.float32) @ queries.T.astype(np.float32)
        np.maximum(best, (products * scales[some, None]).max(axis=0), out=best)
    pairs = zip(best.tolist(), query_scales.tolist(), strict=True)
    return [score * scale for score, scale in pairs]


def _source(db: Connection, space: Space, filter: Filter) -> tuple[str, list[Any]]:
    """Vectors as SQL, with its values. The planner needs the owner and the limit as numbers."""
    where, values = filter_conditions(db, filter)
    source = f"from vector v where v.owner = {db.owner:d} and v.space = {space.id:d} and {where}"
    return source, values


def nearest_query(
    db: Connection, space: Space, vector: Vector, filter: Filter, row_limit: int
) -> tuple[str, list[Any]]:
    """A query for the nearest vectors, with its values. Needs pgvector."""
    source, values = _source(db, space, filter)
    order = "v.numbers <=> ?::halfvec"
    if filter in (Filter(), Filter(hidden=True)) and has_graph(db, space):
        prefer_graph(db)
        source += f" and {has_dimensions(space, 'v.')}"
        order = f"({full_precision(db.server, space, 'v.')}) <=> ?::{db.server.full_vector}"
    (quantised,), _ = quantise([vector])
    query = f"select v.passage, v.scale, v.numbers {source} order by {order} limit {row_limit:d}"
    return query, [*values, encode(db, quantised)]


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
        generic_plan=True,
    )


def best_cosines(rows: Sequence[Row], space: Space, vector: Vector) -> dict[int, float]:
    """The cosine of the nearest vector of each passage."""
    if not rows:
        return {}
    integers, scales = decode(rows, space)
    return best_scores((passage for passage, _, _ in rows), cosines(integers, scales, vector))


def sorted_scores(rows: Sequence[Row], space: Space, vector: Vector) -> list[tuple[int, float]]:
    scores = best_cosines(rows, space, vector)
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))


def unit_vectors(rows: Sequence[Row], space: Space) -> list[Vector]:
    if not rows:
        return []
    integers, scales = decode(rows, space)
    return list(integers.astype(np.float32) * scales[:, None])


def decode(rows: Sequence[Row], space: Space) -> tuple[Integers, Vector]:
    """The integers and scales of rows.

    Without pgvector, a value is the integers as bytes. pgvector sends two 16-bit fields, of which
    the first is the length, followed by half-precision numbers.
    """
    values = [bytes(value) for _, _, value in rows]
    scales = np.array([scale for _, scale, _ in rows], np.float32)
    if len(values[0]) == space.dimensions:
        return np.frombuffer(b"".join(values), np.int8).reshape(len(values), -1), scales
    halves = np.frombuffer(b"".join(values), ">f2").reshape(len(values), -1)
    return halves[:, 2 : 2 + space.dimensions].astype(np.int8), scales


# -- the graph ---


def has_graph(db: Connection, space: Space) -> bool:
    if size(db) < GRAPH_FROM:
        return False
    # If somebody drops a graph, searches are still right, but slow until the program restarts.
    if (db.owner, space.id) in db.server.graphs:
        return True
    name = graph_name(db, space)
    # An interrupted build leaves a graph that is not valid.
    is_valid = bool(
        name
        and db.get(
            "select indisvalid from pg_index where indexrelid = to_regclass(?)",
            (f"{SCHEMA}.{name}",),
        )
    )
    if is_valid:
        db.server.graphs.add((db.owner, space.id))
    return is_valid


def graph_name(db: Connection, space: Space) -> str:
    """The name of the graph with the user's vectors, or empty if there are no vectors.

    In a cluster, all shards have one.
    """
    if db.server.is_cluster:
        return f"vector_graph_{padded_length(space.dimensions)}"
    partition = db.get(
        "select tableoid::regclass::text from vector where owner = ?::integer limit 1", (db.owner,)
    )
    if not partition:
        return ""
    return f"{partition.rpartition('.')[2]}_graph_{padded_length(space.dimensions)}"


def build_graph(
    connection: psycopg.Connection[Any], server: Server, name: str, space: Space
) -> bool:
    """Build a graph without blocking writes, and replace one whose build was interrupted.

    False if this login does not own the table, or if another program is building the graph.
    """
    table = f"{SCHEMA}.{name.partition('_graph_')[0]}"
    row = connection.execute(
        """select pg_has_role(current_user, c.relowner, 'usage')
          and pg_try_advisory_lock(hashtextextended(%s, 0))
        from pg_class c where c.oid = %s::regclass""",
        [name, table],
    ).fetchone()
    if not row or not row[0]:
        return False
    is_broken = connection.execute(
        "select from pg_index where indexrelid = to_regclass(%s) and not indisvalid",
        [f"{SCHEMA}.{name}"],
    ).fetchone()
    if is_broken is not None:
        connection.execute(f"drop index concurrently {SCHEMA}.{name}")
    with one_process(connection, server, table):
        connection.execute(
            f"create index concurrently if not exists {name} on {table} using hnsw "
            f"(({full_precision(server, space)}) vector_cosine_ops) where {has_dimensions(space)}"
        )
    return True


@contextmanager
def one_process(connection: psycopg.Connection[Any], server: Server, table: str) -> Iterator[None]:
    """Build without parallel workers.

    Some builds of pgvector share memory among them with an instruction that not every processor
    has (`stlur`, ARMv8.4). The server then crashes with signal 4.
    """
    if not server.is_cluster:
        connection.execute("set max_parallel_maintenance_workers = 0")
        yield
        return
    # The workers of a cluster do not see the settings of this session.
    connection.execute(f"alter table {table} set (parallel_workers = 0)")
    try:
        yield
    finally:
        if not connection.broken:
            connection.execute(f"alter table {table} reset (parallel_workers)")


def prefer_graph(db: Connection) -> None:
    """Set the planner and the graph for this transaction."""
    db.set_local(
        {
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.ef_search": str(_GRAPH_CANDIDATES),
            "enable_sort": "off",
        }
    )


def full_precision(server: Server, space: Space, alias: str = "") -> str:
    return f"{alias}numbers::{server.full_vector}({padded_length(space.dimensions)})"


def has_dimensions(space: Space, alias: str = "") -> str:
    return f"vector_dims({alias}numbers) = {padded_length(space.dimensions)}"


# -- stopping ---


_POLL_SECONDS = 0.2


@contextmanager
def cancel_on_stop(connection: psycopg.Connection[Any], stop: Callable[[], bool]) -> Iterator[None]:
    """Cancel the statements of the block once `stop` returns True. Raises IndexingStopped then."""
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(_POLL_SECONDS):
            if stop():
                connection.cancel()

    watcher = threading.Thread(target=watch, name="recollect-cancel", daemon=True)
    watcher.start()
    try:
        yield
    except errors.QueryCanceled as error:
        if stop():
            raise IndexingStopped("Indexing was stopped.") from error
        raise
    finally:
        is_done.set()
        watcher.join()
