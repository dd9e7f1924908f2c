"""MCP over HTTP: sessions, the stateless protocol, streams, limits and errors."""

from __future__ import annotations

import base64
import json
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from people import MAX_MESSAGE_BYTES, World, listening
from tool_calls import TOOLS, listings
from wire import (
    BOTH,
    NEW,
    OLD,
    TIMEOUT,
    HttpUser,
    Probe,
    Web,
    answers,
    call,
    headers_of,
    initialize,
    message,
    notification,
    stateless,
    text_of,
)


def is_problem(answer: httpx.Response, status: int) -> bool:
    """Whether an answer is an error with this status, in the shape of all our errors."""
    body = answer.json()
    return (
        answer.status_code == status
        and body["success"] is False
        and body["error"]["details"]["status_code"] == status
    )


def code(answer: httpx.Response) -> int:
    error_code: int = answer.json()["error"]["code"]
    return error_code


# -- sessions ---


@pytest.mark.both_stores
def test_a_session_is_started_used_and_ended(web_on_each_store: Web) -> None:
    ann = web_on_each_store.new_user()
    web_on_each_store.remember(ann.user, "the walrus was Paul")
    introduction = ann.start_session()
    assert introduction["protocolVersion"] == OLD
    assert introduction["serverInfo"]["name"] == "recollect"
    tools = ann.post(message("tools/list")).json()["result"]["tools"]
    assert "recall_search" in [tool["name"] for tool in tools]
    answer = ann.post(call(query="walrus"), mcp_protocol_version=OLD)
    assert "the walrus was Paul" in text_of(answer.json())
    assert ann.send("DELETE").status_code == 200
    for answer in (ann.post(message("tools/list")), ann.send("DELETE")):
        assert is_problem(answer, 404)


def test_a_session_id_can_be_in_the_query(ann: HttpUser) -> None:
    ann.start_session()
    key, ann.session = ann.session, ""
    assert ann.post(message("ping"), f"/mcp?mcp-session-id={key}").json()["result"] == {}
    assert ann.send("DELETE", f"/mcp?mcp-session-id={key}").status_code == 200
    assert ann.post(message("ping"), f"/mcp?mcp-session-id={key}").status_code == 404


def test_a_client_can_choose_its_session_id(ann: HttpUser) -> None:
    key = f"mine-{uuid.uuid4()}"
    assert ann.post(initialize(), mcp_session_id=key).headers["mcp-session-id"] == key
    ann.session = key
    assert ann.post(message("ping")).status_code == 200


def test_a_request_without_a_session_is_answered(ann: HttpUser, probe: Probe) -> None:
    assert text_of(ann.post(call()).json()) == f"for {ann.user}"
    assert probe.contexts[-1].session is None


def test_delete_needs_a_session(ann: HttpUser) -> None:
    assert is_problem(ann.send("DELETE"), 400)
    ann.session = "unknown"
    assert is_problem(ann.send("DELETE"), 404)
    assert is_problem(ann.post(message("ping")), 404)


@pytest.mark.parametrize("location", ["header", "query"])
def test_another_users_session_is_not_found(web: Web, probe: Probe, location: str) -> None:
    ann, mallory = web.new_user(), web.new_user()
    ann.start_session()
    path = "/mcp"
    if location == "header":
        mallory.session = ann.session
    else:
        path = f"/mcp?mcp-session-id={ann.session}"
    for answer in (
        mallory.post(message("ping"), path),
        mallory.send("DELETE", path),
        mallory.post(notification("notifications/initialized"), path),
    ):
        assert is_problem(answer, 404)
    mallory.session = ""
    assert mallory.post(call(), cookie=f"mcp-session-id={ann.session}").status_code == 200
    assert probe.contexts[-1].session is None
    assert ann.post(message("ping")).status_code == 200, "the session is unaffected"


def test_a_session_belongs_to_the_user_not_to_the_api_key(web: Web) -> None:
    ann = web.new_user()
    ann.start_session()
    other = web.new_user(user=ann.user)
    other.session = ann.session
    assert other.post(message("ping")).status_code == 200


