"""Two streaming replicas of a server of its own: failover, and reading from a replica."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from local_servers import LocalServer, new_folder, server_folder, wait_until
from starlette.testclient import TestClient

import recollect
from recollect import Document, Passage
from recollect.places import keys
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key

pytestmark = pytest.mark.full


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


def write(library: recollect.Library, text: str) -> None:
    library._store.save([Document("test", text, passages=(Passage("m", "user", text),))])


def texts(library: recollect.Library, query: str) -> list[str]:
    return [hit.snippet for hit in library.search(query).hits]


def test_a_server_in_read_only_mode_answers_from_a_replica(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(cluster.url, "ann", background=False) as library:
        write(library, "the castle of ann")
        library.index()
    with closing(keys(cluster.url)) as api_keys:
        text, _ = new_key(api_keys, "ann")
    replica = cluster.replicas[0]
    cluster.catch_up(replica)
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    service = Service(replica.url, ServiceConfig())
    headers = {"Authorization": f"Bearer {text}"}
    with (
        closing(service),
        TestClient(make_app(service), "http://127.0.0.1:8765", headers=headers) as client,
    ):
        hits = client.get("/api/v1/search?q=fortress+castle").json()["hits"]
        assert [hit["snippet"] for hit in hits] == ["the castle of ann"]
        assert (
            "the castle of ann" in client.get(f"/conversations/{hits[0]['conversation_id']}").text
        )
        assert client.delete(f"/conversations/{hits[0]['conversation_id']}").status_code == 503


def test_a_program_follows_a_failover(cluster: Cluster) -> None:
    successor, other = cluster.replicas
    with recollect.open(cluster.url, "ann", background=False) as library:
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
    with recollect.open(cluster.url, "ann", background=False) as library:
        assert library._store.known_words(["tower", "towers", "lost"]) == {"tower", "towers"}
        assert library._store.verify().damaged == []
