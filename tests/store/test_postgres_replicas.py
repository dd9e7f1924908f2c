"""Searches on a real streaming replica."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from local_servers import wait_until
from logins import login, of
from replication import TestReplica, new_replica
from traffic import tap

import recollect
from recollect import cli
from recollect.model.documents import Document, Passage
from recollect.serve.http.service import Service
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.replicas import Replicas, ReplicaStatus
from recollect.store.postgres.replicas.replica import Replica
from recollect.store.postgres.text import Counts

Open = Callable[..., recollect.Library]


@pytest.fixture(scope="module")
def replica(database: str) -> Iterator[TestReplica]:
    with new_replica(database) as replica:
        yield replica


@pytest.fixture
def url(database: str) -> str:
    """The database with an address of its own, so that this test has its own pool."""
    return f"{database}&target_session_attrs=read-write"


@pytest.fixture
def open_library(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open the library of a user with these replicas."""
    with ExitStack() as libraries:

        def open_with(user: str, *replicas: str, seconds: int = 600) -> recollect.Library:
            monkeypatch.setenv("RECOLLECT_REPLICAS", ", ".join(replicas))
            monkeypatch.setenv("RECOLLECT_REPLICA_SECONDS", str(seconds))
            return libraries.enter_context(recollect.open(url, user, background=False))

        yield open_with


def store_of(library: recollect.Library) -> PostgresStore:
    store = library._store
    while not isinstance(store, PostgresStore):
        store = store._store  # type: ignore[attr-defined]
    return store


def replicas_of(library: recollect.Library) -> Replicas:
    return store_of(library)._transactions._pool.replicas


def status_of(library: recollect.Library) -> ReplicaStatus:
    (status,) = replicas_of(library).statuses()
    return status


def write(library: recollect.Library, text: str) -> None:
    library._store.save([Document("test", text, passages=(Passage("m", "user", text),))])


def texts(library: recollect.Library, query: str) -> list[str]:
    return [hit.snippet for hit in library.search(query).hits]


def catch_up(library: recollect.Library, replica: TestReplica) -> None:
    """Wait until the library knows how old the replica is.

    Other tests write to the same server, so the replica may be behind again when it is checked. It
    then still has the position that the first check noted.
    """
    replicas_of(library).check()
    replica.catch_up()
    replicas_of(library).check()


def use_replica(library: recollect.Library, replica: TestReplica) -> None:
    """Wait until searches use the replica."""
    catch_up(library, replica)
    assert status_of(library).problem == ""


def test_a_replica_answers_searches_but_never_without_own_writes(
    replica: TestReplica, database: str, open_library: Open, user: str
) -> None:
    library = open_library(user, replica.url)
    write(library, "a castle on the hill")
    assert texts(library, "castle") == ["a castle on the hill"]
    assert status_of(library).searches == 0, "the replica has not been checked yet"
    use_replica(library, replica)
    assert texts(library, "hill") == ["a castle on the hill"]
    assert status_of(library).searches == 1
    with recollect.open(database, user, background=False) as other, replica.paused():
        write(other, "a tower by the castle")
        assert texts(library, "castle") == ["a castle on the hill"], "from the replica"
        assert status_of(library).searches == 2
        assert len(library.conversations()) == 2, "from the primary"
        write(library, "a harbour below the castle")
        assert len(texts(library, "castle")) == 3, "from the primary"
        assert (status_of(library).searches, status_of(library).refusals) == (2, 1)
        assert status_of(library).problem == "", "other users may still use it"
    assert len(texts(library, "castle OR harbour")) == 3
    assert status_of(library).searches == 3


