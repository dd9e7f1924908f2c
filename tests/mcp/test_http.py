"""MCP over HTTP, word for word: sessions, both eras, streams, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from asgi import raw
from people import World, listening
from wire import (
    BOTH,
    NEW,
    OLD,
    PATIENCE,
    Probe,
    Someone,
    Web,
    answers,
    call,
    events,
    headers_of,
    initialize,
    message,
    stateless,
    text_of,
    told,
)

from recollect.serve.accounts import new_key
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.mcp.tool import Tool
from recollect.serve.mcp.tools.conversations.handlers import Handlers
from recollect.serve.mcp.toolsets import OMITTED, PROFILES, all_tools
from recollect.serve.mcp.transports import calls, http_answer, streamable_http
from recollect.serve.mcp.transports.http_answer import AcceptedTypes
from recollect.serve.mcp.transports.streams import Stream, StreamStore
from recollect.settings import LIMITS


@pytest.fixture
def ann(web: Web) -> Someone:
    return web.someone()


def is_ours(answer: httpx.Response, status: int) -> bool:
    """Whether an answer is an error of this status, in the one shape of all our errors."""
    body = answer.json()
    return (
        answer.status_code == status
        and body["success"] is False
        and body["error"]["details"]["status_code"] == status
    )


def code(answer: httpx.Response) -> int:
    found: int = answer.json()["error"]["code"]
    return found


# -- sessions, as they were until 2025-11-25 ---------------------------------


@pytest.mark.both_stores
def test_a_session_is_begun_used_and_ended(served: Web) -> None:
    ann = served.someone()
    served.remember(ann.user, "the walrus was Paul")
    began = ann.begin()
    assert (began["protocolVersion"], began["serverInfo"]["name"]) == (OLD, "recollect")
    assert "conversation_search" in [
        tool["name"] for tool in ann.post(message("tools/list")).json()["result"]["tools"]
    ]
    assert "the walrus was Paul" in text_of(
        ann.post(call(query="walrus"), mcp_protocol_version=OLD).json()
    )
    assert ann.send("DELETE").status_code == 200
    for answer in (ann.post(message("tools/list")), ann.send("GET"), ann.send("DELETE")):
        assert is_ours(answer, 404)


def test_a_key_in_the_query_is_the_same_as_in_the_header(ann: Someone) -> None:
    ann.begin()
    key, ann.session = ann.session, ""
    assert ann.post(message("ping"), f"/mcp?mcp-session-id={key}").json()["result"] == {}
    assert ann.send("DELETE", f"/mcp?mcp-session-id={key}").status_code == 200
    assert ann.post(message("ping"), f"/mcp?mcp-session-id={key}").status_code == 404


def test_a_client_may_choose_the_key_of_its_session(ann: Someone) -> None:
    key = f"mine-{uuid.uuid4()}"
    assert ann.post(initialize(), mcp_session_id=key).headers["mcp-session-id"] == key
    ann.session = key
    assert ann.post(message("ping")).status_code == 200


def test_without_a_session_a_request_is_answered_and_nothing_remembered(
    ann: Someone, probe: Probe
) -> None:
    assert text_of(ann.post(call()).json()) == f"for {ann.user}"
    assert probe.contexts[-1].session is None


def test_a_stream_and_an_end_need_a_session(ann: Someone) -> None:
    assert is_ours(ann.send("GET"), 400)
    assert is_ours(ann.send("DELETE"), 400)
    ann.session = "nothing"
    assert is_ours(ann.send("GET"), 404)
    assert is_ours(ann.send("DELETE"), 404)
    assert is_ours(ann.post(message("ping")), 404)


@pytest.mark.parametrize("how", ["header", "query"])
def test_the_session_of_somebody_else_is_not_there(web: Web, probe: Probe, how: str) -> None:
    ann, mallory = web.someone(), web.someone()
    ann.begin()
    path = "/mcp"
    if how == "header":
        mallory.session = ann.session
    else:
        path = f"/mcp?mcp-session-id={ann.session}"
    for answer in (
        mallory.post(message("ping"), path),
        mallory.send("GET", path),
        mallory.send("DELETE", path),
        mallory.post(told("notifications/initialized"), path),
        mallory.send("GET", path, last_event_id="0-0"),
    ):
        assert is_ours(answer, 404)
    mallory.session = ""
    assert mallory.post(call(), cookie=f"mcp-session-id={ann.session}").status_code == 200
    assert probe.contexts[-1].session is None
    assert ann.post(message("ping")).status_code == 200, "the session lives on"


def test_a_session_is_its_users_whatever_key_they_use(web: Web) -> None:
    ann = web.someone()
    ann.begin()
    other = web.someone(user=ann.user)
    other.session = ann.session
    assert other.post(message("ping")).status_code == 200


def test_notifications_and_answers_are_taken_in_silence(ann: Someone) -> None:
    ann.begin()
    odd = told("notifications/cancelled", requestId=["x"])
    for body in (
        told("notifications/initialized"),
        told("x"),
        odd,
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        answer = ann.post(body)
        assert (answer.status_code, answer.content) == (202, b"")


def test_what_initialize_settled_holds_for_the_session(web: Web, probe: Probe) -> None:
    ann = web.someone()
    ann.begin(client="my-client", version="2025-03-26")
    assert [one["id"] for one in ann.post([message("ping", 1), message("ping", 2)]).json()] == [
        1,
        2,
    ]
    assert ann.post([told("notifications/x")]).status_code == 202
    ann.post(call())
    assert (probe.contexts[-1].client, probe.contexts[-1].agent) == ("my-client", False)
    bob = web.someone(agent=True)
    bob.begin()
    assert bob.post([message("ping", 1)]).status_code == 400
    bob.post(call())
    assert probe.contexts[-1].agent


def test_openai_is_recognised_in_the_era_of_sessions_alone(ann: Someone) -> None:
    ann.begin(client="openai-mcp")
    names = [tool["name"] for tool in ann.post(message("tools/list")).json()["result"]["tools"]]
    assert names == ["knowledge_search", "knowledge_get", "search", "fetch"]
    ann.session = ""
    asked = stateless(
        message("tools/list"), **{"io.modelcontextprotocol/clientInfo": {"name": "openai-mcp"}}
    )
    tools = ann.post(asked, **headers_of(asked)).json()["result"]["tools"]
    assert "conversation_search" in [tool["name"] for tool in tools]


def test_a_failed_initialize_begins_nothing(ann: Someone) -> None:
    answer = ann.post(message("initialize", 1))
    assert answer.json()["error"]["code"] == -32602
    assert "mcp-session-id" not in answer.headers


# -- what is sent, and what is read ------------------------------------------


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (BOTH, "application/json"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        (None, "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream;q=1, text/html", "text/event-stream"),
        ("Application/JSON; q=1", "application/json"),
    ],
)
def test_answers_come_as_the_client_reads_them(
    ann: Someone, probe: Probe, accept: str | None, kind: str
) -> None:
    ann.http.headers.pop("accept")
    for body in (message("ping"), call()):
        answer = ann.post(body, accept=accept)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        whole = answer.json() if kind == "application/json" else answers(answer.text)[-1]
        assert whole["id"] == 1
        assert "result" in whole


def test_what_a_client_accepts_is_read_from_its_header() -> None:
    for header, accepts_json, accepts_events in (
        (None, True, False),
        ("text/html", False, False),
        ("text/*", False, True),
    ):
        accepts = AcceptedTypes(header)
        assert (accepts.json, accepts.events) == (accepts_json, accepts_events)


def test_who_reads_neither_is_refused(ann: Someone) -> None:
    assert is_ours(ann.post(message("ping"), accept="text/html"), 406)
    ann.begin()
    assert is_ours(ann.send("GET", accept="application/json"), 406)


@pytest.mark.parametrize(
    "kind",
    [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"],
)
def test_what_is_not_said_to_be_json_is_refused(ann: Someone, kind: str | None) -> None:
    assert is_ours(ann.post(message("ping"), content_type=kind), 415)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"1" * 5_000, -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b"7", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    ],
)
def test_what_is_no_message_is_refused_in_the_protocols_words(
    ann: Someone, body: bytes, expected: int
) -> None:
    ann.begin()
    answer = ann.post(body)
    assert (answer.status_code, code(answer)) == (400, expected)


def test_a_message_that_is_too_long_is_refused(ann: Someone) -> None:
    assert is_ours(ann.post(b" " * (LIMITS.mcp_line_bytes + 1)), 413)
    assert ann.post(json.dumps(message("ping")).encode() + b" " * 100_000).status_code == 200


@pytest.mark.parametrize("version", ["1999-01-01", "x", "2026-07-29", ""])
def test_a_version_that_nobody_speaks_is_refused(ann: Someone, version: str) -> None:
    ann.begin()
    posted = [
        ann.post(body, mcp_protocol_version=version)
        for body in (message("ping"), told("notifications/x"))
    ]
    for answer in (
        *posted,
        *(ann.send(method, mcp_protocol_version=version) for method in ("GET", "DELETE")),
    ):
        assert (answer.status_code, code(answer)) == (400, -32022)
        assert answer.json()["error"]["data"]["supported"] == [NEW]


def test_other_methods_are_refused(ann: Someone) -> None:
    for method in ("PUT", "PATCH"):
        assert is_ours(ann.send(method), 405)
    assert ann.send("OPTIONS").headers["allow"] == "GET, HEAD, POST, DELETE, OPTIONS"


# -- the era without sessions ------------------------------------------------


def test_each_request_stands_alone(served: Web) -> None:
    ann = served.someone()
    served.remember(ann.user, "the walrus was Paul")
    found = ann.ask(message("server/discover"))
    assert found.json()["result"]["supportedVersions"] == [NEW]
    listed = ann.ask(message("tools/list"))
    assert listed.json()["result"]["resultType"] == "complete"
    said = ann.ask(call(query="walrus"))
    assert "the walrus was Paul" in text_of(said.json())
    for answer in (found, listed, said):
        assert answer.status_code == 200
        assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": OLD},
        {"MCP-Protocol-Version": "2027-01-01"},
        {"Mcp-Method": None},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": "Tools/Call"},
        {"Mcp-Name": None},
        {"Mcp-Name": "msg_search"},
        {"Mcp-Name": ""},
        {"Mcp-Name": "=?base64?!!!?="},
        {"Mcp-Name": "=?base64?/w==?="},
    ],
)
def test_headers_must_repeat_what_the_body_says(
    ann: Someone, probe: Probe, wrong: dict[str, str | None]
) -> None:
    asked = stateless(call())
    answer = ann.post(asked, **{**headers_of(asked), **wrong})
    assert (answer.status_code, code(answer), answer.json()["id"]) == (400, -32020, 1)
    assert not probe.contexts


def test_a_header_that_is_there_twice_is_refused(ann: Someone) -> None:
    asked = stateless(call())
    for name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"):
        twice = [*headers_of(asked).items(), (name, headers_of(asked)[name])]
        answer = ann.http.post(
            "/mcp", headers=[*ann.http.headers.items(), *twice], content=json.dumps(asked)
        )
        assert (answer.status_code, code(answer)) == (400, -32020)


def test_a_name_may_be_written_in_base64(ann: Someone, probe: Probe) -> None:
    named = f"=?base64?{base64.b64encode(b'conversation_search').decode()}?="
    assert ann.ask(call(), **{"Mcp-Name": named}).status_code == 200


def test_what_is_refused_has_the_status_that_the_protocol_gives_it(ann: Someone) -> None:
    unknown = stateless(
        message("ping"), **{"io.modelcontextprotocol/protocolVersion": "2027-01-01"}
    )
    answer = ann.post(unknown, **{**headers_of(unknown), "MCP-Protocol-Version": "2027-01-01"})
    assert (answer.status_code, code(answer)) == (400, -32022)
    assert (ann.ask(message("no/such")).status_code, code(ann.ask(message("no/such")))) == (
        404,
        -32601,
    )
    assert (ann.ask(message("initialize")).status_code, code(ann.ask(message("initialize")))) == (
        404,
        -32601,
    )
    assert (ann.ask(call("no_such_tool")).status_code, code(ann.ask(call("no_such_tool")))) == (
        400,
        -32602,
    )
    bare = message("tools/list")
    answer = ann.post(bare, **headers_of(bare))
    assert (answer.status_code, code(answer)) == (400, -32602)
    for body in ([stateless(message("tools/list"))], {"jsonrpc": "2.0", "id": 1, "result": {}}, 7):
        answer = ann.post(body, mcp_protocol_version=NEW)
        assert (answer.status_code, code(answer)) == (400, -32600)


def test_there_are_only_posts_and_notifications_are_dropped(ann: Someone) -> None:
    for method in ("GET", "DELETE"):
        assert is_ours(ann.send(method, mcp_protocol_version=NEW), 405)
    assert (
        ann.post(told("notifications/cancelled", requestId=1), mcp_protocol_version=NEW).status_code
        == 202
    )


@pytest.mark.parametrize("how", ["header", "query", "argument"])
def test_a_client_may_send_a_key_of_its_own_to_be_remembered(
    web: Web, probe: Probe, how: str
) -> None:
    ann, bob = web.someone(), web.someone()

    def ask(who: Someone) -> Any:
        if how == "header":
            who.ask(call(), **{"mcp-session-id": "k"})
        elif how == "query":
            who.ask(call(), "/mcp?mcp-session-id=k")
        else:
            who.ask(call(session_id="k"))
        return probe.contexts[-1].session

    first = ask(ann)
    assert first is not None
    assert ask(ann) is first
    assert ask(bob) is not first, "the same key of another user is another session"
    assert probe.arguments == [{}, {}, {}]
    ann.ask(call())
    assert probe.contexts[-1].session is None


@pytest.mark.parametrize("key", ["x" * 129, "a b", "\u00e9"])
def test_a_key_that_cannot_be_one_is_refused(ann: Someone, key: str) -> None:
    assert is_ours(ann.ask(call(), f"/mcp?mcp-session-id={key}"), 400)


# -- streams -----------------------------------------------------------------


@pytest.mark.parametrize("era", [OLD, NEW])
def test_progress_is_told_to_those_who_ask(ann: Someone, probe: Probe, era: str) -> None:
    probe.progress = 3
    asked = call(meta={"progressToken": "t"})
    if era == NEW:
        whole = stateless(call(), progressToken="t")
        answer = ann.post(whole, **headers_of(whole))
    else:
        ann.begin()
        answer = ann.post(asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *news, last = answers(answer.text)
    assert [one["params"]["progress"] for one in news] == [1, 2, 3]
    assert {one["params"]["progressToken"] for one in news} == {"t"}
    assert text_of(last) == f"for {ann.user}"
    plain = ann.post(call()) if era == OLD else ann.ask(call())
    assert plain.headers["content-type"] == "application/json", "nobody asked"


def test_who_reads_no_streams_gets_the_answer_alone(ann: Someone, probe: Probe) -> None:
    probe.progress = 3
    answer = ann.post(call(meta={"progressToken": 1}), accept="application/json")
    assert text_of(answer.json()) == f"for {ann.user}"


def test_what_takes_long_becomes_a_stream(
    ann: Someone, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_answer, "JSON_SECONDS", 0.0)
    monkeypatch.setattr(http_answer, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(http_answer, "KEEP_ALIVE_SECONDS", 0.0)
    probe.hold()
    with ann.stream(ann.request("POST", content=json.dumps(call()).encode())) as (answer, lines):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(line for line in lines if line) == ": keep-alive"
        probe.may_end.set()
        assert (
            text_of(json.loads(next(line for line in lines if line.startswith("data: "))[6:]))
            == f"for {ann.user}"
        )


@pytest.mark.parametrize("moment", [0.0, PATIENCE])
@pytest.mark.parametrize("accept", [BOTH, "application/json"])
def test_an_answer_is_the_same_whether_it_is_there_in_a_moment_or_not(
    ann: Someone, probe: Probe, monkeypatch: pytest.MonkeyPatch, moment: float, accept: str
) -> None:
    monkeypatch.setattr(http_answer, "QUICK_SECONDS", moment)
    for answer in (ann.post(call(), accept=accept), ann.ask(call(), accept=accept)):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert text_of(answer.json()) == f"for {ann.user}"
    assert ann.ask(call("nothing"), accept=accept).status_code == 400


def test_a_client_may_listen_until_its_session_ends(
    ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable_http, "TICK_SECONDS", 0.01)
    ann.begin()
    other = Someone(ann.address, ann.key, ann.user)
    other.session = ann.session
    with ann.stream(ann.request("GET")) as (answer, lines):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert [next(lines), next(lines), next(lines)] == ["retry: 1000", "", ": keep-alive"]
        assert other.send("DELETE").status_code == 200
        assert [line for line in lines if line and not line.startswith(":")] == []


def test_too_many_who_listen_are_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LIMITS", replace(LIMITS, mcp_connections_each_user=3))
    ann = web.someone()
    ann.begin()
    open_ = []
    try:
        for _ in range(3):
            open_.append(ann.http.send(ann.request("GET"), stream=True))
            assert open_[-1].status_code == 200
        assert is_ours(ann.send("GET"), 429)
    finally:
        for answer in open_:
            answer.close()
    for _ in range(10):
        until_taken(ann, "HEAD")
    until_taken(ann, "GET")


def until_taken(who: Someone, method: str) -> None:
    """Listen as soon as there is room: the server learns a moment later that somebody has left."""
    for _ in range(1_000):
        with who.stream(who.request(method)) as (answer, _):
            if answer.status_code == 200:
                return
    pytest.fail("there is no room again")


def broken_off(ann: Someone, probe: Probe) -> tuple[str, Any]:
    """Ask in a session, and lose the connection before the answer; gives the id of the last event."""
    probe.hold()
    probe.progress = 2
    asked = json.dumps(call(meta={"progressToken": 1})).encode()
    with ann.stream(ann.request("POST", content=asked)) as (_, lines):
        ids = [line[4:] for line in (next(lines) for _ in range(8)) if line.startswith("id: ")]
    assert len(ids) >= 2
    return ids[1], probe.contexts[-1]


def test_a_stream_that_broke_off_is_taken_up_again(ann: Someone, probe: Probe) -> None:
    ann.begin()
    last, context = broken_off(ann, probe)
    assert not context.is_cancelled(), "losing a connection is no wish to cancel"
    probe.may_end.set()
    answer = ann.send("GET", last_event_id=last)
    assert [one.get("method", "answer") for one in answers(answer.text)] == [
        "notifications/progress",
        "answer",
    ]
    assert text_of(answers(answer.text)[-1]) == f"for {ann.user}"
    ids = [event["id"] for event in events(answer.text) if "id" in event]
    assert text_of(answers(ann.send("GET", last_event_id=ids[0]).text)[-1]) == f"for {ann.user}"


def test_what_was_sent_to_others_is_not_taken_up(
    web: Web, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable_http, "MAX_LISTEN_SECONDS", 0.0)
    ann, mallory = web.someone(), web.someone()
    ann.begin()
    last, _ = broken_off(ann, probe)
    probe.may_end.set()
    mallory.begin()
    assert answers(mallory.send("GET", last_event_id=last).text) == []
    second = Someone(ann.address, ann.key, ann.user)
    second.begin()
    assert answers(second.send("GET", last_event_id=last).text) == [], "nor by another session"
    for strange in ("x", "", "-", f"{last}0000000000", "..-1", last.rpartition("-")[0]):
        assert answers(ann.send("GET", last_event_id=strange).text) == []


def test_older_clients_get_no_event_without_data(ann: Someone, probe: Probe) -> None:
    ann.begin(version="2025-06-18")
    found = events(ann.post(call(meta={"progressToken": 1})).text)
    assert all(event["data"] for event in found)
    ann.begin()
    found = events(ann.post(call(meta={"progressToken": 1})).text)
    assert [event for event in found if not event.get("data")], (
        "newer ones learn the stream's id at once"
    )


def test_streams_that_are_kept_are_bounded() -> None:
    async def work() -> None:
        kept = StreamStore(max_streams=10, max_bytes=1_000)
        streams = [Stream() for _ in range(100)]
        for stream in streams:
            kept.add("ann", "s", stream)
            stream.add(b"x" * 10)
            stream.end(b"x" * 290)
            kept.count_bytes("ann", "s", stream)
            stream.add(b"late")
        assert len(kept) == 3
        assert kept.find("ann", "s", f"{streams[-1].id}-1") == (streams[-1], 1)
        assert kept.find("bob", "s", f"{streams[-1].id}-1") is None
        assert streams[-1].messages == [b"x" * 10, b"x" * 290]
        for stream in streams[:50]:
            kept.add("bob", "s", stream)  # it may have ended before it is kept
        assert len(kept) == 3
        kept.count_bytes("bob", "s", streams[49])
        kept.remove_session("bob", "s")
        kept.remove_session("ann", "s")
        assert (len(kept), kept._bytes) == (0, 0)
        flood = Stream()
        for _ in range(10_000):
            flood.add(b"x")
        assert len(flood.messages) < 1_000

    asyncio.run(work())


def test_all_who_wait_for_a_stream_hear_of_news() -> None:
    async def work() -> list[bool]:
        stream = Stream()
        waits = [asyncio.ensure_future(stream.wait(0, PATIENCE)) for _ in range(3)]
        given_up = asyncio.ensure_future(stream.wait(0, PATIENCE))
        await asyncio.sleep(0)
        given_up.cancel()
        stream.add(b"news")
        stream.end(b"answer")
        return [
            *await asyncio.gather(*waits),
            await stream.wait(5, PATIENCE),
            await Stream().wait(0, 0.0),
        ]

    assert asyncio.run(work()) == [True, True, True, True, False]


# -- calling it off ----------------------------------------------------------


def test_a_request_of_a_session_can_be_cancelled(ann: Someone, probe: Probe) -> None:
    ann.begin()
    probe.hold()
    with ThreadPoolExecutor(1) as aside:
        waits = aside.submit(ann.post, call(request_id="long"))
        assert probe.begun.acquire(timeout=PATIENCE)
        other = Someone(ann.address, ann.key, ann.user)
        other.begin()
        other.post(told("notifications/cancelled", requestId="long"))
        assert not probe.contexts[-1].is_cancelled(), (
            "another session's request of the same id goes on"
        )
        other.session = ann.session
        assert other.post(told("notifications/cancelled", requestId="long")).status_code == 202
        assert waits.result(PATIENCE).json()["error"]["code"] == -32800
    assert probe.noticed.wait(PATIENCE)


@pytest.mark.parametrize("era", [OLD, NEW])
def test_a_client_that_leaves_cancels_what_it_waits_for(
    ann: Someone, probe: Probe, era: str
) -> None:
    probe.hold()
    asked = call() if era == OLD else stateless(call(), progressToken=1)
    headers = {} if era == OLD else headers_of(asked)
    request = ann.request("POST", content=json.dumps(asked).encode(), **headers)
    address = urlsplit(ann.address)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as connection:
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        connection.sendall(
            "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + request.content
        )
        assert probe.begun.acquire(timeout=PATIENCE)
    assert probe.noticed.wait(PATIENCE)


def test_the_end_of_a_session_cancels_its_requests(ann: Someone, probe: Probe) -> None:
    ann.begin()
    probe.hold()
    with ThreadPoolExecutor(1) as aside:
        waits = aside.submit(ann.post, call())
        assert probe.begun.acquire(timeout=PATIENCE)
        other = Someone(ann.address, ann.key, ann.user)
        other.session = ann.session
        assert other.send("DELETE").status_code == 200
        assert waits.result(PATIENCE).json()["error"]["code"] == -32800
    assert probe.noticed.wait(PATIENCE)


def test_when_the_server_stops_what_it_began_is_answered(tmp_path: Path, probe: Probe) -> None:
    made = World(str(tmp_path / "home"))
    with ThreadPoolExecutor(2) as aside:
        with listening(made) as address:
            ann = Web(made, address).someone()
            ann.begin()
            probe.hold()
            plain = aside.submit(ann.post, call(request_id=1))
            stream = aside.submit(ann.post, call(request_id=2, meta={"progressToken": 1}))
            for _ in range(2):
                assert probe.begun.acquire(timeout=PATIENCE)
            listens = ann.http.send(ann.request("GET"), stream=True)
        assert text_of(plain.result(PATIENCE).json()) == "cancelled", (
            "a call that waits is told to end"
        )
        assert text_of(answers(stream.result(PATIENCE).text)[-1]) == "cancelled"
        assert answers(listens.read().decode()) == []
    made.service.close()


# -- the way there -----------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An app whose framework must not be asked."""
    service = Service(tmp_path / "home", ServiceConfig(rate_per_minute=0))
    app: Any = make_app(service)

    async def framework(*_: object) -> None:
        raise AssertionError("the framework was asked")

    monkeypatch.setattr(app.edge, "app", framework)
    yield app
    service.close()


