"""The server process: listening, logging and shutting down."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from recollect.cli import main
from recollect.places import keys
from recollect.serve import server as module
from recollect.serve.http.service import ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.serve.identity.principal import JwtSettings
from recollect.serve.server import require_keys, server_url
from recollect.settings import LIMITS

PATIENCE = 60.0
CANARY = "zebra-canary"


class Process:
    """A server process and its log."""

    def __init__(self, place: str, *arguments: str, log: Path, **settings: str) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "recollect",
                    "serve",
                    "--home",
                    place,
                    "--port",
                    "0",
                    "--json",
                    *arguments,
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **settings},
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        assert line, log.read_text()
        self.address: str = json.loads(line)["address"]
        self.host, self.port = (
            str(urlsplit(self.address).hostname),
            int(urlsplit(self.address).port or 0),
        )

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def head(self, method: str, path: str, *headers: str) -> bytes:
        return "\r\n".join(
            [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *headers, "", ""]
        ).encode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def stopped_listening(self) -> bool:
        try:
            self.connect().close()
        except OSError:
            return True
        return False

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


Start = Callable[..., Process]


@pytest.fixture
def must_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that expects a refusal if the server would start."""

    def fail(*_: object) -> None:
        raise AssertionError("the server was started")

    monkeypatch.setattr(module._Server, "run", fail)


@pytest.fixture
def start(place: str, tmp_path: Path) -> Iterator[Start]:
    servers: list[Process] = []

    def start_server(*arguments: str, **settings: str) -> Process:
        servers.append(Process(place, *arguments, log=tmp_path / f"log-{len(servers)}", **settings))
        return servers[-1]

    yield start_server
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        assert server.process.stdout is not None
        server.process.stdout.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        threading.Event().wait(0.02)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        for part in iter(lambda: connection.recv(65_536), b""):
            data += part
    return data


# -- shutting down ---


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_requests_in_progress_are_answered_after_a_signal(
    start: Start, place: str, user: str, number: int
) -> None:
    server = start()
    body = json.dumps({"user": user, "name": "the last one", "scopes": ["read"]}).encode()
    with server.connect() as connection:
        headers = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        connection.sendall(server.head("POST", "/api/keys", *headers) + body[:10])
        wait_until(lambda: in_flight(server) == 2)  # this one and the request for the metrics
        with httpx.stream("GET", f"{server.address}/api/events", timeout=PATIENCE) as stream:
            parts = stream.iter_bytes()
            assert b"ready" in next(parts)
            server.process.send_signal(number)
            assert b"changed" not in b"".join(parts), "the stream must end"
        wait_until(server.stopped_listening)
        assert server.process.poll() is None, "the server must wait for the request"
        connection.sendall(body[10:])
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert b"rk_" in answer
    assert server.process.wait(PATIENCE) == 0
    with closing(keys(place)) as api_keys:
        assert [key.name for key in api_keys.all_keys()] == ["the last one"]
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((server.host, server.port))


@pytest.mark.full
def test_an_accepted_import_survives_a_restart(start: Start) -> None:
    server = start()
    export = Path(__file__).parents[2] / "examples" / "chatgpt" / "conversations.json"
    accepted = httpx.post(
        f"{server.address}/api/imports",
        params={"name": "conversations.json"},
        content=export.read_bytes(),
        timeout=PATIENCE,
    )
    assert accepted.status_code == 202
    assert server.stop() == 0
    again = start()
    wait_until(
        lambda: httpx.get(f"{again.address}/conversations", timeout=PATIENCE).json()["total"] > 0
    )
    assert again.stop() == 0


def in_flight(server: Process) -> float:
    text = httpx.get(f"{server.address}/metrics", timeout=PATIENCE).text
    return float(re.findall(r"^recollect_requests_in_flight (.+)$", text, re.MULTILINE)[0])


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_second_signal_stops_the_server_at_once(start: Start) -> None:
    server = start()
    with server.connect() as connection:
        headers = ("Content-Type: application/json", "Content-Length: 1000")
        connection.sendall(server.head("POST", "/api/keys", *headers) + b"{")
        wait_until(lambda: in_flight(server) == 2)
        server.process.send_signal(signal.SIGTERM)
        wait_until(server.stopped_listening)
        assert server.stop() == 1


