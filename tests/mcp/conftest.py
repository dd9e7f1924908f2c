"""An MCP server for all tests of a file; every test has its own users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "serve"))

from people import STORES, World, listening, world
from tool_calls import Caller, MakeCaller
from wire import HttpUser, Probe, Web

from recollect.serve.mcp import conversation_search


@pytest.fixture(autouse=True)
def close_connections() -> Iterator[None]:
    yield
    while HttpUser.instances:
        HttpUser.instances.pop().http.close()


@pytest.fixture(scope="module", params=STORES)
def web_on_each_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    """A server on each store."""
    with world(request, tmp_path_factory) as service, listening(service) as address:
        yield Web(service, address)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server on SQLite, for tests that do not depend on the store."""
    service = World(str(tmp_path_factory.mktemp("service")))
    with listening(service) as address:
        yield Web(service, address)
    service.service.close()


@pytest.fixture
def ann(web: Web) -> HttpUser:
    return web.new_user()


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Probe]:
    probe = Probe()
    monkeypatch.setattr(conversation_search, "conversation_search", probe)
    yield probe
    probe.release.set()


@pytest.fixture
def make_caller(request: pytest.FixtureRequest, place: str) -> Iterator[MakeCaller]:
    """Creates clients that call tools directly. The test module names their TOOLSETS."""
    callers: list[Caller] = []

    def make(**options: Any) -> Caller:
        callers.append(Caller(place, *request.module.TOOLSETS, **options))
        return callers[-1]

    yield make
    for caller in callers:
        caller.close()


@pytest.fixture
def agent(make_caller: MakeCaller) -> Caller:
    return make_caller()