@pytest.mark.parametrize(("path", "route"), [("/mcp", "/mcp"), ("/mcp/research", "/mcp/{profile}")])
def test_the_edge_hands_requests_over_and_counts_and_logs_them(
    alone: Any, caplog: pytest.LogCaptureFixture, path: str, route: str
) -> None:
    caplog.set_level("INFO", "recollect.serve")
    body = json.dumps(initialize()).encode()
    answer = asyncio.run(
        raw(alone, "POST", path, headers=[("content-type", "application/json")], body=body)
    )
    assert answer.status == 200
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    (record,) = [one for one in caplog.records if one.message == "request"]
    assert record.fields.items() >= {"route": route, "method": "POST", "status": 200}.items()  # type: ignore[attr-defined]
    counted = f'recollect_requests_total{{method="POST",route="{route}",status="200"}} 1.0'
    assert counted in alone.state.service.metrics.text().decode()


def test_what_goes_wrong_there_is_told_in_the_one_shape(
    alone: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asyncio.run(raw(alone, "POST", "/mcp/nothing")).json["error"]["code"] == "NOT_FOUND"

    def fail(*_: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr(streamable_http, "Caller", fail)
    answer = asyncio.run(raw(alone, "POST", "/mcp"))
    assert (answer.status, answer.json["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert b"secret" not in answer.body
    assert [one.fields["route"] for one in caplog.records if one.message == "failed"] == ["/mcp"]  # type: ignore[attr-defined]


# -- who asks ----------------------------------------------------------------


def test_the_edge_comes_first(ann: Someone) -> None:
    body = message("tools/list")
    for method in ("POST", "GET", "DELETE"):
        content = json.dumps(body).encode()
        assert is_ours(
            ann.http.send(ann.request(method, content=content, host="evil.example")), 421
        )
        assert is_ours(
            ann.http.send(ann.request(method, content=content, origin="https://evil.example")), 403
        )
        assert is_ours(ann.http.send(ann.request(method, content=content, origin="null")), 403)
        assert is_ours(ann.http.send(ann.request(method, content=content, authorization=None)), 401)
        assert is_ours(
            ann.http.send(ann.request(method, content=content, authorization="Bearer rk_x")), 401
        )
    assert is_ours(
        ann.http.send(
            ann.request(
                "POST", f"/mcp?key={ann.key}", json.dumps(body).encode(), authorization=None
            )
        ),
        401,
    )


ELSEWHERE = (
    "user",
    "user_id",
    "_context",
    "db_paths",
    "namespace",
    "owner",
    "home",
    "agent",
    "scopes",
    "library",
)


def overrides(victim: str) -> dict[str, Any]:
    return {name: victim for name in ELSEWHERE} | {
        "_context": {"user_id": victim, "client_id": "x", "db_paths": {"chacha": f"/{victim}"}},
        "agent": False,
        "scopes": ["admin"],
    }


@pytest.mark.parametrize("era", [OLD, NEW])
def test_nothing_that_is_sent_changes_who_asks(web: Web, probe: Probe, era: str) -> None:
    victim, mallory = web.someone(), web.someone(("read",), agent=True, toolsets=("conversations",))
    claims = overrides(victim.user)
    config = base64.b64encode(json.dumps(claims).encode()).decode()
    headers = {
        f"X-{name.replace('_', '-').strip('-')}": str(value) for name, value in claims.items()
    }
    headers |= {
        "X-User": victim.user,
        "X-User-Id": victim.user,
        "X-Forwarded-User": victim.user,
        "mcp-config": config,
        "X-MCP-Toolsets": "all",
        "Mcp-Param-user": victim.user,
    }
    path = f"/mcp?user={victim.user}&user_id={victim.user}&config={config.replace('+', '%2B')}&scopes=admin&toolsets=all"
    asked = call(meta={**claims, "config": claims, "progressToken": "x"})
    asked["params"] |= claims
    if era == NEW:
        asked = stateless(asked, **claims)
        headers |= headers_of(asked)
    else:
        mallory.post({**initialize(config=claims), **claims}, path, **headers)
        mallory.begin(path, config=claims, **claims)
    answer = mallory.post(asked, path, **{**headers, "accept": "application/json"})
    assert text_of(answer.json()) == f"for {mallory.user}"
    context = probe.contexts[-1]
    assert (context.user, context.agent, context.scopes) == (
        mallory.user,
        True,
        frozenset(("read",)),
    )
    assert set(context.config) <= {
        "snippet_length",
        "max_tokens",
        "sibling_window",
        "order_by",
        "chars_per_token",
    }
    listed = (
        mallory.post(message("tools/list"), path)
        if era == OLD
        else mallory.ask(message("tools/list"), path)
    )
    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["conversation_search"]


class Victim(NamedTuple):
    user: str
    observation: int
    ids: dict[str, str]
    """The id of an item, by source."""


@pytest.fixture(scope="module")
def victim(served: Web) -> Victim:
    """A user with something in every source, about a canary that sings."""
    victim = served.someone()
    served.remember(victim.user, "the canary sings", "canary")
    with served.world.service.libraries.borrow(victim.user) as library:
        said = {
            "role": "user",
            "content": "We decided that the canary sings at 7, because it likes the morning.",
        }
        library.add_conversation("perch", "The canary", messages=[said])
        library.index()
        observation = library.memory.search("canary").observations[0].observation.id
        ids = {
            "chats": library.conversations()[0][0].id,
            "notes": library.knowledge.create("notes", {"content": "the canary sings"}).id,
            "media": library.knowledge.create("media", {"content": "the canary sings"}).id,
            "characters": library.knowledge.create(
                "characters", {"name": "canary", "scenario": "it sings"}
            ).id,
            "prompts": library.knowledge.create(
                "prompts", {"name": "canary", "user_prompt": "it sings"}
            ).id,
        }
    return Victim(victim.user, observation, ids)


@pytest.mark.parametrize("offered", all_tools(), ids=lambda tool: f"{tool.toolset}.{tool.name}")
def test_no_tool_shows_what_another_user_has(served: Web, victim: Victim, offered: Tool) -> None:
    tool = offered.name
    mallory = served.someone()
    source = next((source for source in victim.ids if tool.startswith(source)), "notes")
    profile = {"research": "/mcp/research", "memory": "/mcp/memory"}.get(offered.toolset, "/mcp")
    honest = {
        "query": "canary",
        "thread_name": "canary",
        "thread_id": "canary",
        "content": "x",
        "author": "m",
        "after_seq": 0,
        "timeout_seconds": 0,
        "id": f"{source}://{victim.ids[source]}",
        "scope": "all",
        "source": source,
        "retrieval": {"mode": "full"},
        "ids": [victim.observation],
        "path": "/default/perch.jsonl",
        "anchor": victim.observation,
        "confirm": True,
    }
    for name in ("note_id", "media_id", "conversation_id", "character_id", "prompt_id_or_name"):
        honest[name] = victim.ids[source]
    arguments = {
        name: value for name, value in honest.items() if name in offered.input_schema["properties"]
    }
    plain = mallory.ask(call(tool, **arguments), profile)
    assert "sings" not in plain.text
    for name, value in overrides(victim.user).items():
        answer = mallory.ask(call(tool, **arguments, **{name: value}), profile)
        assert answer.status_code == 200
        assert answer.json()["result"]["isError"] is True, (
            "an argument that a tool does not have is refused"
        )
        assert "sings" not in answer.text
    with served.world.service.libraries.borrow(victim.user) as library:
        assert library.conversation("perch").passages, "nobody forgets for somebody else"


def test_many_clients_with_the_same_ids_get_their_own_answers(served: Web) -> None:
    people = [served.someone() for _ in range(4)]
    for one in people:
        served.remember(one.user, f"canary of {one.user}")

    def ask(number: int) -> bool:
        me = people[number % len(people)]
        mine = Someone(me.address, me.key, me.user)
        if number % 2:
            mine.begin()
        for request_id in range(3):
            asked = call(request_id=request_id, query="canary")
            answer = (mine.post(asked) if number % 2 else mine.ask(asked)).json()
            if answer["id"] != request_id or not text_of(answer).endswith(f"canary of {me.user}"):
                return False
        mine.http.close()
        return True

    with ThreadPoolExecutor(8) as aside:
        assert all(aside.map(ask, range(40)))


def test_a_key_sees_the_tools_that_it_may_use(web: Web) -> None:
    def tools(who: Someone, path: str = "/mcp") -> list[str]:
        return [
            tool["name"] for tool in who.ask(message("tools/list"), path).json()["result"]["tools"]
        ]

    everybody = web.someone()
    for profile, toolsets in PROFILES.items():
        path = "/mcp" if profile == "default" else f"/mcp/{profile}"
        left_out = OMITTED.get(profile, ())
        listed = [
            tool.name
            for tool in all_tools()
            if tool.toolset in toolsets and tool.name not in left_out
        ]
        assert tools(everybody, path) == listed
    reader = web.someone(("read",))
    assert "msg_post" in tools(everybody)
    assert "msg_post" not in tools(reader)
    assert (reader.ask(call("msg_post")).status_code, code(reader.ask(call("msg_post")))) == (
        400,
        -32602,
    )
    assert tools(web.someone(toolsets=("conversations",))) == ["conversation_search"]
    assert tools(web.someone(toolsets=("conversations",)), "/mcp/research") == []
    for path in ("/mcp/nothing", "/mcp/ws", "/mcp/research/x", "/mcp/"):
        assert is_ours(everybody.ask(message("tools/list"), path), 404)


def test_preferences_of_a_request_and_of_a_session(ann: Someone, probe: Probe) -> None:
    def encoded(**wish: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(wish).encode()).decode()

    ann.ask(call(), f"/mcp?config={encoded(snippet_length=10**9, chars_per_token=0)}")
    assert dict(probe.contexts[-1].config) == {"snippet_length": 1_000, "chars_per_token": 1}
    ann.ask(call(), **{"mcp-config": encoded(order_by="recent")})
    assert dict(probe.contexts[-1].config) == {"order_by": "recent"}
    ann.ask(call(), "/mcp?config=garbage!")
    assert dict(probe.contexts[-1].config) == {}
    ann.begin(f"/mcp?config={encoded(snippet_length=100, max_tokens=1_000)}")
    ann.post(call(), f"/mcp?config={encoded(max_tokens=2_000)}")
    assert dict(probe.contexts[-1].config) == {"snippet_length": 100, "max_tokens": 2_000}


# -- limits ------------------------------------------------------------------


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Web]:
    """A server that takes four requests of a kind a minute."""
    made = World(str(tmp_path / "home"))
    made.service.close()
    made.service = Service(tmp_path / "home", ServiceConfig(rate_per_minute=4))
    with listening(made) as address:
        yield Web(made, address)
    made.service.close()


def test_calls_are_limited_by_user_and_tool(limited: Web, probe: Probe) -> None:
    ann = limited.someone()
    batch = [call(request_id=number) for number in range(6)]
    found = ann.post(batch, mcp_protocol_version="2025-03-26").json()
    assert ["result" in one for one in found] == [True] * 4 + [False] * 2
    assert found[-1]["error"]["code"] == -32000
    assert found[-1]["error"]["data"]["retryAfter"] >= 1
    refused = ann.ask(call())
    assert (refused.status_code, code(refused)) == (429, -32000)
    assert refused.headers["retry-after"] == str(refused.json()["error"]["data"]["retryAfter"])
    assert ann.ask(call("msg_search", query="x")).status_code == 200, "each tool has its own"
    assert limited.someone().ask(call()).status_code == 200, "and each user"
    ann.ask(message("tools/list"))
    assert is_ours(ann.ask(message("tools/list")), 429), "requests are counted, too"


def test_too_many_calls_at_once_are_refused(
    web: Web, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LIMITS", replace(LIMITS, mcp_calls_each_user=1))
    ann = web.someone()
    ann.begin()
    probe.hold()
    with ThreadPoolExecutor(1) as aside:
        waits = aside.submit(ann.post, call())
        assert probe.begun.acquire(timeout=PATIENCE)
        other = Someone(ann.address, ann.key, ann.user)
        refused = other.post(call())
        assert (refused.status_code, code(refused)) == (200, -32000)
        assert other.ask(call()).status_code == 429
        probe.may_end.set()
        assert "result" in waits.result(PATIENCE).json()


def test_searches_take_turns_with_those_of_other_routes(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(LIMITS.searches_at_once)

    def watched(*_: object) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait(PATIENCE)
        with lock:
            now -= 1
        return "x"

    monkeypatch.setattr(Handlers, "conversation_search", watched)
    ann = web.someone()
    with ThreadPoolExecutor(12) as aside:
        assert {
            answer.status_code for answer in aside.map(lambda _: ann.post(call()), range(12))
        } == {200}
    assert most == LIMITS.searches_at_once


def test_what_is_refused_or_left_leaves_nothing_behind(tmp_path: Path) -> None:
    service = Service(tmp_path / "home", ServiceConfig(rate_per_minute=0))
    app = make_app(service)
    text, _ = new_key(service.keys, "ann", "", ("read",))
    key = ("authorization", f"Bearer {text}")
    json_ = ("content-type", "application/json")
    begin = json.dumps(initialize()).encode()

    async def many(count: int) -> None:
        for number in range(count):
            unknown = ("mcp-session-id", f"{number}")
            for method in ("GET", "HEAD", "DELETE", "OPTIONS", "POST"):
                await raw(app, method, "/mcp", body=begin)  # no key
            assert (await raw(app, "GET", "/mcp", headers=[key])).status == 400
            assert (await raw(app, "DELETE", "/mcp", headers=[key])).status == 400
            assert (
                await raw(app, "HEAD", "/mcp", headers=[key, ("accept", "*/*"), unknown])
            ).status == 404
            assert (await raw(app, "POST", "/mcp", headers=[key, json_], body=b"{")).status == 400
            assert (
                await raw(app, "POST", "/mcp", headers=[key, json_, unknown], body=b"{}")
            ).status == 404
            version = ("mcp-protocol-version", "x")
            assert (
                await raw(app, "POST", "/mcp", headers=[key, json_, version], body=b"{}")
            ).status == 400

    async def begun(count: int, end: bool) -> None:
        for _ in range(count):
            answer = await raw(app, "POST", "/mcp", headers=[key, json_], body=begin)
            session = ("mcp-session-id", answer.headers["mcp-session-id"])
            if end:
                assert (await raw(app, "DELETE", "/mcp", headers=[key, session])).status == 200

    async def growth(work: Any, *given: Any) -> int:
        gc.collect()
        before = psutil.Process().memory_info().rss
        await work(*given)
        gc.collect()
        return int(psutil.Process().memory_info().rss - before)

    async def everything() -> None:
        await many(20)
        await begun(20, end=True)
        assert await growth(many, 100) < 10_000_000  # 1,100 requests
        assert len(app.state.mcp.sessions) == 0
        assert await growth(begun, 1_000, True) < 10_000_000
        assert len(app.state.mcp.sessions) == 0
        assert await growth(begun, 1_000, False) < 10_000_000
        await begun(200, end=False)
        assert len(app.state.mcp.sessions) == LIMITS.mcp_sessions_each_user
        assert (
            len(app.state.mcp.streams),
            len(app.state.mcp._tasks),
            len(app.state.mcp._contexts),
        ) == (0, 0, 0)

    asyncio.run(everything())
    app.state.mcp.close()
    service.close()
