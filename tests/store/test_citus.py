"""The store on a cluster of three nodes. See tests/citus.py for how to get one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import citus
import postgres
import psycopg
import pytest
from citus import ForeignCluster
from kills import KILLS
from psycopg.conninfo import conninfo_to_dict

import recollect
from bench.citus import Cluster
from recollect import Document, Filter, Passage, SearchOptions
from recollect.errors import InvalidInput
from recollect.language.queries.query import parse
from recollect.store.postgres import PostgresStore, administration

pytestmark = pytest.mark.full

TESTS = Path(__file__).parents[1]
# Several test processes may share a cluster.
OWN_DATABASE = f"recollect_own_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
SUITES = {
    "contract": ["store/test_contract.py", "-k", "postgres"],
    "appending": ["store/test_postgres_appending.py"],
    "rewriting": ["store/test_rewriting.py", "store/test_parts.py", "-k", "postgres"],
    "vectors": ["store/test_vectors.py", "-k", "postgres"],
    "moving": ["test_move.py", "-k", "postgres"],
    "isolation": ["store/test_postgres_isolation.py"],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster | ForeignCluster]:
    with citus.start() as cluster:
        yield cluster


@pytest.fixture
def nodes(cluster: Cluster | ForeignCluster) -> Cluster:
    """A cluster whose nodes the tests may stop."""
    if isinstance(cluster, ForeignCluster):
        pytest.skip(f"{citus.VARIABLE} is a URL, so the tests cannot stop or add nodes")
    return cluster


@pytest.fixture(scope="module")
def url(cluster: Cluster | ForeignCluster) -> str:
    """A database in the cluster with our schema."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(postgres.URL, cluster.url)
        url = postgres.new_database(OWN_DATABASE)
    with psycopg.connect(url, autocommit=True) as db:
        # Fewer than usual, because a test moves them.
        db.execute(f"alter database {OWN_DATABASE} set citus.shard_count = 8")
    administration.prepare_database(url)
    return url


def query(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        return db.execute(statement, values).fetchall()  # type: ignore[arg-type]


def conversation(id: str, *texts: str) -> Document:
    passages = tuple(Passage(f"{id}-{n}", "user", text) for n, text in enumerate(texts))
    return Document("test", id, passages=passages)


@pytest.mark.parametrize("suite", SUITES)
def test_the_tests_of_the_store_pass_on_a_cluster(
    cluster: Cluster | ForeignCluster, suite: str
) -> None:
    environment = os.environ | {postgres.URL: cluster.url, "PYTEST_XDIST_WORKER": suite}
    files = [str(TESTS / name) if name.endswith(".py") else name for name in SUITES[suite]]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-m", "", *files],
        cwd=TESTS.parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5_000:]


def test_every_table_is_distributed_by_its_owner_and_can_be_moved(url: str) -> None:
    rows = query(
        url,
        """select c.relname, t.distribution_column, t.colocation_id,
          exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
        from pg_class c left join citus_tables t on t.table_name = c.oid
        where c.relnamespace = 'recollect'::regnamespace and c.relkind in ('r', 'p')""",
    )
    local = {name for name, column, _, _ in rows if column is None}
    assert local == {"account", "schema_version"}
    distributed = [row[1:] for row in rows if row[0] not in local]
    assert {column for column, _, _ in distributed} == {"owner"}
    assert len({group for _, group, _ in distributed}) == 1
    assert all(has_key for _, _, has_key in distributed)


def test_functions_run_on_the_worker_of_the_user(url: str) -> None:
    rows = query(
        url,
        """select p.proname, o.distribution_argument_index, o.force_delegation
        from pg_proc p left join pg_dist_object o
          on o.classid = 'pg_proc'::regclass and o.objid = p.oid
        where p.pronamespace = 'recollect'::regnamespace""",
    )
    assert len(rows) >= 5
    assert {row[1:] for row in rows} == {(0, True)}


def test_callers_wait_while_a_worker_is_away(nodes: Cluster, url: str) -> None:
    """Writes and searches of its users are retried, and nothing is stored twice."""
    store = PostgresStore(url, "bob")
    store.save([conversation("c", "the first message")])
    port = worker_of(url, store._transactions.owner)
    nodes.stop_worker(port)
    results: list[Any] = []

    def write() -> None:
        results.append(store.append("c", Passage("late", "user", "a message for later")))
        results.append(store.count(parse("later"), Filter()))

    thread = threading.Thread(target=write)
    thread.start()
    nodes.start_worker(port)
    thread.join(60)
    assert [type(result).__name__ for result in results] == ["Appended", "tuple"]
    assert results[1] == (1, True)
    assert [p.id for p in store.document("c").passages] == ["c-0", "late"]
    store.close()


