"""Vectors on PostgreSQL: the graph of large libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any
from urllib.parse import quote

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from recollect import Document, Filter, Passage
from recollect.errors import StoreUnavailable
from recollect.store.postgres import PostgresStore, vectors
from recollect.store.postgres.connection import Connection
from recollect.store.values import Space


@pytest.fixture
def store(database: str, user: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database, user)
    yield store
    store.close()


def fill(store: PostgresStore, count: int) -> tuple[Space, NDArray[np.float32], list[int]]:
    """Store passages with random vectors. Returns the space, the vectors and the keys."""
    passages = tuple(Passage(f"m{n}", "user", f"text {n}") for n in range(count))
    store.save([Document("test", "c", passages=passages)])
    space = store.add_space("test", "1", 256, None)
    rng = np.random.default_rng(1)
    units = rng.normal(size=(count, 256)).astype(np.float32)
    units /= np.linalg.norm(units, axis=1)[:, None]
    batch, _ = store.unembedded(space, count)
    store.add_vectors(
        space, {passage: [vector] for passage, vector in zip(batch, units, strict=True)}
    )
    store.update_space(space, ready=True)
    return store.spaces()[0], units, [p.key for p in batch]


def test_a_large_library_gets_a_graph_that_finds_nearly_all_of_the_nearest(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "GRAPH_FROM", 500)
    space, units, _ = fill(store, 600)
    exact = [
        [key for key, _ in store.nearest(space, query, Filter(roles=("user",)), 20)]
        for query in units[:20]
    ]
    store.refresh()
    assert store._read(lambda db: vectors.has_graph(db, space))
    approximate = [
        [key for key, _ in store.nearest(space, query, Filter(), 20)] for query in units[:20]
    ]
    common = sum(len(set(a) & set(b)) for a, b in zip(exact, approximate, strict=True))
    assert common >= 0.95 * 400
    plan = "\n".join(query_plan(store, space, units[0]))
    assert "graph" in plan
    # The graph exists now, so there is nothing to do.
    store.refresh()


def query_plan(store: PostgresStore, space: Space, query: NDArray[np.float32]) -> list[str]:
    """The query plan of a search, for the application's role."""
    plan: list[str] = []

    def work(db: Connection) -> None:
        rows = Connection.rows

        def explain_rows(
            self: Connection, sql: str, values: Sequence[Any] = (), **options: Any
        ) -> list[Any]:
            if "order by" in sql:
                plan.extend(line for (line,) in rows(self, f"explain {sql}", values))
            return rows(self, sql, values, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "rows", explain_rows)
            vectors.nearest(db, space, query, Filter(), 5)

    store._read(work)
    return plan


def test_a_search_of_a_shared_graph_returns_only_the_users_own_passages(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two users in the same partition share a graph."""
    monkeypatch.setattr(vectors, "GRAPH_FROM", 50)
    space, units, keys = fill(store, 60)
    store.refresh()
    with psycopg.connect(database, autocommit=True) as db:
        partition = """select satisfies_hash_partition('recollect.vector'::regclass, 16, r, {})
            from generate_series(0, 15) r"""
        own_partition = db.execute(partition.format(store._transactions.owner)).fetchall()
        # One user in sixteen is in the same partition.
        for number in count():
            neighbour = f"{store._transactions.user}-other-{number}"
            PostgresStore(database, neighbour).close()
            ((owner,),) = db.execute(
                "select id from recollect.account where name = %s", [neighbour]
            ).fetchall()
            if db.execute(partition.format(owner)).fetchall() == own_partition:
                break
    other = PostgresStore(database, neighbour)
    try:
        other_space, _, _ = fill(other, 60)
        for query in units[:10]:
            hits = store.nearest(space, query, Filter(), 10)
            assert len(hits) == 10
            assert set(dict(hits)) <= set(keys)
            assert dict(hits)[hits[0][0]] == pytest.approx(1.0, abs=0.02)
            assert len(other.nearest(other_space, query, Filter(), 10)) == 10
    finally:
        other.close()


def test_a_graph_whose_build_was_interrupted_is_not_used_and_is_built_again(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "GRAPH_FROM", 50)
    space, units, keys = fill(store, 60)
    name = store._read(lambda db: vectors.graph_name(db, space))
    with (
        psycopg.connect(database) as writer,
        psycopg.connect(database, autocommit=True) as administrator,
        ThreadPoolExecutor(1) as pool,
    ):
        # Another test may have built the graph: one user in sixteen is in the same partition.
        administrator.execute(f"drop index if exists recollect.{name}")
        # The build waits for this transaction.
        writer.execute("lock table recollect.vector in row exclusive mode")
        build = pool.submit(store.refresh)
        while not build.done() and not end_waiting_builds(administrator):
            pass
        writer.rollback()
        with pytest.raises(StoreUnavailable, match="recollect index") as raised:
            build.result()
    assert "was not built" in str(raised.value)
    assert not store._read(lambda db: vectors.has_graph(db, space))
    assert store.nearest(space, units[0], Filter(), 1)[0][0] == keys[0]
    store.refresh()
    assert store._read(lambda db: vectors.has_graph(db, space))


def end_waiting_builds(administrator: psycopg.Connection[Any]) -> bool:
    """End the sessions that build a graph and wait for a writer."""
    rows = administrator.execute(
        """select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and query like 'create index concurrently%'
          and wait_event_type = 'Lock'"""
    ).fetchall()
    return bool(rows)


def test_a_graph_is_built_by_one_process(
    store: PostgresStore, database: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With parallel workers, some builds of pgvector crash the server on some processors."""
    monkeypatch.setattr(vectors, "GRAPH_FROM", 50)
    space, _, _ = fill(store, 60)
    # Even a small table is large enough for parallel workers.
    options = quote("-c min_parallel_table_scan_size=0 -c debug_parallel_query=on")
    eager_store = PostgresStore(f"{database}&options={options}", user)
    try:
        eager_store.refresh()
        assert eager_store._read(lambda db: vectors.has_graph(db, space))
    finally:
        eager_store.close()