# -- listening ---


@pytest.mark.parametrize(
    "arguments",
    [
        ["--host", "0.0.0.0"],
        ["--host", "::"],
        ["--allow-host", "notes.example"],
        ["--base-url", "https://notes.example"],
    ],
)
def test_other_computers_are_not_served_without_a_key(
    place: str, capsys: pytest.CaptureFixture[str], must_not_serve: None, arguments: list[str]
) -> None:
    assert main(["serve", "--home", place, "--port", "0", *arguments]) == 1
    assert "recollect keys add" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def conversation_search(server: Process, **headers: str) -> str:
    """The text that `conversation_search` returns over HTTP."""
    call = {"name": "conversation_search", "arguments": {}}
    answer = httpx.post(
        f"{server.address}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={"accept": "application/json, text/event-stream", **headers},
        timeout=PATIENCE,
    )
    text: str = answer.json()["result"]["content"][0]["text"]
    return text


def warnings(server: Process) -> list[dict[str, Any]]:
    return [line for line in server.lines() if line["level"] == "warning"]


@pytest.mark.parametrize(
    "name", [pytest.param("CONVERSATION_DB", marks=pytest.mark.full), "ORIGIN_CONVERSATION_DB"]
)
def test_users_with_keys_search_their_libraries_and_the_log_says_so(
    start: Start, place: str, user: str, name: str
) -> None:
    with closing(keys(place)) as api_keys:
        key, _ = new_key(api_keys, user)
    server = start(**{name: "/nowhere/export.db"})
    (warning,) = warnings(server)
    assert warning["event"] == "setting not used"
    assert warning["setting"] == name
    assert "recollect import" in warning["reason"] and "recollect mcp" in warning["reason"]
    assert "/nowhere" not in json.dumps(warning)
    answer = conversation_search(server, authorization=f"Bearer {key}")
    assert answer == "No matching messages."


