"""Vectors on PostgreSQL: the graph that large libraries have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore, vectors
from recollect.store.values import Space


@pytest.fixture
def store(database: str, user: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database, user)
    yield store
    store.close()


def filled(store: PostgresStore, count: int) -> tuple[Space, NDArray[np.float32], list[int]]:
    store.save(
        [
            Document(
                "test",
                "c",
                passages=tuple(Passage(f"m{n}", "user", f"text {n}") for n in range(count)),
            )
        ]
    )
    space = store.add_space("test", "1", 256, None)
    rng = np.random.default_rng(1)
    given = rng.normal(size=(count, 256)).astype(np.float32)
    given /= np.linalg.norm(given, axis=1)[:, None]
    batch, _ = store.unembedded(space, count)
    store.add_vectors(
        space, {passage: [vector] for passage, vector in zip(batch, given, strict=True)}
    )
    store.mark_space_ready(space)
    return store.spaces()[0], given, [p.key for p in batch]


def test_a_large_library_gets_a_graph_that_finds_nearly_all_of_the_nearest(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "GRAPH_FROM", 500)
    space, given, _ = filled(store, 600)
    exact = [
        [key for key, _ in store.nearest(space, query, Filter(roles=("user",)), 20)]
        for query in given[:20]
    ]
    store.refresh()
    assert store._read(lambda db: vectors.has_graph(db, space))
    found = [[key for key, _ in store.nearest(space, query, Filter(), 20)] for query in given[:20]]
    right = sum(len(set(a) & set(b)) for a, b in zip(exact, found, strict=True))
    assert right >= 0.95 * 400
    plan = "\n".join(_plan(database, store, space, given[0]))
    assert "graph" in plan
    store.refresh()  # and a second time there is nothing to do


def _plan(
    database: str, store: PostgresStore, space: Space, query: NDArray[np.float32]
) -> list[str]:
    """How the server walks, as the application's role."""
    seen: list[str] = []

    def work(db: object) -> None:
        asked = vars(type(db))["rows"]

        def explained(self: object, sql: str, values: object = ()) -> object:
            if "order by" in sql:
                seen.extend(line for (line,) in asked(self, f"explain {sql}", values))
            return asked(self, sql, values)

        type(db).rows = explained  # type: ignore[attr-defined]
        try:
            vectors.nearest(db, space, query, Filter(), 5)  # type: ignore[arg-type]
        finally:
            type(db).rows = asked  # type: ignore[attr-defined]

    store._read(work)
    return seen


def test_others_in_the_graph_are_never_found(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two users of one partition share a graph; each finds only their own."""
    monkeypatch.setattr(vectors, "GRAPH_FROM", 50)
    space, given, keys = filled(store, 60)
    store.refresh()
    with psycopg.connect(database, autocommit=True) as db:
        partition = "select satisfies_hash_partition('recollect.vector'::regclass, 16, r, {}) from generate_series(0, 15) r"
        mine = db.execute(partition.format(store._transactions.owner)).fetchall()
        for number in count():  # one in sixteen is in the same partition
            neighbour = f"{store._transactions.user}-other-{number}"
            PostgresStore(database, neighbour).close()
            ((id_,),) = db.execute(
                "select id from recollect.account where name = %s", [neighbour]
            ).fetchall()
            if db.execute(partition.format(id_)).fetchall() == mine:
                break
    other = PostgresStore(database, neighbour)
    try:
        others, _, _ = filled(other, 60)
        for query in given[:10]:
            hits = store.nearest(space, query, Filter(), 10)
            assert len(hits) == 10
            assert set(dict(hits)) <= set(keys)
            assert dict(hits)[hits[0][0]] == pytest.approx(1.0, abs=0.02)
            assert len(other.nearest(others, query, Filter(), 10)) == 10
    finally:
        other.close()
