"""A server with MCP, on each store, for all tests of a file; every test comes to it with users of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "serve"))

from people import STORES, World, listening, world
from wire import Probe, Someone, Web

from recollect.serve.mcp.conversations import Toolset


@pytest.fixture(autouse=True)
def connections_closed() -> Iterator[None]:
    yield
    while Someone.everybody:
        Someone.everybody.pop().http.close()


@pytest.fixture(scope="module", params=STORES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    """A server on each store."""
    with world(request, tmp_path_factory) as made, listening(made) as address:
        yield Web(made, address)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server, for what does not depend on the store."""
    made = World(str(tmp_path_factory.mktemp("service")))
    with listening(made) as address:
        yield Web(made, address)
    made.service.close()


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Probe]:
    made = Probe()
    monkeypatch.setattr(
        Toolset, "conversation_search", lambda self, context, given: made(self, context, given)
    )
    yield made
    made.may_end.set()
