"""Several server processes on one port: `recollect serve --workers N`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from recollect.cli import main

PATIENCE = 60.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a-test", "version": "1"},
    },
}


class Workers:
    """A server with two worker processes."""

    def __init__(self, place: str, log: Path) -> None:
        self.log = log
        options = ["--home", place, "--port", "0", "--json", "--workers", "2"]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "recollect", "serve", *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        assert line, log.read_text()
        self.address: str = json.loads(line)["address"]

    def started_pids(self) -> list[int]:
        return [line["pid"] for line in self.lines() if line["event"] == "started"]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def workers(place: str, tmp_path: Path) -> Iterator[Workers]:
    server = Workers(place, tmp_path / "log")
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.wait()
    assert server.process.stdout is not None
    server.process.stdout.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        threading.Event().wait(0.05)


def post(address: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    """Post over a new connection, so that either worker may get it."""
    accept = {"Accept": "application/json, text/event-stream"}
    return httpx.post(f"{address}/mcp", json=body, headers={**accept, **headers}, timeout=PATIENCE)


@pytest.mark.full
def test_workers_share_the_port_and_their_sessions(workers: Workers) -> None:
    assert len(workers.started_pids()) == 2
    answer = post(workers.address, INITIALIZE)
    session = {"mcp-session-id": answer.headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    search = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "conversation_search", "arguments": {"query": "tram"}},
    }
    for _ in range(10):
        assert post(workers.address, ping, **session).status_code == 200
        assert "result" in post(workers.address, search, **session).json()
    ended = httpx.delete(f"{workers.address}/mcp", headers=session, timeout=PATIENCE)
    assert ended.status_code == 200
    assert {post(workers.address, ping, **session).status_code for _ in range(10)} == {404}


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_worker_that_dies_is_replaced(workers: Workers) -> None:
    first, second = workers.started_pids()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(workers.started_pids()) == 3)
    (death,) = [line for line in workers.lines() if line["event"] == "worker died"]
    assert (death["pid"], death["exit_code"]) == (first, -signal.SIGKILL)
    assert httpx.get(f"{workers.address}/readyz", timeout=PATIENCE).status_code == 200
    assert psutil.pid_exists(second)


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_shuts_all_workers_down(workers: Workers, number: signal.Signals) -> None:
    if number is signal.SIGINT:
        os.killpg(workers.process.pid, number)  # as a terminal does
    else:
        workers.process.send_signal(number)
    assert workers.process.wait(PATIENCE) == 0
    assert not any(map(psutil.pid_exists, workers.started_pids()))
    assert [line["event"] for line in workers.lines()].count("stopped") == 2


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_workers_end_when_their_parent_is_killed(workers: Workers) -> None:
    pids = workers.started_pids()
    workers.process.kill()
    workers.process.wait()
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_if_a_worker_cannot_start_the_server_stops_with_its_error(place: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "recollect", "serve", "--home", place, "--port=0", "--workers=2"],
        env={**os.environ, "RECOLLECT_MODEL": "no url"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 1
    assert "cannot start" in result.stderr
    assert "could not start" in result.stderr


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", ["0", "1000"])
def test_the_number_of_workers_is_limited(
    place: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--home", place, "--port", "0", "--workers", number]) != 0
    assert "must be from 1 to 256" in capsys.readouterr().err
