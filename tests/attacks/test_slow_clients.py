"""Clients that hold places without using them: half-open connections and trickled bodies.

Real sockets against a real server. During each attack, the server answers `/healthz`, a search with
an API key, and a login, also from the attacker's own address.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from http_service import Server, server

from recollect.serve import server as server_module
from recollect.serve.http import client_connections, edge
from recollect.serve.http.limits import WaitingRoom
from recollect.settings import LIMITS

PATIENCE = 60.0
Address = tuple[str, int]
Sockets = list[socket.socket]

SMALL = replace(
    LIMITS,
    connections=60,
    requests_at_once=20,
    waiting_connections_each_address=30,
    waiting_seconds=0.0,
    anonymous_bodies=12,
    anonymous_bodies_each_address=8,
)


class Target:
    """A listening server."""

    def __init__(self, address: Address, key: str) -> None:
        self.address = address
        self.key = key

    def head(self, method: str, path: str, *headers: str) -> bytes:
        host = f"Host: 127.0.0.1:{self.address[1]}"
        return "\r\n".join([f"{method} {path} HTTP/1.1", host, *headers, "", ""]).encode()

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(self.address, PATIENCE, (source, 0))

    def status(self, request: bytes, source: str = "127.0.0.1") -> int:
        with self.connect(source) as connection:
            return ask(connection, request)

    def search(self) -> bytes:
        return self.head("GET", "/api/v1/search?q=tram", f"X-API-Key: {self.key}")

    def login(self) -> bytes:
        body = urlencode({"key": self.key}).encode()
        form = "Content-Type: application/x-www-form-urlencoded"
        return self.head("POST", "/login", form, f"Content-Length: {len(body)}") + body

    def assert_others_get_in(self) -> None:
        for source in ("127.0.0.1", "127.0.0.2"):
            assert self.status(self.head("GET", "/healthz"), source) == 200
            assert self.status(self.search(), source) == 200
            assert self.status(self.login(), source) == 303


def ask(connection: socket.socket, request: bytes) -> int:
    """The status of the answer. It is read to its end, so the connection can be used again."""
    connection.sendall(request)
    with HTTPResponse(connection) as answer:
        answer.begin()
        answer.read()
        return answer.status


@contextmanager
def listening(instance: Server) -> Iterator[Address]:
    """Run the server on a free port until the end of the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        address: Address = ("127.0.0.1", listener.getsockname()[1])
        config = replace(instance.service.config, port=address[1])
        instance.service.config = config
        is_ready = threading.Event()
        running = server_module._Server(instance.service, is_ready.set)
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        assert is_ready.wait(PATIENCE)
        try:
            yield address
        finally:
            running.should_exit = True
            thread.join(PATIENCE)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    monkeypatch.setattr(server_module, "LIMITS", SMALL)
    monkeypatch.setattr(client_connections, "LIMITS", SMALL)
    monkeypatch.setattr(edge, "LIMITS", SMALL)
    with server(tmp_path) as instance:
        key = instance.key()
        with listening(instance) as address:
            yield Target(address, key)


def attack(target: Target, stack: ExitStack, count: int, data: bytes) -> Sockets:
    sockets = []
    for _ in range(count):
        connection = stack.enter_context(target.connect())
        try:
            connection.sendall(data)
        except ConnectionError:  # it has already given way to the next
            continue
        sockets.append(connection)
    return sockets


def still_open(sockets: Sockets) -> int:
    poll = select.poll()
    for connection in sockets:
        poll.register(connection, select.POLLIN)
    return len(sockets) - len(poll.poll(0))


@pytest.mark.parametrize("kind", ["silent", "half a head", "half a login"])
def test_slow_clients_give_way_to_others(target: Target, kind: str) -> None:
    login = target.head("POST", "/login", "Content-Length: 1000")
    data = {"silent": b"", "half a head": login[:-10], "half a login": login + b"key="}[kind]
    with ExitStack() as stack:
        regular = stack.enter_context(target.connect())
        assert ask(regular, target.search()) == 200
        sockets = attack(target, stack, 2 * SMALL.connections, data)
        target.assert_others_get_in()
        assert still_open(sockets) <= SMALL.connections
        assert ask(regular, target.search()) == 200, "who has a key keeps the connection"


def test_bodies_of_a_user_do_not_lock_out_others(target: Target) -> None:
    headers = ("Content-Type: application/json", f"X-API-Key: {target.key}", "Content-Length: 999")
    with ExitStack() as stack:
        attack(target, stack, 40, target.head("POST", "/conversations", *headers) + b"{")
        target.assert_others_get_in()


def test_empty_lines_do_not_keep_a_connection_open(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connections, "LIMITS", replace(SMALL, header_seconds=0.05))
    with target.connect() as connection:
        assert ask(connection, target.search()) == 200
        connection.sendall(b"\r\n")
        while connection.recv(65_536):
            pass


def test_a_body_has_a_minimal_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(LIMITS, body_seconds=0.05, body_bytes_per_second=1_000)
    monkeypatch.setattr(edge, "LIMITS", limits)
    statuses = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.002)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/login",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8765")],
        "client": ("127.0.0.1", 1),
    }
    with server(tmp_path) as instance:
        asyncio.run(instance.app(scope, receive, send))  # type: ignore[arg-type]
    assert statuses == [408]


def test_the_open_file_limit_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        assert server_module.raise_file_limit() > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- the waiting room ---


def test_the_longest_waiting_client_of_the_greediest_holder_gives_way() -> None:
    now = [0.0]
    room: WaitingRoom[str] = WaitingRoom(lambda: now[0])
    for client, holder in (("a1", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b")):
        now[0] += 1
        room.enter(client, holder)
    assert room.victim("a", each=2, total=4) is None
    assert room.victim("a", each=2, total=3) == "b1"
    assert room.victim("b", each=2, total=9) == "b1"
    assert room.victim("b", each=2, total=9, at_least=10) is None
    room.enter("b1", "b")  # it sent something
    assert room.victim("b", each=2, total=9) == "b2"
    for client in ("a1", "b1", "b2", "b3", "b3"):
        room.leave(client)
    assert len(room) == room.count("b") == 0
    assert room.greediest() is None
    assert room.victim("a", each=0, total=0) is None


# -- the attacks on version 0.1, with the real limits ---


@pytest.mark.full
@pytest.mark.parametrize(("count", "kind"), [(530, "half a login"), (1_300, "half a head")])
def test_the_attacks_on_version_0_1(tmp_path: Path, count: int, kind: str) -> None:
    with server(tmp_path / "home") as instance:
        key = instance.key()
    command = [sys.executable, "-m", "recollect", "serve", "--home", str(tmp_path / "home")]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RECOLLECT_RATE_LIMIT": "0"},
    )
    try:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["address"].rpartition(":")[2])
        target = Target(("127.0.0.1", port), key)
        login = target.head("POST", "/login", "Content-Length: 1000")
        data = {"half a head": login[:-10], "half a login": login + b"key="}[kind]
        server_module.raise_file_limit()
        with ExitStack() as stack:
            regular = stack.enter_context(target.connect())
            assert ask(regular, target.search()) == 200
            sockets = attack(target, stack, count, data)
            for _ in range(3):
                target.assert_others_get_in()
            assert still_open(sockets) <= LIMITS.connections
            assert ask(regular, target.search()) == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
