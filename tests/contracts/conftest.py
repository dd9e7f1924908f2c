"""The tool, and each world in which a clause must hold: the library in every store, and three kinds of database;
and the service, as a person and as an agent come to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import databases
import pytest
from databases import Message
from postgres import STORES
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send
from worlds import Tool, World

from recollect.manage.accounts import new_key
from recollect.serve.app import make_app
from recollect.serve.service import Service, ServiceConfig
from recollect.settings import place as placed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def tool() -> Iterator[Tool]:
    opened = Tool()
    yield opened
    opened.close()


@pytest.fixture(params=[*STORES, *databases.SHAPES])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    file = tmp_path / "export with spaces & 100%?#.db"
    if request.param == "postgres":
        request.getfixturevalue("on_postgres")
    if request.param in databases.SHAPES:
        monkeypatch.setenv("CONVERSATION_DB", str(file))
    return World(request.param, file)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A canonical export with one message."""
    path = tmp_path / "canonical-export-2026-01-01.db"
    databases.create(path, "canonical-json")
    databases.add(path, "canonical-json", "c1", "Fruit", [Message("user", "an apple")])
    return path


@pytest.fixture(scope="module", params=STORES)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service on each store. It lasts for all tests of a file: each has a user of its own."""
    on_server = request.param == "postgres"
    home = (
        request.getfixturevalue("database")
        if on_server
        else str(tmp_path_factory.mktemp("service"))
    )
    made = Service(placed(home), ServiceConfig(rate_per_minute=0))
    yield made
    made.drain()
    made.close()


@pytest.fixture(scope="module")
def app(service: Service) -> ASGIApp:
    made = make_app(service)

    async def as_served(scope: Scope, receive: Receive, send: Send) -> None:
        """The test client decodes a path twice, and shuts the app down with itself; a server does neither."""
        if scope["type"] == "http":
            await made({**scope, "path": unquote(scope["raw_path"].decode())}, receive, send)
        elif scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})

    return as_served


def came(service: Service, app: ASGIApp, user: str, agent: bool = False) -> TestClient:
    text, _ = new_key(service.keys, user, agent=agent)
    service.auth.keys_changed()
    return TestClient(app, "http://127.0.0.1:8765", headers={"Authorization": f"Bearer {text}"})


@pytest.fixture
def client(service: Service, app: ASGIApp, user: str) -> TestClient:
    """A person with a key and an empty library."""
    return came(service, app, user)


@pytest.fixture
def agent(service: Service, app: ASGIApp, user: str) -> TestClient:
    """An agent of the same user, who does not see what only people may see."""
    return came(service, app, user, agent=True)