def test_a_library_in_a_cluster_finds_what_a_file_finds(url: str, tmp_path: Path) -> None:
    documents = [
        conversation(f"c{n}", f"the tram to the castle number {n}", f"we plant {n} roses")
        for n in range(30)
    ]
    hits = []
    for place in (url, str(tmp_path)):
        with recollect.open(place, f"user-{uuid.uuid4()}", background=False) as library:
            library._store.save(documents)
            library.index()
            library.add_message("c3", "user", "the castle is closed", id="late")
            library.delete_message("c4", "c4-1")
            hits.append(
                [
                    [(hit.message_id, round(hit.score, 4)) for hit in page.hits]
                    for text in ("castle", '"plant 7 roses"', "which tram goes up", "rosse")
                    for mode in ("text", "vector", "both")
                    for page in [library.search(text, options=SearchOptions(mode=mode))]
                ]
            )
    assert hits[0] == hits[1]
    assert all(hits[0])


class Appender(threading.Thread):
    """A user who adds one message after the other, and counts those that were acknowledged."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self.store = PostgresStore(url, name)
        self.store.save([conversation("c", "the first message")])
        self.acknowledged: list[str] = []
        self.error: Exception | None = None
        self.is_stopping = False

    def run(self) -> None:
        try:
            while not self.is_stopping:
                id_ = f"m{len(self.acknowledged)}"
                self.store.append("c", Passage(id_, "user", f"message {id_}"))
                self.acknowledged.append(id_)
        except Exception as error:
            self.error = error

    @property
    def owner(self) -> int:
        return self.store._transactions.owner

    def wait_for(self, more: int) -> None:
        """Wait until so many more messages were acknowledged."""
        count = len(self.acknowledged) + more
        while len(self.acknowledged) < count and self.is_alive():
            self.join(0.01)
        assert self.error is None

    def check(self) -> int:
        """Every acknowledged message is stored once, and no other one. Returns their number."""
        ids = [p.id for p in self.store.document("c").passages]
        assert ids == ["c-0", *self.acknowledged]
        assert self.store.verify().healthy
        return len(self.acknowledged)


@contextmanager
def appenders(url: str, count: int) -> Iterator[list[Appender]]:
    """Users who write until the end of the block. Then nothing that they wrote is missing."""
    users = [Appender(url, f"user-{uuid.uuid4()}") for _ in range(count)]
    for user in users:
        user.start()
    try:
        yield users
    finally:
        for user in users:
            user.is_stopping = True
        for user in users:
            user.join(60)
    assert [user.error for user in users] == [None] * count
    total = sum(user.check() for user in users)
    print(f"{total} acknowledged messages of {count} users, none lost")
    for user in users:
        user.store.close()


def worker_of(url: str, owner: int) -> int:
    """The port of the worker with the rows of a user."""
    ((port,),) = query(
        url,
        """select nodeport from pg_dist_shard_placement
        where shardid = get_shard_id_for_distribution_column('recollect.last_key', %s)""",
        owner,
    )
    return int(port)


def test_nothing_acknowledged_is_lost_if_workers_are_killed_under_load(
    nodes: Cluster, url: str
) -> None:
    kills = max(4, KILLS // 10)
    with appenders(url, 6) as users:
        workers = {worker_of(url, user.owner): user for user in users}
        for n in range(kills):
            port, user = sorted(workers.items())[n % len(workers)]
            user.wait_for(20)
            nodes.stop_worker(port)
            nodes.start_worker(port)
            user.wait_for(5)


def test_a_program_goes_on_when_a_replica_becomes_a_worker(nodes: Cluster, url: str) -> None:
    store = PostgresStore(url, f"user-{uuid.uuid4()}")
    store.save([conversation("c", "the first message")])
    port = worker_of(url, store._transactions.owner)
    nodes.stop_worker(port)
    nodes.start_as_replica(port)
    nodes.promote(port)
    assert store.append("c", Passage("late", "user", "another message")).new
    assert store.count(parse("message"), Filter()) == (2, True)
    store.close()


def test_users_write_while_they_are_spread_and_moved_to_a_new_worker(
    nodes: Cluster, url: str
) -> None:
    with appenders(url, 4) as users:
        new = nodes.add_worker(OWN_DATABASE)
        status = administration.spread(url)
        shards = {node.port: node.shards for node in status.nodes}
        others = [count for port, count in shards.items() if port != new and count]
        assert shards[new] > 0
        assert max(others) - shards[new] <= max(others) / 2
        for user in users:
            user.wait_for(5)
        host = str(conninfo_to_dict(url)["host"])
        user = users[0]
        name = user.store._transactions.user
        other = next(port for port in shards if shards[port] and port != worker_of(url, user.owner))
        administration.move_user(url, name, host, other)
        assert worker_of(url, user.owner) == other
        user.wait_for(20)
        # Again: the user is there already.
        administration.move_user(url, name, host, other)
    with pytest.raises(InvalidInput, match="is not a worker"):
        administration.move_user(url, name, host, 1)


def test_without_a_cluster_the_tests_say_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(citus.VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=citus.VARIABLE), citus.start():
        pass
    assert re.search(r"URL of a coordinator.*folder", citus.MISSING)