def test_a_session_keeps_what_initialize_negotiated(web: Web, probe: Probe) -> None:
    ann = web.new_user()
    ann.start_session(client="my-client", version="2025-03-26")
    ann.post(call())
    assert (probe.contexts[-1].client, probe.contexts[-1].agent) == ("my-client", False)
    bob = web.new_user(agent=True)
    bob.start_session()
    bob.post(call())
    assert probe.contexts[-1].agent


# -- content types and invalid messages ---


@pytest.mark.parametrize(
    ("accept", "content_type"),
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
def test_answers_have_a_type_the_client_accepts(
    ann: HttpUser, probe: Probe, accept: str | None, content_type: str
) -> None:
    ann.http.headers.pop("accept")
    for body in (message("ping"), call()):
        answer = ann.post(body, accept=accept)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(content_type)
        if content_type == "application/json":
            result = answer.json()
        else:
            result = answers(answer.text)[-1]
        assert result["id"] == 1
        assert "result" in result


def test_a_client_that_accepts_neither_type_gets_406(ann: HttpUser) -> None:
    assert is_problem(ann.post(message("ping"), accept="text/html"), 406)


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"],
)
def test_a_body_without_the_json_content_type_gets_415(
    ann: HttpUser, content_type: str | None
) -> None:
    assert is_problem(ann.post(message("ping"), content_type=content_type), 415)


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
def test_an_invalid_message_gets_a_json_rpc_error(
    ann: HttpUser, body: bytes, expected: int
) -> None:
    ann.start_session()
    answer = ann.post(body)
    assert (answer.status_code, code(answer)) == (400, expected)


def test_a_message_that_is_too_long_gets_413(ann: HttpUser) -> None:
    assert is_problem(ann.post(b" " * (MAX_MESSAGE_BYTES + 1)), 413)
    assert ann.post(json.dumps(message("ping")).encode() + b" " * 100_000).status_code == 200


@pytest.mark.parametrize("version", ["1999-01-01", "x", "2026-07-29", ""])
def test_an_unknown_protocol_version_is_an_error(ann: HttpUser, version: str) -> None:
    ann.start_session()
    for answer in (
        ann.post(message("ping"), mcp_protocol_version=version),
        ann.post(notification("notifications/x"), mcp_protocol_version=version),
        ann.send("DELETE", mcp_protocol_version=version),
    ):
        assert (answer.status_code, code(answer)) == (400, -32022)
        assert answer.json()["error"]["data"]["supported"] == [NEW]


def test_other_http_methods_get_405(ann: HttpUser) -> None:
    for method in ("GET", "PUT", "PATCH"):
        assert is_problem(ann.send(method), 405)
    assert ann.send("OPTIONS").headers["allow"] == "POST, DELETE"


# -- the stateless protocol ---


def test_stateless_requests_need_no_session(web_on_each_store: Web) -> None:
    ann = web_on_each_store.new_user()
    web_on_each_store.remember(ann.user, "the walrus was Paul")
    discovery = ann.ask(message("server/discover"))
    assert discovery.json()["result"]["supportedVersions"] == [NEW]
    listing = ann.ask(message("tools/list"))
    assert listing.json()["result"]["resultType"] == "complete"
    search = ann.ask(call(query="walrus"))
    assert "the walrus was Paul" in text_of(search.json())
    for answer in (discovery, listing, search):
        assert answer.status_code == 200
        assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    "wrong_headers",
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
def test_headers_must_match_the_body(
    ann: HttpUser, probe: Probe, wrong_headers: dict[str, str | None]
) -> None:
    request = stateless(call())
    answer = ann.post(request, **{**headers_of(request), **wrong_headers})
    assert (answer.status_code, code(answer), answer.json()["id"]) == (400, -32020, 1)
    assert not probe.contexts


