"""MCP over WebSocket: a real client, and handmade frames that no client would send."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from people import MAX_MESSAGE_BYTES, set_limits
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect
from wire import (
    NEW,
    OLD,
    TIMEOUT,
    HttpUser,
    Probe,
    Web,
    call,
    initialize,
    message,
    notification,
    stateless,
    text_of,
)


class Client:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, body: Any) -> None:
        self.connection.send(body if isinstance(body, (str, bytes)) else json.dumps(body))

    def receive(self) -> Any:
        return json.loads(self.connection.recv(TIMEOUT))

    def ask(self, body: Any) -> Any:
        self.send(body)
        return self.receive()

    def close_code(self) -> int:
        """Wait until the server closes; return its code."""
        with pytest.raises(ConnectionClosed) as error:
            while True:
                self.connection.recv(TIMEOUT)
        if error.value.rcvd is None:
            return 1006
        return error.value.rcvd.code


@contextmanager
def connect_as(who: HttpUser, path: str = "/mcp/ws", **options: Any) -> Iterator[Client]:
    headers = {"Authorization": f"Bearer {who.key}", **options.pop("headers", {})}
    address = who.address.replace("http://", "ws://") + path
    subprotocols = options.pop("subprotocols", ["mcp"])
    with connect(
        address, additional_headers=headers, subprotocols=subprotocols, max_size=None, **options
    ) as connection:
        yield Client(connection)


def rejection_status(who: HttpUser, path: str = "/mcp/ws", **options: Any) -> int:
    """The HTTP status of a rejected connection; the body has the shape of all our errors."""
    with pytest.raises(InvalidStatus) as error, connect_as(who, path, **options):
        pass
    response = error.value.response
    body = json.loads(response.body)
    assert body["error"]["details"]["status_code"] == response.status_code
    return response.status_code


# -- messages ---


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_client_lists_and_calls_the_tools(web_on_each_store: Web, version: str) -> None:
    ann = web_on_each_store.new_user()
    web_on_each_store.remember(ann.user, "the walrus was Paul")
    with connect_as(ann) as client:
        assert client.connection.subprotocol == "mcp"
        if version == OLD:
            assert client.ask(initialize())["result"]["protocolVersion"] == OLD
            client.send(notification("notifications/initialized"))
            listing = client.ask(message("tools/list"))
            search = client.ask(call(query="walrus"))
        else:
            discovery = client.ask(stateless(message("server/discover")))
            assert discovery["result"]["supportedVersions"] == [NEW]
            listing = client.ask(stateless(message("tools/list")))
            search = client.ask(stateless(call(query="walrus")))
    assert "recall_search" in [tool["name"] for tool in listing["result"]["tools"]]
    assert "the walrus was Paul" in text_of(search)


def test_errors_are_json_rpc_errors(ann: HttpUser) -> None:
    with connect_as(ann) as client:
        assert client.ask("{")["error"]["code"] == -32700
        assert client.ask("[" * 100_000)["error"]["code"] == -32700
        assert client.ask([message("ping")])["error"]["code"] == -32600
        without_id = {"jsonrpc": "2.0", "id": None, "method": "ping"}
        assert client.ask(without_id)["error"]["code"] == -32600
        assert client.ask(message("no/such"))["error"]["code"] == -32601
        assert client.ask(call("no_such_tool"))["error"]["code"] == -32602
        assert client.ask(message("ping", "still there"))["id"] == "still there"


def test_progress_is_reported_and_answers_come_in_any_order(ann: HttpUser, probe: Probe) -> None:
    probe.progress = 2
    probe.hold()
    with connect_as(ann) as client:
        client.send(call(request_id="long", meta={"progressToken": "t"}))
        assert [client.receive()["params"]["progress"] for _ in range(2)] == [1, 2]
        assert client.ask(message("ping", "quick"))["id"] == "quick"
        error = client.ask(call(request_id="long"))["error"]
        assert error["message"] == "Invalid request: this 'id' is in use"
        probe.release.set()
        assert client.receive()["id"] == "long"


def test_a_disconnect_cancels_running_calls(ann: HttpUser, probe: Probe) -> None:
    probe.hold()
    with connect_as(ann) as client:
        client.send(call())
        assert probe.started.acquire(timeout=TIMEOUT)
    assert probe.saw_cancellation.wait(TIMEOUT)


def test_concurrent_calls_are_limited(
    ann: HttpUser, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.serve.mcp.websocket.MAX_CALLS", 1)
    probe.hold()
    with connect_as(ann) as client:
        client.send(call(request_id=1))
        assert probe.started.acquire(timeout=TIMEOUT)
        assert client.ask(call(request_id=2))["error"]["code"] == -32000
        probe.release.set()
        assert "result" in client.receive()


# -- the session ---


def test_the_connection_is_the_session(web: Web, probe: Probe) -> None:
    ann = web.new_user()
    with connect_as(ann) as client:
        client.ask(initialize(config={"snippet_length": 10**6, "user_id": "x"}))
        client.ask(call())
        client.ask(call())
        assert probe.contexts[0].session is probe.contexts[1].session is not None
        assert dict(probe.contexts[1].config) == {"snippet_length": 1_000}
        assert probe.contexts[1].client == "a-test"
    with connect_as(ann) as client:
        client.ask(call())
        assert probe.contexts[2].session is not probe.contexts[1].session


def test_a_session_key_makes_a_session_outlive_its_connection(web: Web, probe: Probe) -> None:
    ann, bob = web.new_user(), web.new_user()
    for who, path, headers in (
        (ann, "/mcp/ws?mcp-session-id=k", {}),
        (ann, "/mcp/ws", {"mcp-session-id": "k"}),
        (bob, "/mcp/ws?mcp-session-id=k", {}),
    ):
        with connect_as(who, path, headers=headers) as client:
            client.ask(call())
    queries = []
    for context in probe.contexts:
        assert context.session is not None
        queries.append(context.session.recent_queries)
    assert queries == [["query 1"], ["query 1", "query 2"], ["query 1"]]


def test_nothing_in_a_message_changes_the_identity(web: Web, probe: Probe) -> None:
    victim = web.new_user()
    mallory = web.new_user(("read",), agent=True, toolsets=("conversations",))
    claims: dict[str, Any] = {
        "user": victim.user,
        "user_id": victim.user,
        "_context": {"user_id": victim.user},
        "scopes": ["admin"],
        "agent": False,
        "toolsets": ["bus"],
    }
    config = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    headers = {
        "X-User": victim.user,
        "X-User-Id": victim.user,
        "mcp-config": config,
        "X-Forwarded-User": victim.user,
    }
    path = f"/mcp/ws?user={victim.user}&user_id={victim.user}&config={config}&scopes=admin"
    with connect_as(mallory, path, headers=headers) as client:
        client.ask({**initialize(config=claims, **claims), **claims})
        for request in (call(meta=claims), stateless(call(), **claims)):
            assert text_of(client.ask({**request, **claims})) == f"for {mallory.user}"
            context = probe.contexts[-1]
            assert (context.user, context.agent) == (mallory.user, True)
            assert context.scopes == frozenset(("read",))
            assert dict(context.config) == {}
        tools = client.ask(message("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["conversation_search"]


# -- authentication ---


def test_wrong_keys_are_rejected_before_the_connection_is_accepted(web: Web, ann: HttpUser) -> None:
    nobody = HttpUser(ann.address, "rk_wrong", "")
    assert rejection_status(nobody) == 401
    with (
        pytest.raises(InvalidStatus) as error,
        connect(f"{ann.address.replace('http', 'ws')}/mcp/ws?key={ann.key}"),
    ):
        pass
    assert error.value.response.status_code == 401, "a key in the URL is ignored"


def handshake(who: HttpUser, *headers: str, path: str = "/mcp/ws") -> bytes:
    """The status line that answers a handshake with these headers."""
    with raw_connection(who, *headers, path=path) as (_, line):
        return line


@contextmanager
def raw_connection(
    who: HttpUser, *headers: str, path: str = "/mcp/ws"
) -> Iterator[tuple[socket.socket, bytes]]:
    address = urlsplit(who.address)
    host = [f"Host: {address.netloc}"]
    if any(line.startswith("Host:") for line in headers):
        host = []
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    )
    head = [
        f"GET {path} HTTP/1.1",
        *host,
        f"Authorization: Bearer {who.key}",
        *upgrade,
        *headers,
        "",
        "",
    ]
    with socket.create_connection(
        (str(address.hostname), int(address.port or 0)), TIMEOUT
    ) as connection:
        connection.sendall("\r\n".join(head).encode())
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65_536)
            if not part:
                break
            data += part
        yield connection, data.partition(b"\r\n")[0]


def test_a_revoked_key_closes_the_connection(
    web: Web, ann: HttpUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.serve.http.edge.RECHECK_SECONDS", 0.0)
    with connect_as(ann) as client:
        assert client.ask(message("ping"))["result"] == {}
        web.world.revoke_keys(ann.user)
        client.send(message("ping"))
        assert client.close_code() == 1008


def test_an_answer_is_not_sent_to_a_revoked_key(
    web: Web, ann: HttpUser, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.serve.http.edge.RECHECK_SECONDS", 0.0)
    probe.hold()
    with connect_as(ann) as client:
        client.send(call())
        assert probe.started.acquire(timeout=TIMEOUT)
        web.world.revoke_keys(ann.user)
        probe.release.set()
        assert client.close_code() == 1008


# -- limits ---


def test_connections_per_user_are_limited(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, "mcp.calls", mcp_connections_each_user=3)
    ann = web.new_user()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect_as(ann))
        assert rejection_status(ann) == 429
        with connect_as(web.new_user()) as client:
            assert client.ask(message("ping"))["result"] == {}, "other users are not affected"


def test_a_message_that_is_too_long_closes_the_connection(ann: HttpUser) -> None:
    with raw_connection(ann) as (connection, _):
        head = struct.pack("!BBQ4s", 0x81, 0xFF, MAX_MESSAGE_BYTES + 1, b"mask")
        connection.sendall(head)  # the announced length is enough
        data = b""
        for part in iter(lambda: connection.recv(65_536), b""):
            data += part
        assert struct.unpack("!BxH", data[:4]) == (0x88, 1009)


def frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def test_a_message_in_endless_fragments_closes_the_connection(
    ann: HttpUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.serve.http.client_connections.MAX_FRAGMENTS", 100)
    with raw_connection(ann) as (connection, line):
        assert b" 101 " in line
        connection.sendall(
            frame(Opcode.TEXT, b"", fin=False) + frame(Opcode.CONT, b"", fin=False) * 200
        )
        with suppress(ConnectionResetError):
            assert connection.recv(65_536) == b""


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", ""],
)
def test_other_origins_are_rejected(ann: HttpUser, origin: str) -> None:
    assert rejection_status(ann, headers={"Origin": origin}) == 403


def test_a_cookie_needs_our_origin(ann: HttpUser) -> None:
    address = ann.address.replace("http", "ws") + "/mcp/ws"
    login = httpx.post(f"{ann.address}/login", data={"key": ann.key})
    cookie = {"Cookie": f"recollect_session={login.cookies['recollect_session']}"}
    with pytest.raises(InvalidStatus) as error, connect(address, additional_headers=cookie):
        pass
    assert error.value.response.status_code == 403
    with connect(address, additional_headers=cookie, origin=ann.address):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil", "localhost:1", "[::1]"])
def test_an_unknown_host_is_rejected(ann: HttpUser, host: str) -> None:
    assert b" 421 " in handshake(ann, f"Host: {host}")


def test_messages_count_against_the_users_rate_limit(
    web: Web, ann: HttpUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect_as(ann) as client:
        monkeypatch.setattr(web.world.service.limiter, "take", lambda *_: 7)
        error = client.ask(message("ping"))["error"]
        assert (error["code"], error["data"]) == (-32000, {"retryAfter": 7})
