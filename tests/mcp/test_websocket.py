"""MCP over WebSocket, with a client that we did not write, and with frames that no client would send."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from people import World, listening
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect
from wire import (
    NEW,
    OLD,
    PATIENCE,
    Probe,
    Someone,
    Web,
    call,
    initialize,
    message,
    stateless,
    text_of,
    told,
)

from recollect.serve import server
from recollect.serve.accounts import revoke
from recollect.serve.http import edge
from recollect.serve.mcp.transports import calls
from recollect.serve.mcp.transports import websocket as module
from recollect.settings import LIMITS


@pytest.fixture
def ann(web: Web) -> Someone:
    return web.someone()


class Client:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, body: Any) -> None:
        self.connection.send(body if isinstance(body, (str, bytes)) else json.dumps(body))

    def receive(self) -> Any:
        return json.loads(self.connection.recv(PATIENCE))

    def ask(self, body: Any) -> Any:
        self.send(body)
        return self.receive()

    def closed(self) -> int:
        """The code with which the server closes."""
        with pytest.raises(ConnectionClosed) as ended:
            while True:
                self.connection.recv(PATIENCE)
        return ended.value.rcvd.code if ended.value.rcvd else 1006


@contextmanager
def socket_of(who: Someone, path: str = "/mcp/ws", **more: Any) -> Iterator[Client]:
    headers = {"Authorization": f"Bearer {who.key}", **more.pop("headers", {})}
    address = who.address.replace("http://", "ws://") + path
    subprotocols = more.pop("subprotocols", ["mcp"])
    with connect(
        address, additional_headers=headers, subprotocols=subprotocols, max_size=None, **more
    ) as connection:
        yield Client(connection)


def refused(who: Someone, path: str = "/mcp/ws", **more: Any) -> int:
    """The status with which a connection is refused, in the one shape of all our errors."""
    with pytest.raises(InvalidStatus) as why, socket_of(who, path, **more):
        pass
    body = json.loads(why.value.response.body)
    assert body["error"]["details"]["status_code"] == why.value.response.status_code
    return why.value.response.status_code


# -- talking -----------------------------------------------------------------


@pytest.mark.parametrize("era", [OLD, NEW])
def test_a_client_lists_and_calls_the_tools(served: Web, era: str) -> None:
    ann = served.someone()
    served.remember(ann.user, "the walrus was Paul")
    with socket_of(ann) as client:
        assert client.connection.subprotocol == "mcp"
        if era == OLD:
            assert client.ask(initialize())["result"]["protocolVersion"] == OLD
            client.send(told("notifications/initialized"))
            listed, found = client.ask(message("tools/list")), client.ask(call(query="walrus"))
        else:
            assert client.ask(stateless(message("server/discover")))["result"][
                "supportedVersions"
            ] == [NEW]
            listed, found = (
                client.ask(stateless(message("tools/list"))),
                client.ask(stateless(call(query="walrus"))),
            )
    assert "conversation_search" in [tool["name"] for tool in listed["result"]["tools"]]
    assert "the walrus was Paul" in text_of(found)


def test_profiles_have_addresses_of_their_own(ann: Someone) -> None:
    with socket_of(ann, "/mcp/research/ws") as client:
        names = [tool["name"] for tool in client.ask(message("tools/list"))["result"]["tools"]]
        assert names == ["knowledge_search", "knowledge_get", "search", "fetch"]
    assert refused(ann, "/mcp/nothing/ws") == 404


def test_who_asks_for_no_subprotocol_gets_none(ann: Someone) -> None:
    with socket_of(ann, subprotocols=None) as client:
        assert client.connection.subprotocol is None
        assert client.ask(message("ping"))["result"] == {}


def test_errors_are_in_the_protocols_words(ann: Someone) -> None:
    with socket_of(ann) as client:
        assert client.ask("{")["error"]["code"] == -32700
        assert client.ask("[" * 100_000)["error"]["code"] == -32700
        assert client.ask([message("ping")])["error"]["code"] == -32600
        assert (
            client.ask({"jsonrpc": "2.0", "id": None, "method": "ping"})["error"]["code"] == -32600
        )
        assert client.ask(message("no/such"))["error"]["code"] == -32601
        assert client.ask(call("no_such_tool"))["error"]["code"] == -32602
        assert client.ask(message("ping", "still there"))["id"] == "still there"


def test_progress_is_told_and_answers_come_in_any_order(ann: Someone, probe: Probe) -> None:
    probe.progress = 2
    probe.hold()
    with socket_of(ann) as client:
        client.send(call(request_id="long", meta={"progressToken": "t"}))
        assert [client.receive()["params"]["progress"] for _ in range(2)] == [1, 2]
        assert client.ask(message("ping", "quick"))["id"] == "quick"
        assert (
            client.ask(call(request_id="long"))["error"]["message"]
            == "Invalid request: this 'id' is in use"
        )
        probe.may_end.set()
        assert client.receive()["id"] == "long"


def test_a_call_can_be_cancelled(ann: Someone, probe: Probe) -> None:
    probe.hold()
    with socket_of(ann) as client:
        client.send(call(request_id=7))
        assert probe.begun.acquire(timeout=PATIENCE)
        client.send(told("notifications/cancelled", requestId=7))
        assert probe.noticed.wait(PATIENCE)
        assert client.ask(message("ping", 8))["id"] == 8, "and is not answered"


def test_a_client_that_leaves_cancels_what_it_waits_for(ann: Someone, probe: Probe) -> None:
    probe.hold()
    with socket_of(ann) as client:
        client.send(call())
        assert probe.begun.acquire(timeout=PATIENCE)
    assert probe.noticed.wait(PATIENCE)


def test_too_many_calls_are_refused(
    ann: Someone, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CALLS", 1)
    probe.hold()
    with socket_of(ann) as client:
        client.send(call(request_id=1))
        assert probe.begun.acquire(timeout=PATIENCE)
        assert client.ask(call(request_id=2))["error"]["code"] == -32000
        probe.may_end.set()
        assert "result" in client.receive()


# -- the session -------------------------------------------------------------


def test_the_connection_is_the_session(web: Web, probe: Probe) -> None:
    ann = web.someone()
    with socket_of(ann) as client:
        client.ask(initialize(config={"snippet_length": 10**6, "user_id": "x"}))
        client.ask(call())
        client.ask(call())
        assert probe.contexts[0].session is probe.contexts[1].session is not None
        assert dict(probe.contexts[1].config) == {"snippet_length": 1_000}
        assert probe.contexts[1].client == "a-test"
    with socket_of(ann) as client:
        client.ask(call())
        assert probe.contexts[2].session is not probe.contexts[1].session


def test_a_key_makes_a_session_outlive_its_connection(web: Web, probe: Probe) -> None:
    ann, bob = web.someone(), web.someone()
    for who, path, headers in (
        (ann, "/mcp/ws?mcp-session-id=k", {}),
        (ann, "/mcp/ws", {"mcp-session-id": "k"}),
        (bob, "/mcp/ws?mcp-session-id=k", {}),
    ):
        with socket_of(who, path, headers=headers) as client:
            client.ask(call())
    first, second, others = (context.session for context in probe.contexts)
    assert first is second
    assert others is not first


def test_nothing_that_is_sent_changes_who_asks(web: Web, probe: Probe) -> None:
    victim, mallory = web.someone(), web.someone(("read",), agent=True, toolsets=("conversations",))
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
    with socket_of(mallory, path, headers=headers) as client:
        client.ask({**initialize(config=claims, **claims), **claims})
        for asked in (call(meta=claims), stateless(call(), **claims)):
            assert text_of(client.ask({**asked, **claims})) == f"for {mallory.user}"
            context = probe.contexts[-1]
            assert (context.user, context.agent, context.scopes) == (
                mallory.user,
                True,
                frozenset(("read",)),
            )
            assert dict(context.config) == {}
        tools = client.ask(message("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["conversation_search"]


# -- who may come in ---------------------------------------------------------


def test_strangers_are_refused_before_the_connection_is_there(web: Web, ann: Someone) -> None:
    nobody = Someone(ann.address, "rk_wrong", "")
    assert refused(nobody) == 401
    with (
        pytest.raises(InvalidStatus) as why,
        connect(f"{ann.address.replace('http', 'ws')}/mcp/ws?key={ann.key}"),
    ):
        pass
    assert why.value.response.status_code == 401, "a key in the address opens nothing"


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", ""],
)
def test_pages_of_other_sites_are_refused(ann: Someone, origin: str) -> None:
    assert refused(ann, headers={"Origin": origin}) == 403


def test_our_own_pages_and_programs_come_in(ann: Someone) -> None:
    with socket_of(ann, origin=ann.address) as client:
        assert client.ask(message("ping"))["result"] == {}


def test_a_cookie_alone_does_not_open_it_without_an_origin(ann: Someone) -> None:
    address = ann.address.replace("http", "ws") + "/mcp/ws"
    cookie = {"Cookie": f"recollect_key={ann.key}"}
    with pytest.raises(InvalidStatus) as why, connect(address, additional_headers=cookie):
        pass
    assert why.value.response.status_code == 403
    with connect(address, additional_headers=cookie, origin=ann.address):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil", "localhost:1", "[::1]"])
def test_another_name_than_ours_is_refused(ann: Someone, host: str) -> None:
    assert b" 421 " in shaken(ann, f"Host: {host}")


@pytest.mark.parametrize("path", ["/", "/api/events", "/healthz", "/mcp", "/mcp/ws/x"])
def test_there_is_nothing_elsewhere(ann: Someone, path: str) -> None:
    assert b" 403 " in shaken(ann, path=path) or b" 404 " in shaken(ann, path=path)


def shaken(who: Someone, *headers: str, path: str = "/mcp/ws") -> bytes:
    """The first line that answers a handshake with these headers."""
    with opened(who, *headers, path=path) as (_, line):
        return line


@contextmanager
def opened(
    who: Someone, *headers: str, path: str = "/mcp/ws"
) -> Iterator[tuple[socket.socket, bytes]]:
    address = urlsplit(who.address)
    host = [] if any(line.startswith("Host:") for line in headers) else [f"Host: {address.netloc}"]
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
        (str(address.hostname), int(address.port or 0)), PATIENCE
    ) as connection:
        connection.sendall("\r\n".join(head).encode())
        received = b""
        while b"\r\n\r\n" not in received and (part := connection.recv(65_536)):
            received += part
        yield connection, received.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "header", ["X-Long: " + "x" * 20_000, "\r\n".join(f"X-{n}: 1" for n in range(300))]
)
def test_a_handshake_that_cannot_be_read_is_answered_and_closed(ann: Someone, header: str) -> None:
    with opened(ann, header) as (connection, line):
        assert line.startswith(b"HTTP/1.1 4")
        while connection.recv(65_536):
            pass


def test_a_revoked_key_closes_the_connection(
    web: Web, ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "RECHECK_SECONDS", 0.0)
    with socket_of(ann) as client:
        assert client.ask(message("ping"))["result"] == {}
        keys = web.world.service.keys
        mine = next(key for key in keys.all_keys() if key.user == ann.user)
        revoke(keys, mine.id)
        client.send(message("ping"))
        assert client.closed() == 1008


def test_an_answer_is_not_sent_to_a_revoked_key(
    web: Web, ann: Someone, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "RECHECK_SECONDS", 0.0)
    probe.hold()
    with socket_of(ann) as client:
        client.send(call())
        assert probe.begun.acquire(timeout=PATIENCE)
        keys = web.world.service.keys
        revoke(keys, next(key.id for key in keys.all_keys() if key.user == ann.user))
        probe.may_end.set()
        assert client.closed() == 1008


def test_a_server_that_stops_says_so(tmp_path: Path, probe: Probe) -> None:
    made = World(str(tmp_path / "home"))
    probe.hold()
    with ExitStack() as open_:
        with listening(made) as address:
            client = open_.enter_context(socket_of(Web(made, address).someone()))
            client.send(call())
            assert probe.begun.acquire(timeout=PATIENCE)
        assert client.closed() == 1012
    assert probe.noticed.wait(PATIENCE)
    made.service.close()


# -- limits ------------------------------------------------------------------


def test_too_many_connections_of_one_user_are_refused(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LIMITS", replace(LIMITS, mcp_connections_each_user=3))
    ann = web.someone()
    with ExitStack() as open_:
        for _ in range(3):
            open_.enter_context(socket_of(ann))
        assert refused(ann) == 429
        with socket_of(web.someone()) as client:
            assert client.ask(message("ping"))["result"] == {}, "others come in"


def test_a_message_that_is_too_long_ends_the_connection(ann: Someone) -> None:
    with opened(ann) as (connection, _):
        head = struct.pack("!BBQ4s", 0x81, 0xFF, LIMITS.mcp_line_bytes + 1, b"mask")
        connection.sendall(head)  # what is announced is enough
        received = b""
        while part := connection.recv(65_536):
            received += part
        assert struct.unpack("!BxH", received[:4]) == (0x88, 1009)


def test_only_text_is_read(ann: Someone) -> None:
    with socket_of(ann) as client:
        client.send(json.dumps(message("ping")).encode())
        assert client.closed() == 1003


def test_nothing_is_unpacked(ann: Someone) -> None:
    with socket_of(ann, compression="deflate") as client:
        assert not client.connection.protocol.extensions


def frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def test_a_message_in_endless_pieces_ends_the_connection(
    ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_FRAGMENTS", 100)
    with opened(ann) as (connection, line):
        assert b" 101 " in line
        connection.sendall(
            frame(Opcode.TEXT, b"", fin=False) + frame(Opcode.CONT, b"", fin=False) * 200
        )
        with suppress(ConnectionResetError):
            assert connection.recv(65_536) == b""


def test_messages_are_counted_against_the_users_limit(
    web: Web, ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket_of(ann) as client:
        monkeypatch.setattr(web.world.service.limiter, "take", lambda *_: 7)
        refusal = client.ask(message("ping"))["error"]
        assert (refusal["code"], refusal["data"]) == (-32000, {"retryAfter": 7})


def test_many_frames_at_once_are_all_answered(ann: Someone) -> None:
    with opened(ann) as (connection, _):
        asked = [
            frame(Opcode.TEXT, json.dumps(message("ping", number)).encode())
            for number in range(1_000)
        ]
        connection.sendall(b"".join(asked) + frame(Opcode.PING, b"x") * 100)
        received = b""
        while received.count(b'"result"') < 1_000:
            received += connection.recv(65_536)