def test_jwt_settings_are_enough_to_serve_other_computers(place: str) -> None:
    with closing(keys(place)) as api_keys:
        require_keys(ServiceConfig(host="0.0.0.0", jwt=JwtSettings(secret="x" * 32)), api_keys)
        for host in ("127.0.0.1", "::1", "localhost", "127.0.0.5"):
            require_keys(ServiceConfig(host=host), api_keys)
        require_keys(ServiceConfig(public_hosts=("localhost:9000", "127.0.0.1")), api_keys)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["--host", "192.0.2.1"], {"RECOLLECT_JWT_SECRET": "x" * 32}, "Cannot listen"),
        (["--port", "70000"], {}, "0 to 65535"),
        ([], {"RECOLLECT_PORT": "http"}, "is not a whole number"),
        (["--cors-origin", "*"], {}, "not an origin"),
        (["--cors-origin", "app.example"], {}, "not an origin"),
        (["--rate-limit", "-1"], {}, "at least 0"),
        (["--base-url", "notes"], {}, "not a base URL"),
        ([], {"RECOLLECT_JWT_SECRET": "short"}, "at least 32 bytes"),
    ],
)
def test_invalid_options_are_explained(
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    must_not_serve: None,
    arguments: list[str],
    settings: dict[str, str],
    message: str,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with suppress(SystemExit):
        assert main(["serve", "--home", place, *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_port_in_use_is_reported(
    place: str, capsys: pytest.CaptureFixture[str], must_not_serve: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert main(["serve", "--home", place, "--port", str(listener.getsockname()[1])]) == 1
    assert "--port" in capsys.readouterr().err


def test_the_announced_url_can_be_opened() -> None:
    assert server_url(ServiceConfig(host="0.0.0.0", port=80)) == "http://127.0.0.1:80"
    assert server_url(ServiceConfig(host="::1", port=80)) == "http://[::1]:80"
    assert server_url(ServiceConfig(base_url="https://notes.example")) == "https://notes.example"


# -- malformed requests ---


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_malformed_requests_are_rejected_and_others_still_answered(start: Start) -> None:
    server = start()
    good = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    cases = {
        b"GET http://evil.example/healthz HTTP/1.1\r\n" + good + b"\r\n": b"400",
        b"GET /healthz HTTP/1.1\r\n"
        + good
        + b"Host: evil.example\r\nConnection: close\r\n\r\n": b"421",
        b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n": b"421",
        b"GET /healthz HTTP/1.1\r\n"
        + good
        + b"X-Long: "
        + b"x" * (LIMITS.header_bytes + 10)
        + b"\r\n\r\n": b"431",
        b"GET /healthz HTTP/1.1\r\n"
        + good
        + b"X-Long: "
        + b"x" * (4 * LIMITS.header_bytes): b"431",
        b"POST /api/keys HTTP/1.1\r\n" + good + b"Content-Length: 99999999\r\n\r\n": b"413",
        b"POST /api/keys HTTP/1.1\r\n"
        + good
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": b"400",
        b"POST /api/keys HTTP/1.1\r\n"
        + good
        + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello": b"400",
        b"\x16\x03\x01\x02\x00\x01\x00\x01": b"400",
        b"GET /healthz HTTP/1.1\r\n" + good + b"Bad Header\r\n\r\n": b"400",
    }
    for request, status in cases.items():
        with server.connect() as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
            answer = read_all(connection)
            assert answer.split(b" ")[1] == status, request[:200]
        assert httpx.get(f"{server.address}/healthz", timeout=PATIENCE).status_code == 200
    assert server.stop() == 0


# -- logging ---


@pytest.mark.parametrize("kind", ["json", pytest.param("text", marks=pytest.mark.full)])
def test_the_log_has_one_line_per_request_and_no_user_data(
    start: Start, place: str, user: str, kind: str
) -> None:
    with closing(keys(place)) as api_keys:
        text, api_key = new_key(api_keys, user, scopes=("read", "write", "admin"))
    server = start("--log-format", kind)
    secret = text.split("_", 2)[2]
    nasty = f"{CANARY}\\u001b[31m"
    client = httpx.Client(base_url=server.address, timeout=PATIENCE, headers={"X-API-Key": text})
    client.get(
        "/healthz", params={"q": f"{CANARY}\n\x1b[31m"}, headers={"User-Agent": CANARY * 1000}
    )
    client.get(f"/conversations/{CANARY}%0a%1b%5b31m")
    client.get("/conversations/search/messages", params={"query": CANARY})
    client.get("/api/search", params={"q": CANARY, "query": CANARY})
    client.post(
        "/conversations",
        json={
            "id": f"{user}-{CANARY}",
            "title": CANARY,
            "session_id": CANARY,
            "messages": [{"role": "user", "content": nasty}],
        },
    )
    client.post("/api/keys", json={"user": CANARY, "name": CANARY})
    client.get("/healthz", headers={"X-API-Key": "", "Authorization": f"Bearer {CANARY}"})
    client.get("/metrics", headers={"X-API-Key": f"rk_000000000000_{CANARY}"})
    client.get("/nothing", headers={"X-Request-ID": "x status=200"})
    client.get(
        "/nothing",
        headers={"Referer": CANARY, "Cookie": f"a={CANARY}", "Origin": f"http://{CANARY}"},
    )
    last = client.get("/api/keys", headers={"X-Request-ID": "the last one"})
    assert last.status_code == 200
    client.close()
    assert server.stop() == 0
    log = server.log.read_text(encoding="utf-8")
    assert CANARY not in log
    assert secret not in log
    assert "\x1b" not in log
    assert log.count("/healthz") == 2
    if kind == "text":
        assert 'request_id="the last one"' in log
        assert 'request_id="x status=200"' in log, "values of clients are quoted"
        return
    requests = [line for line in server.lines() if line["event"] == "request"]
    assert len(requests) == 11
    assert requests[-1] | {"time": "", "ms": 0} == {
        "time": "",
        "level": "info",
        "event": "request",
        "method": "GET",
        "route": "/api/keys",
        "status": 200,
        "ms": 0,
        "user": user,
        "credential": api_key.id,
        "request_id": "the last one",
    }
