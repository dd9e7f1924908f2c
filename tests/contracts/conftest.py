"""Fixtures of the contract suites: data sources, stores, states of the index, and a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import databases
import knowledge_items
import pytest
import states
from databases import Message
from histories import History, Tool
from rest_client import Client
from starlette.types import ASGIApp, Receive, Scope, Send

import recollect
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.settings import place as parse_place

# -- stores and states ---
# By default, tests run on SQLite. Those that search run in the state that people have: background.
# The other combinations of stores and states are marked `full`. Tests marked `every_store` are the
# happy paths that also run on PostgreSQL by default (`both_stores` would select every state).


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "every_state(*names): a test that searches; it runs in every state, or in these",
        "every_store: a happy path that also runs on PostgreSQL by default",
        "sqlite_only: the test looks at the files of SQLite",
    ):
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("every_state")
    stores = _stores(metafunc)
    if "history" in metafunc.fixturenames:
        pairs = _histories(stores, searches=marker is not None)
        metafunc.parametrize(("history", "state"), pairs, indirect=True)
        return
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("store", stores, indirect=True, scope="module")
    if marker is not None:
        metafunc.parametrize("state", _states(*marker.args), indirect=True)


def _stores(metafunc: pytest.Metafunc) -> list[object]:
    definition = metafunc.definition
    if definition.get_closest_marker("sqlite_only") is not None:
        return ["sqlite"]
    if definition.get_closest_marker("every_store") is not None:
        return ["sqlite", "postgres"]
    return ["sqlite", pytest.param("postgres", marks=pytest.mark.full)]


def _states(*names: str) -> list[object]:
    """The states of these names, or all. Those that do not run by default are marked `full`."""
    params: list[object] = []
    for name in names or states.STATES:
        marks = [] if name in states.BY_DEFAULT else [pytest.mark.full]
        params.append(pytest.param(name, marks=marks))
    return params


def _histories(stores: list[object], *, searches: bool) -> list[object]:
    """Data sources with states. A foreign database is never indexed, so it has one state."""
    pairs: list[object] = [(shape, states.FRESH) for shape in databases.SHAPES]
    for store in map(_as_param, stores):
        for state in map(_as_param, _states() if searches else [states.FRESH]):
            marks = [*store.marks, *state.marks]
            pairs.append(pytest.param(*store.values, *state.values, marks=marks))
    return pairs


def _as_param(value: object) -> pytest.param:  # type: ignore[valid-type]
    return pytest.param(value) if isinstance(value, str) else value


@pytest.fixture
def state(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The state that `states.settle` brings libraries into."""
    name = getattr(request, "param", states.FRESH)
    with states.activate(name, monkeypatch):
        yield name


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(request: pytest.FixtureRequest, store: str, state: str, tmp_path: Path) -> str:
    """Where the library of a test is: a folder or the URL of a database."""
    if store == "postgres":
        url: str = request.getfixturevalue("on_postgres")
        return url
    return str(tmp_path / "home")


@pytest.fixture
def collection(library: recollect.Library) -> recollect.Library:
    """Items of every source that mention a lighthouse."""
    knowledge_items.fill(library)
    return library


# -- conversation search ---


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def tool() -> Iterator[Tool]:
    tool = Tool()
    yield tool
    tool.close()


@pytest.fixture
def history(
    request: pytest.FixtureRequest, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[History]:
    file = tmp_path / "export with spaces & 100%?#.db"
    if request.param == "postgres":
        request.getfixturevalue("on_postgres")
    if request.param in databases.SHAPES:
        monkeypatch.setenv("CONVERSATION_DB", str(file))
    history = History(request.param, file)
    yield history
    history.close()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A canonical export with one message."""
    path = tmp_path / "canonical-export-2026-01-01.db"
    databases.create(path, "canonical-json")
    databases.add(path, "canonical-json", "c1", "Fruit", [Message("user", "an apple")])
    return path


# -- a service ---


@pytest.fixture(scope="module")
def service(
    request: pytest.FixtureRequest, store: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service that all tests of a file share. Each test has its own user."""
    if store == "postgres":
        home = request.getfixturevalue("database")
    else:
        home = str(tmp_path_factory.mktemp("service"))
    service = Service(parse_place(home), ServiceConfig(rate_per_minute=0))
    yield service
    service.drain()
    service.close()


@pytest.fixture(scope="module")
def app(service: Service) -> ASGIApp:
    app = make_app(service)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        """Behave like a real server. The test client decodes a path twice, and shuts the app down
        when the client closes."""
        if scope["type"] == "http":
            await app({**scope, "path": unquote(scope["raw_path"].decode())}, receive, send)
        elif scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})

    return serve


@pytest.fixture
def client(service: Service, app: ASGIApp, user: str, state: str) -> Client:
    """A person with an API key and an empty library."""
    return Client(service, app, user)


@pytest.fixture
def agent(service: Service, app: ASGIApp, user: str, state: str) -> Client:
    """An agent of the same user. It must not see human-only messages."""
    return Client(service, app, user, agent=True)
