"""Two servers on one database behave like one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lazy_import import LazyModule
from people import STORES, World, listening
from wire import (
    HttpUser,
    Probe,
    Web,
    call,
    message,
)

httpx2: Any = LazyModule("httpx2")
mcp: Any = LazyModule("mcp")
streamable_http: Any = LazyModule("mcp.client.streamable_http")

Pair = tuple[HttpUser, HttpUser]


@pytest.fixture(scope="module", params=STORES)
def two_webs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Web, Web]]:
    home = str(tmp_path_factory.mktemp("service"))
    if request.param == "postgres":
        home = request.getfixturevalue("database")
    worlds = (World(home), World(home))
    with listening(worlds[0]) as here, listening(worlds[1]) as there:
        yield Web(worlds[0], here), Web(worlds[1], there)
    for world in worlds:
        world.service.close()


@pytest.fixture
def pair(two_webs: tuple[Web, Web]) -> Pair:
    """One user as a client of both servers."""
    here, there = two_webs
    one = here.new_user()
    return one, HttpUser(there.address, one.key, one.user)


def test_a_session_begun_at_one_server_is_used_and_ended_at_the_other(
    pair: Pair, probe: Probe
) -> None:
    here, there = pair
    here.start_session("/mcp", client="a-client")
    there.session = here.session
    assert here.post(call()).status_code == 200
    assert there.post(call()).status_code == 200
    assert probe.contexts[-1].client == "a-client"
    assert probe.contexts[-1].session is not None
    assert probe.contexts[-1].session.recent_queries == ["query 1", "query 2"]
    assert there.send("DELETE").status_code == 200
    assert here.post(message("ping")).status_code == 404