@pytest.mark.full
def test_users_are_isolated_on_a_replica(
    replica: TestReplica, open_library: Open, user: str
) -> None:
    ann = open_library(user, replica.url)
    ben = open_library(f"{user} ben", replica.url)
    write(ann, "the secret of ann")
    write(ben, "the secret of ben")
    use_replica(ann, replica)
    assert texts(ann, "secret") == ["the secret of ann"]
    assert texts(ben, "secret") == ["the secret of ben"]
    assert status_of(ann).searches == 2
    transactions = store_of(ann)._transactions
    (server,) = transactions._pool.replicas._replicas
    with server.connection() as session:
        assert session.execute("select current_user").fetchall() == [("recollect_app",)]
        assert session.execute("select count(*) from passage").fetchall() == [(0,)]
        with session.transaction():
            session.execute(f"set local recollect.owner = '{transactions.owner}'")
            rows = session.execute("select content from passage").fetchall()
        assert rows == [("the secret of ann",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("select * from recollect.passage_0")


@pytest.mark.full
def test_a_replica_that_lags_too_much_is_not_used_until_it_has_caught_up(
    replica: TestReplica,
    database: str,
    open_library: Open,
    user: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    library = open_library(user, replica.url, seconds=1)
    write(library, "a castle")
    replica.catch_up()
    wait_until(lambda: bool(texts(library, "castle")) and not status_of(library).problem)
    with recollect.open(database, user, background=False) as other, replica.paused():
        write(other, "a castle and a tower")
        wait_until(lambda: len(texts(library, "castle")) == 2)
        problem = "it is more than 1 seconds behind the primary"
        wait_until(lambda: status_of(library).problem == problem)
        assert f"{status_of(library).location} is not used: {problem}" in caplog.text
    wait_until(lambda: not status_of(library).problem)
    searches = status_of(library).searches
    assert len(texts(library, "tower OR castle")) == 2
    assert status_of(library).searches == searches + 1


@pytest.mark.full
def test_a_search_continues_on_the_primary_if_its_replica_is_killed(
    replica: TestReplica, open_library: Open, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    library = open_library(user, replica.url)
    write(library, "a castle")
    use_replica(library, replica)
    store = store_of(library)
    with store.snapshot():
        assert store.size() == 1
        assert status_of(library).searches == 1
        replica.server.stop("immediate")
        try:
            assert store.variants(["castle"]) == [("castle",)]
            assert "a connection failed" in status_of(library).problem
            assert texts(library, "castle") == ["a castle"]
            replicas_of(library).check()
            assert "it cannot be used" in status_of(library).problem
            assert "it cannot be used" in caplog.text
            assert texts(library, "a castle") == ["a castle"]
        finally:
            replica.server.start()
    use_replica(library, replica)
    assert texts(library, "castle OR tower") == ["a castle"]
    assert status_of(library).searches == 2


@pytest.mark.full
def test_a_search_stays_on_the_primary_after_its_first_transaction_there(
    replica: TestReplica, open_library: Open, user: str
) -> None:
    library = open_library(user, replica.url)
    store = store_of(library)
    with store.snapshot():
        assert store.size() == 0
        use_replica(library, replica)
        store.release_snapshot()
        assert store.size() == 0
        assert status_of(library).searches == 0
    with store.snapshot():
        assert store.size() == 0
        assert status_of(library).searches == 1
        with replica.paused():
            write(library, "a castle")
            assert store.size() == 1
    assert status_of(library).searches == 1


@pytest.mark.full
def test_a_search_on_a_replica_has_as_many_statements_as_on_the_primary(
    replica: TestReplica,
    open_library: Open,
    user: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = open_library(user, replica.url)
    write(library, "which tram goes to the castle")
    library.search("warm up")
    with tap(tmp_path / "trace") as traces:
        connect = Replica._get_connection

        def connect_traced(server: Replica) -> object:
            session = connect(server)
            traces.attach(session)
            return session

        monkeypatch.setattr(Replica, "_get_connection", connect_traced)
        assert library.search("which tram goes to the castle").hits
        on_primary = traces.take()
        use_replica(library, replica)
        library._recent_searches._searches.clear()
        store_of(library)._counts = Counts()
        assert library.search("which tram goes to the castle").hits
        on_replica = traces.take()
        assert status_of(library).searches == 1
    assert len(on_replica.statements) == len(on_primary.statements)
    assert on_replica.transactions == on_primary.transactions == 1
    assert on_replica.round_trips == on_primary.round_trips


@pytest.mark.full
def test_only_a_replica_of_the_database_is_used(
    replica: TestReplica, database: str, open_library: Open, user: str
) -> None:
    """With another database, the numbers of users would mean other people."""
    addresses = {
        database: "it is not a replica: it accepts writes",
        of(replica.url, database="postgres"): "it cannot be used",
        "postgresql://nobody@127.0.0.1:1/recollect": "it cannot be used",
    }
    library = open_library(user, *addresses)
    write(library, "a castle")
    replicas_of(library).check()
    for status, problem in zip(replicas_of(library).statuses(), addresses.values(), strict=True):
        assert status.problem.startswith(problem)
    assert texts(library, "castle") == ["a castle"]
    assert {status.searches for status in replicas_of(library).statuses()} == {0}


@pytest.mark.full
def test_a_replica_of_another_database_with_libraries_is_not_used(
    replica: TestReplica, open_library: Open, user: str
) -> None:
    library = open_library(user, of(replica.url, database="recollect_template"))
    replica.catch_up()
    replicas_of(library).check()
    assert status_of(library).problem == "it is not a replica of this database"


@pytest.mark.full
def test_a_replica_that_became_a_primary_is_not_used(
    database: str, open_library: Open, user: str
) -> None:
    with new_replica(database) as replica:
        library = open_library(user, replica.url)
        write(library, "a castle")
        use_replica(library, replica)
        assert texts(library, "castle") == ["a castle"]
        replica.execute("select pg_promote()")
        write(library, "a castle and a tower")
        assert len(texts(library, "castle")) == 2
        assert status_of(library).problem == "it is not a replica: it accepts writes"
        replicas_of(library).check()
        assert status_of(library).problem == "it is not a replica: it accepts writes"


@pytest.mark.full
def test_a_login_without_privileges_can_use_a_replica(
    replica: TestReplica, database: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with login(database, member_of="recollect_app") as name:
        replica.catch_up()
        monkeypatch.setenv("RECOLLECT_REPLICAS", of(replica.url, name))
        with recollect.open(of(database, name), user, background=False) as library:
            write(library, "a castle")
            use_replica(library, replica)
            assert texts(library, "castle") == ["a castle"]
            assert status_of(library).searches == 1


@pytest.mark.full
def test_replicas_are_part_of_the_status_and_of_the_metrics(
    replica: TestReplica,
    url: str,
    user: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = "postgresql://nobody:secret@127.0.0.1:1/recollect"
    monkeypatch.setenv("RECOLLECT_REPLICAS", f"{replica.url},{away}")
    monkeypatch.setenv("RECOLLECT_REPLICA_SECONDS", "600")
    assert cli.main(["postgres", "status", "--home", url]) == 0
    out = capsys.readouterr().out
    assert " is used, at most 0." in out
    assert "127.0.0.1:1/recollect is not used: it cannot be used" in out
    assert "secret" not in out
    service = Service(url)
    with service.libraries.borrow(user) as library:
        write(library, "a castle")
        catch_up(library, replica)
        assert texts(library, "castle") == ["a castle"]
        text = service.metrics.text().decode()
    service.close()
    assert 'recollect_database_replica_used{replica="127.0.0.1:1/recollect"} 0.0' in text
    assert text.count("recollect_database_replica_seconds_behind{") == 1
    assert sum(line.endswith("} 1.0") for line in text.splitlines() if "replica_searches" in line)
    assert "secret" not in text
