"""Two streaming replicas of a server of its own: what happens when servers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from local_servers import LocalServer, new_folder, server_folder, wait_until

import recollect
from recollect.model.documents import Document, Passage
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.replicas import Replicas, ReplicaStatus

pytestmark = pytest.mark.full
USERS = ("ann", "bob", "cleo", "dan")


class Cluster:
    """A primary and two replicas."""

    def __init__(self, folder: Path) -> None:
        self.primary = LocalServer(new_folder(folder / "a"))
        self.primary.run("initdb", "-D", str(self.primary.folder), "-U", "postgres", "--no-sync")
        self.primary.start()
        self.replicas = [self._replica(folder / name) for name in ("b", "c")]

    def _replica(self, folder: Path) -> LocalServer:
        server = LocalServer(new_folder(folder))
        server.run(
            "pg_basebackup",
            f"--dbname={self.primary.url}",
            f"--pgdata={server.folder}",
            "--checkpoint=fast",
            "--no-sync",
            "--write-recovery-conf",
        )
        server.start()
        return server

    @property
    def url(self) -> str:
        """The address of whichever server accepts writes."""
        hosts = ",".join(str(server.folder.parent) for server in (self.primary, *self.replicas))
        return f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write"

    def catch_up(self, replica: LocalServer) -> None:
        with psycopg.connect(self.primary.url, autocommit=True) as db:
            ((position,),) = db.execute("select pg_current_wal_flush_lsn()").fetchall()
        sql = f"select pg_last_wal_replay_lsn() >= '{position}'"
        with psycopg.connect(replica.url, autocommit=True) as db:
            wait_until(lambda: db.execute(sql).fetchall() == [(True,)])

    def stop(self) -> None:
        for server in (*self.replicas, self.primary):
            with suppress(AssertionError):  # it was killed
                server.stop("immediate")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with server_folder() as folder:
        cluster = Cluster(folder)
        yield cluster
        cluster.stop()


@contextmanager
def libraries(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, recollect.Library]]:
    monkeypatch.setenv("RECOLLECT_REPLICAS", ", ".join(each.url for each in cluster.replicas))
    monkeypatch.setenv("RECOLLECT_REPLICA_SECONDS", "600")
    with ExitStack() as stack:
        yield {
            user: stack.enter_context(recollect.open(cluster.url, user, background=False))
            for user in USERS
        }


def write(library: recollect.Library, text: str) -> None:
    library._store.save([Document("test", text, passages=(Passage("m", "user", text),))])


def texts(library: recollect.Library, query: str) -> list[str]:
    return [hit.snippet for hit in library.search(query).hits]


def replicas_of(library: recollect.Library) -> Replicas:
    store = library._store
    while not isinstance(store, PostgresStore):
        store = store._store  # type: ignore[attr-defined]
    return store._transactions._pool.replicas


def search_all(opened: dict[str, recollect.Library], query: str) -> list[ReplicaStatus]:
    """Every user finds her message. Returns the states of the replicas."""
    replicas = replicas_of(opened["ann"])
    replicas.check()
    for user, library in opened.items():
        assert texts(library, query) == [f"the castle of {user}"]
    return replicas.statuses()


def test_users_are_spread_over_two_replicas_and_survivors_take_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = cluster.replicas
    with libraries(cluster, monkeypatch) as opened:
        for user, library in opened.items():
            write(library, f"the castle of {user}")
        for replica in cluster.replicas:
            cluster.catch_up(replica)
        both = search_all(opened, "castle")
        assert [status.problem for status in both] == ["", ""]
        assert [status.searches for status in both] == [2, 2]
        first.stop("immediate")
        one = search_all(opened, "the castle")
        assert [bool(status.problem) for status in one] == [True, False]
        assert one[1].searches == both[1].searches + len(USERS)
        second.stop("immediate")
        none = search_all(opened, "castle of")
        assert all(status.problem for status in none)
        assert none[1].searches == one[1].searches
        first.start()
        cluster.catch_up(first)
        again = search_all(opened, "the castle of")
        assert [bool(status.problem) for status in again] == [False, True]
        assert again[0].searches == both[0].searches + len(USERS)


def test_a_program_follows_a_failover(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    successor, other = cluster.replicas
    with libraries(cluster, monkeypatch) as opened:
        library = opened["ann"]
        write(library, "the castle of ann")
        cluster.catch_up(successor)
        successor.stop("immediate")
        # The successor never gets this, because replication is asynchronous.
        write(library, "the lost tower")
        assert texts(library, "tower") == ["the lost tower"]
        cluster.primary.stop("immediate")
        other.stop("immediate")
        successor.start()
        successor.run("pg_ctl", "-D", str(successor.folder), "-w", "promote")
        assert texts(library, "the castle") == ["the castle of ann"]
        write(library, "a harbour and a tower")
        write(library, "the towers of the harbour")
        assert sorted(texts(library, "tower")) == [
            "a harbour and a tower",
            "the towers of the harbour",
        ]
        assert texts(library, "lost") == []
        replicas = replicas_of(library)
        replicas.check()
        assert all(status.problem for status in replicas.statuses())
    with recollect.open(cluster.url, "ann", background=False) as library:
        assert library._store.known_words(["tower", "towers", "lost"]) == {"tower", "towers"}
        assert library._store.verify().damaged == []
