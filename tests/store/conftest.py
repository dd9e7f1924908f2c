"""Every store passes the same tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from postgres import STORES
from statements import Recorder, problem, record_statements

from recollect.store.base import Store
from recollect.store.sqlite import SqliteStore


def pytest_configure(config: pytest.Config) -> None:
    marker = "every_store: a happy path that also runs on PostgreSQL by default"
    config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """By default, the tests marked `every_store` run on both stores, the others on SQLite."""
    if "reopen" in metafunc.fixturenames:
        is_proved = metafunc.definition.get_closest_marker("every_store") is None
        stores = STORES if is_proved else ["sqlite", "postgres"]
        metafunc.parametrize("reopen", stores, indirect=True)


@pytest.fixture
def reopen(
    request: pytest.FixtureRequest, tmp_path: Path, user: str
) -> Iterator[Callable[[], Store]]:
    """Open the same store again, as another process would."""
    stores: list[Store] = []
    url: str = ""
    if request.param == "postgres":
        url = request.getfixturevalue("database")

    def open_again() -> Store:
        store = open_store(url, tmp_path / "store", user)
        stores.append(store)
        return store

    yield open_again
    for store in stores:
        store.close()


def open_store(url: str, folder: Path, user: str) -> Store:
    if url:
        from recollect.store.postgres import PostgresStore

        return PostgresStore(url, user)
    return SqliteStore(folder / "library.db")


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of an SQLite store."""
    return tmp_path / "store" / "library.db"


@pytest.fixture
def sqlite_store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.fixture(scope="session")
def recorder(database: str) -> Iterator[Recorder]:
    """Records the statements that the tests execute in their database."""
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with record_statements(str(name)) as recorder:
        yield recorder


class Planner:
    """A connection without row-level security. It survives tests that end all connections."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._database, autocommit=True)
        connection.execute("set search_path = recollect, public")
        return connection

    @property
    def connection(self) -> psycopg.Connection:
        try:
            self._connection.execute("select 1")
        except psycopg.OperationalError:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="session")
def shared_planner(database: str) -> Iterator[Planner]:
    with closing(Planner(database)) as planner:
        yield planner


@pytest.fixture
def planner(shared_planner: Planner) -> psycopg.Connection:
    return shared_planner.connection


@pytest.fixture(autouse=True)
def every_statement_names_the_owner(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test on PostgreSQL, check the statements that no test executed before."""
    if "database" not in request.fixturenames and "postgres" not in request.node.name:
        yield
        return
    recorder: Recorder = request.getfixturevalue("recorder")
    planner: Planner = request.getfixturevalue("shared_planner")
    yield
    connection = planner.connection
    problems = [(sql, problem(connection, (sql, values))) for sql, values in recorder.take()]
    assert [(sql, reason) for sql, reason in problems if reason] == []