def test_errors_have_the_http_status_of_the_specification(ann: HttpUser) -> None:
    unknown = stateless(
        message("ping"), **{"io.modelcontextprotocol/protocolVersion": "2027-01-01"}
    )
    answer = ann.post(unknown, **{**headers_of(unknown), "MCP-Protocol-Version": "2027-01-01"})
    assert (answer.status_code, code(answer)) == (400, -32022)
    for request, status, expected in (
        (message("no/such"), 404, -32601),
        (message("initialize"), 404, -32601),
        (call("no_such_tool"), 400, -32602),
    ):
        answer = ann.ask(request)
        assert (answer.status_code, code(answer)) == (status, expected)
    bare = message("tools/list")
    answer = ann.post(bare, **headers_of(bare))
    assert (answer.status_code, code(answer)) == (400, -32602)
    for body in ([stateless(message("tools/list"))], {"jsonrpc": "2.0", "id": 1, "result": {}}, 7):
        answer = ann.post(body, mcp_protocol_version=NEW)
        assert (answer.status_code, code(answer)) == (400, -32600)


def test_only_post_is_allowed_and_notifications_are_ignored(ann: HttpUser) -> None:
    for method in ("GET", "DELETE"):
        assert is_problem(ann.send(method, mcp_protocol_version=NEW), 405)
    cancel = notification("notifications/cancelled", requestId=1)
    assert ann.post(cancel, mcp_protocol_version=NEW).status_code == 202


@pytest.mark.parametrize("location", ["header", "query", "argument"])
def test_a_stateless_client_can_choose_a_session_key(web: Web, probe: Probe, location: str) -> None:
    ann, bob = web.new_user(), web.new_user()

    def ask(who: HttpUser) -> Any:
        if location == "header":
            who.ask(call(), **{"mcp-session-id": "k"})
        elif location == "query":
            who.ask(call(), "/mcp?mcp-session-id=k")
        else:
            who.ask(call(session_id="k"))
        session = probe.contexts[-1].session
        assert session is not None
        return session.recent_queries

    assert ask(ann) == ["query 1"]
    assert ask(ann) == ["query 1", "query 2"]
    assert ask(bob) == ["query 1"], "another user's key names another session"
    assert all("session_id" not in arguments for arguments in probe.arguments)
    ann.ask(call())
    assert probe.contexts[-1].session is None


@pytest.mark.parametrize("key", ["x" * 129, "a b", "\u00e9"])
def test_an_invalid_session_key_is_an_error(ann: HttpUser, key: str) -> None:
    assert is_problem(ann.ask(call(), f"/mcp?mcp-session-id={key}"), 400)


# -- streams ---


@pytest.mark.parametrize("version", [OLD, NEW])
def test_progress_is_reported_to_clients_that_ask(
    ann: HttpUser, probe: Probe, version: str
) -> None:
    probe.progress = 3
    if version == NEW:
        request = stateless(call(), progressToken="t")
        answer = ann.post(request, **headers_of(request))
    else:
        ann.start_session()
        answer = ann.post(call(meta={"progressToken": "t"}))
    assert answer.headers["content-type"].startswith("text/event-stream")
    *notifications, last = answers(answer.text)
    params = [notification["params"] for notification in notifications]
    assert [fields["progress"] for fields in params] == [1, 2, 3]
    assert {fields["progressToken"] for fields in params} == {"t"}
    assert text_of(last) == f"for {ann.user}"
    if version == NEW:
        answer = ann.ask(call())
    else:
        answer = ann.post(call())
    assert answer.headers["content-type"] == "application/json", "no progress was requested"


def test_a_client_without_streams_gets_only_the_answer(ann: HttpUser, probe: Probe) -> None:
    probe.progress = 3
    answer = ann.post(call(meta={"progressToken": 1}), accept="application/json")
    assert text_of(answer.json()) == f"for {ann.user}"


