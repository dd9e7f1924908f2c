"""Two servers on one database behave like one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lazy_import import LazyModule
from people import STORES, World, listening
from wire import (
    TIMEOUT,
    HttpUser,
    Probe,
    Web,
    answers,
    call,
    events,
    message,
    notification,
    text_of,
)

from recollect.serve.mcp.transports import calls, shared_calls
from recollect.store.shared import streams
from recollect.store.shared.streams import StreamLog

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
def pair(two_webs: tuple[Web, Web], monkeypatch: pytest.MonkeyPatch) -> Pair:
    """One user as a client of both servers. The servers look more often than usual."""
    monkeypatch.setattr(calls, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(shared_calls, "POLL_SECONDS", 0.02)
    here, there = two_webs
    one = here.new_user()
    return one, HttpUser(there.address, one.key, one.user)


def begin_stream(user: HttpUser, probe: Probe) -> str:
    """Call a tool in a session and lose the connection. Returns the id of the last event."""
    probe.hold()
    probe.progress = 2
    content = json.dumps(call(request_id="long", meta={"progressToken": 1})).encode()
    with user.stream(user.request("POST", content=content)) as (_, lines):
        ids = [line[4:] for line in (next(lines) for _ in range(8)) if line.startswith("id: ")]
    return ids[1]


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


def test_a_stream_begun_at_one_server_is_resumed_at_the_other(pair: Pair, probe: Probe) -> None:
    here, there = pair
    here.start_session()
    last = begin_stream(here, probe)
    there.session = here.session
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(there.send, "GET", last_event_id=last)
        probe.release.set()
        progress, result = answers(answer.result(TIMEOUT).text)
    assert progress["method"] == "notifications/progress"
    assert text_of(result) == f"for {here.user}"
    ids = [event["id"] for event in events(answer.result().text) if "id" in event]
    assert answers(there.send("GET", last_event_id=ids[0]).text) == [result]


def test_a_request_is_cancelled_at_the_other_server(pair: Pair, probe: Probe) -> None:
    here, there = pair
    here.start_session()
    there.session = here.session
    probe.hold()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(here.post, call(request_id="long"))
        assert probe.started.acquire(timeout=TIMEOUT)
        cancel = notification("notifications/cancelled", requestId="long")
        assert there.post(cancel).status_code == 202
        assert answer.result(TIMEOUT).json()["error"]["code"] == -32800
    assert probe.saw_cancellation.wait(TIMEOUT)


def test_ending_a_session_ends_its_calls_and_listeners_at_the_other_server(
    pair: Pair, probe: Probe
) -> None:
    here, there = pair
    here.start_session()
    there.session = here.session
    probe.hold()
    listener = here.http.send(here.request("GET"), stream=True)
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(here.post, call())
        assert probe.started.acquire(timeout=TIMEOUT)
        assert there.send("DELETE").status_code == 200
        assert answer.result(TIMEOUT).json()["error"]["code"] == -32800
        assert answers(pool.submit(listener.read).result(TIMEOUT).decode()) == []


def test_a_stream_of_a_server_that_died_ends_with_an_error(
    pair: Pair, two_webs: tuple[Web, Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "ABANDONED_SECONDS", 0)
    here, there = pair
    here.start_session()
    there.session = here.session
    dead_server = StreamLog(two_webs[0].world.service.shared, "dead")
    id = shared_calls.session_id(here.user, here.session)
    dead_server.begin("abc", id, '"long"')
    dead_server.append("abc", 0, [b'{"method": "notifications/progress"}'], is_last=False)
    for _ in range(2):
        progress, error = answers(there.send("GET", last_event_id="abc-0").text)
        assert progress == {"method": "notifications/progress"}
        assert error["id"] == "long"
        assert "has stopped" in error["error"]["message"]
    dead_server.append("abc", 1, [b"late"], is_last=True)
    assert len(answers(there.send("GET", last_event_id="abc-0").text)) == 2


def test_stored_streams_are_bounded(
    two_webs: tuple[Web, Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 3)
    monkeypatch.setattr(streams, "MAX_BYTES", 100)
    log = StreamLog(two_webs[0].world.service.shared, "bounded")
    for number in range(5):
        log.begin(f"s{number}", "session", "1")
        log.append(f"s{number}", 0, [b"x" * 40], is_last=True)
    log.drop_old()
    remaining = [number for number in range(5) if log.read(f"s{number}", "session", 0)]
    assert len(remaining) == 2
    assert log.read(f"s{remaining[0]}", "another session", 0) is None
    monkeypatch.setattr(streams, "STREAM_SECONDS", -1)
    log.drop_old()
    assert log.read(f"s{remaining[0]}", "session", 0) is None


@pytest.mark.full
def test_the_official_client_can_be_moved_between_the_servers(pair: Pair) -> None:
    """As behind a proxy that sends each request to the next server."""
    addresses = [httpx2.URL(user.address) for user in pair]
    turns: list[int] = []

    async def choose_server(request: Any) -> None:
        address = addresses[len(turns) % 2]
        turns.append(len(turns) % 2)
        request.url = request.url.copy_with(host=address.host, port=address.port)
        request.headers["host"] = f"{address.host}:{address.port}"

    async def use() -> list[bool]:
        headers = {"Authorization": f"Bearer {pair[0].key}"}
        hooks = {"request": [choose_server]}
        async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT, event_hooks=hooks) as http:
            url = f"{pair[0].address}/mcp"
            transport = streamable_http.streamable_http_client(url, http_client=http)
            async with mcp.Client(transport, mode="legacy", read_timeout_seconds=TIMEOUT) as client:
                assert (await client.list_tools()).tools
                results = [
                    await client.call_tool("conversation_search", {"query": "tram"})
                    for _ in range(6)
                ]
                return [result.is_error for result in results]

    assert asyncio.run(use()) == [False] * 6
    assert set(turns) == {0, 1}