def test_a_slow_answer_becomes_a_stream(
    ann: HttpUser, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.serve.mcp.streamable_http.JSON_SECONDS", 0.0)
    monkeypatch.setattr("recollect.serve.mcp.streamable_http.KEEP_ALIVE_SECONDS", 0.01)
    probe.hold()
    with ann.stream(ann.request("POST", content=json.dumps(call()).encode())) as (answer, lines):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(line for line in lines if line) == ": keep-alive"
        probe.release.set()
        data = next(line for line in lines if line.startswith("data: "))
        assert text_of(json.loads(data.removeprefix("data: "))) == f"for {ann.user}"


# -- cancellation ---


def test_a_request_of_a_session_can_be_cancelled(ann: HttpUser, probe: Probe) -> None:
    ann.start_session()
    probe.hold()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(ann.post, call(request_id="long"))
        assert probe.started.acquire(timeout=TIMEOUT)
        other = HttpUser(ann.address, ann.key, ann.user)
        other.start_session()
        other.post(notification("notifications/cancelled", requestId="long"))
        assert not probe.contexts[-1].is_cancelled(), (
            "the same id in another session is another request"
        )
        other.session = ann.session
        cancel = notification("notifications/cancelled", requestId="long")
        assert other.post(cancel).status_code == 202
        assert future.result(TIMEOUT).json()["error"]["code"] == -32800
    assert probe.saw_cancellation.wait(TIMEOUT)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_disconnect_cancels_a_call_without_a_session(
    ann: HttpUser, probe: Probe, version: str
) -> None:
    probe.hold()
    body, headers = call(), {}
    if version == NEW:
        body = stateless(call(), progressToken=1)
        headers = headers_of(body)
    request = ann.request("POST", content=json.dumps(body).encode(), **headers)
    address = urlsplit(ann.address)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as connection:
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        connection.sendall(
            "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + request.content
        )
        assert probe.started.acquire(timeout=TIMEOUT)
    assert probe.saw_cancellation.wait(TIMEOUT)


# -- the direct route ---


# -- identity ---


def test_the_edge_checks_host_origin_and_key_first(ann: HttpUser) -> None:
    content = json.dumps(message("tools/list")).encode()

    def send(method: str, path: str = "/mcp", **headers: str | None) -> httpx.Response:
        return ann.http.send(ann.request(method, path, content, **headers))

    for method in ("POST", "GET", "DELETE"):
        assert is_problem(send(method, host="evil.example"), 421)
        assert is_problem(send(method, origin="https://evil.example"), 403)
        assert is_problem(send(method, origin="null"), 403)
        assert is_problem(send(method, authorization=None), 401)
        assert is_problem(send(method, authorization="Bearer rk_x"), 401)
    assert is_problem(send("POST", f"/mcp?key={ann.key}", authorization=None), 401)


CLAIMS = (
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


def claims_of(victim: str) -> dict[str, Any]:
    return {name: victim for name in CLAIMS} | {
        "_context": {"user_id": victim, "client_id": "x", "db_paths": {"chacha": f"/{victim}"}},
        "agent": False,
        "scopes": ["admin"],
    }


@pytest.mark.parametrize("version", [OLD, NEW])
def test_nothing_in_a_request_changes_the_identity(web: Web, probe: Probe, version: str) -> None:
    victim = web.new_user()
    mallory = web.new_user(("read",), agent=True, toolsets=("conversations",))
    claims = claims_of(victim.user)
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
    query = f"user={victim.user}&user_id={victim.user}&scopes=admin&toolsets=all"
    path = f"/mcp?{query}&config={config.replace('+', '%2B')}"
    request = call(meta={**claims, "config": claims, "progressToken": "x"})
    request["params"] |= claims
    if version == NEW:
        request = stateless(request, **claims)
        headers |= headers_of(request)
    else:
        mallory.post({**initialize(config=claims), **claims}, path, **headers)
        mallory.start_session(path, config=claims, **claims)
    answer = mallory.post(request, path, **{**headers, "accept": "application/json"})
    assert text_of(answer.json()) == f"for {mallory.user}"
    context = probe.contexts[-1]
    assert (context.user, context.agent) == (mallory.user, True)
    assert context.scopes == frozenset(("read",))
    assert set(context.config) <= {
        "snippet_length",
        "max_tokens",
        "sibling_window",
        "order_by",
        "chars_per_token",
    }
    if version == NEW:
        listing = mallory.ask(message("tools/list"), path)
    else:
        listing = mallory.post(message("tools/list"), path)
    assert [tool["name"] for tool in listing.json()["result"]["tools"]] == ["conversation_search"]


class Victim(NamedTuple):
    user: str
    observation: int
    ids: dict[str, str]
    """The id of an item, by source."""


@pytest.fixture(scope="module")
def victim(web_on_each_store: Web) -> Victim:
    """A user with one item in every source, about a canary that sings."""
    victim = web_on_each_store.new_user()
    web_on_each_store.remember(victim.user, "the canary sings", "canary")
    with web_on_each_store.world.service.libraries.borrow(victim.user) as library:
        message = {
            "role": "user",
            "content": "We decided that the canary sings at 7, because it likes the morning.",
        }
        library.add_conversation("perch", "The canary", messages=[message])
        library.index()
        observation = library.memory.search("canary").observations[0].observation.id
        ids = {
            "chats": library.conversation_page()[0][0].id,
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


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool.toolset}.{tool.name}")
def test_no_tool_shows_another_users_data(
    web_on_each_store: Web, victim: Victim, tool: Any
) -> None:
    mallory = web_on_each_store.new_user()
    source = next((source for source in victim.ids if tool.name.startswith(source)), "notes")
    profile = {"research": "/mcp/research", "memory": "/mcp/memory"}.get(tool.toolset, "/mcp")
    values = {
        "title": "x",
        "text": "x",
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
        values[name] = victim.ids[source]
    arguments = {
        name: value for name, value in values.items() if name in tool.input_schema["properties"]
    }
    plain = mallory.ask(call(tool.name, **arguments), profile)
    assert "sings" not in plain.text
    for name, value in claims_of(victim.user).items():
        answer = mallory.ask(call(tool.name, **arguments, **{name: value}), profile)
        assert answer.status_code == 200
        assert answer.json()["result"]["isError"] is True, "unknown arguments are an error"
        assert "sings" not in answer.text
    with web_on_each_store.world.service.libraries.borrow(victim.user) as library:
        assert library.conversation("perch").passages, "nothing was deleted"


def test_a_key_sees_only_the_tools_it_may_use(web: Web) -> None:
    def tools(who: HttpUser, path: str = "/mcp") -> list[str]:
        answer = who.ask(message("tools/list"), path).json()
        return [tool["name"] for tool in answer["result"]["tools"]]

    everybody = web.new_user()
    for profile, listed in listings().items():
        path = "/mcp"
        if profile != "default":
            path = f"/mcp/{profile}"
        assert tools(everybody, path) == listed
    reader = web.new_user(("read",))
    assert "msg_post" in tools(everybody, "/mcp/bus")
    assert "msg_post" not in tools(reader, "/mcp/bus")
    answer = reader.ask(call("msg_post"))
    assert (answer.status_code, code(answer)) == (400, -32602)
    assert tools(web.new_user(toolsets=("conversations",))) == ["conversation_search"]
    assert tools(web.new_user(toolsets=("conversations",)), "/mcp/research") == []
    for path in ("/mcp/unknown", "/mcp/ws", "/mcp/research/x", "/mcp/"):
        assert is_problem(everybody.ask(message("tools/list"), path), 404)


# -- limits ---


@pytest.fixture
def limited_web(tmp_path: Path) -> Iterator[Web]:
    """A server that allows four requests of a kind per minute."""
    world = World(str(tmp_path / "home"), rate_per_minute=4)
    with listening(world) as address:
        yield Web(world, address)
    world.service.close()


def test_requests_are_limited_per_user(limited_web: Web, probe: Probe) -> None:
    ann = limited_web.new_user()
    for _ in range(4):
        assert not ann.ask(call()).json()["result"]["isError"]
    assert is_problem(ann.ask(message("tools/list")), 429)
    assert limited_web.new_user().ask(call()).status_code == 200
