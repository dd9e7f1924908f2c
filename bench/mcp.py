"""Benchmark MCP: start-up cost, and calls per second.

    python -m bench.mcp [--runs N] [--seconds S] [--messages N] [--only PART]

The baseline is the same tool on the official SDK (bench/plain_mcp.py), which uses Recollect's
search code. Both are measured in turns in the same run. Each server is one process; all clients
share another process on the same machine. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvloop

import recollect
from bench import corpus
from bench.service import Load, cpu, free_port, memory, print_failures, wait_until_open
from bench.speed import folder_for, format_ms, table_head, table_row
from bench.startup import Cost, bare, process_cost
from recollect.serve.mcp.protocol import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY

CLIENTS = 32
WARMUP = 1.0
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
SDK = {"lowlevel": "official SDK, lowlevel", "mcpserver": "official SDK, MCPServer"}
OURS = "Recollect"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


def library_of(folder: Path, messages: int) -> Path:
    home = folder / f"home-{messages}"
    if not home.exists():
        with recollect.open(home, background=False) as library:
            library._store.save(list(corpus.documents(messages)))
            library.index()
    return home


def search(query: str, number: int, version: str = HANDSHAKE) -> dict[str, Any]:
    """A tool call. Without a query it is invalid, so that only the protocol is measured."""
    arguments: dict[str, Any] = {"query": query, "limit": 5}
    if not query:
        arguments = {"limit": 5, "start_date": "never"}
    params: dict[str, Any] = {"name": "conversation_search", "arguments": arguments}
    if version == STATELESS:
        client = {"name": "bench", "version": "1"}
        params["_meta"] = {VERSION_KEY: version, CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: client}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


# -- starting --------------------------------------------------------------------------------


def measure_start(command: list[str], query: str) -> tuple[Cost, Cost]:
    """The cost of a server up to its answer to `initialize`, and up to its first search result."""
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin and process.stdout
        costs = []
        for message, answer in ((INITIALIZE, b'"serverInfo"'), (search(query, 2), b'"content"')):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            if message is INITIALIZE:
                process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            process.stdin.flush()
            line = process.stdout.readline()
            assert answer in line, line
            costs.append(process_cost(Path(f"/proc/{process.pid}")))
        process.stdin.close()
    return costs[0], costs[1]


def show_starting(home: Path, runs: int) -> None:
    query = _questions()[0]
    recollect_mcp = [sys.executable, "-m", "recollect", "mcp"]
    os.environ["RECOLLECT_HOME"] = str(home)
    programs = {
        "`recollect mcp`": recollect_mcp,
        "`recollect mcp --home …`": [*recollect_mcp, "--home", str(home)],
    }
    programs |= {
        name: [sys.executable, "-m", "bench.plain_mcp", kind, str(home)]
        for kind, name in SDK.items()
    }
    costs: dict[str, list[tuple[Cost, Cost]]] = {name: [] for name in programs}
    idle = []
    for command in programs.values():  # compiles the bytecode
        measure_start(command, query)
    for _ in range(runs):
        idle.append(bare().cpu_ms)
        for name, command in programs.items():
            costs[name].append(measure_start(command, query))
    print(f"\n## Starting over stdio, medians of {runs}")
    table_head(
        "program",
        "CPU ms to `initialize`",
        "times",
        "MiB",
        "CPU ms to the first search result",
        "times",
        "MiB",
    )
    table_row("`python -c pass`", format_ms(statistics.median(idle)), "", "", "", "", "")
    baselines = [
        statistics.median(cost[at].cpu_ms for cost in costs["`recollect mcp`"]) for at in (0, 1)
    ]
    for name, program_costs in costs.items():
        cells = []
        for at in (0, 1):
            cpu_time = statistics.median(cost[at].cpu_ms for cost in program_costs)
            resident = statistics.median(cost[at].rss_mib for cost in program_costs)
            cells += [format_ms(cpu_time), f"{cpu_time / baselines[at]:.1f}", f"{resident:.0f}"]
        table_row(name, *cells)


# -- over HTTP -------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """An HTTP/1.1 connection to an MCP server that speaks one version of the protocol.

    The client does as little as possible: it shares two cores with the server under test.
    """

    def __init__(self, port: int, version: str, key: str = "") -> None:
        self.port = port
        self.version = version
        self.key = key
        self.session = ""
        self.number = 0
        self._received = b""
        self._answer: asyncio.Future[tuple[bytes, bytes]] | None = None

    async def open(self) -> None:
        self._received = b""
        self._transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: self, "127.0.0.1", self.port
        )
        if self.version == HANDSHAKE:
            await self.begin()

    async def begin(self) -> None:
        status, head, body = await self.post(INITIALIZE)
        match = re.search(rb"mcp-session-id: (\S+)", head, re.IGNORECASE)
        assert status == 200 and match, (status, body[:300])
        self.session = match[1].decode()
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def search(self, query: str) -> str | None:
        """The error, if the result is not as expected."""
        self.number += 1
        status, _, body = await self.post(search(query, self.number, self.version))
        is_error = b'"isError":true' in body or b'"isError": true' in body
        if status == 200 and b'"content"' in body and is_error == (not query):
            return None
        return f"{status} {body[:200].decode(errors='replace')}"

    async def post(self, message: dict[str, Any]) -> tuple[int, bytes, bytes]:
        headers = {}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.session or self.version == STATELESS:
            headers["MCP-Protocol-Version"] = self.version
        if self.version == STATELESS:
            headers |= {
                "Mcp-Method": message["method"],
                "Mcp-Name": message["params"].get("name", ""),
            }
        return await self.send("POST", orjson.dumps(message), headers)

    async def send(
        self, method: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes, bytes]:
        all_headers = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
        }
        if self.key:
            all_headers["Authorization"] = f"Bearer {self.key}"
        all_headers |= headers
        lines = "".join([f"{name}: {value}\r\n" for name, value in all_headers.items()])
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(f"{method} /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        head, body = await self._answer
        return int(head[9:12]), head, body

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _LENGTH.search(head)
        if length:
            complete = len(body) == int(length[1])
        else:
            complete = (separator + body).endswith(b"\r\n0\r\n\r\n")
        if not complete:
            return
        if not length:
            body = decode_chunks(body)
        self._received = b""
        assert self._answer is not None
        self._answer.set_result((head, body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    async def close(self) -> None:
        self._transport.close()


def decode_chunks(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        parts.append(rest[: int(size, 16)])
        body = rest[int(size, 16) + 2 :]
    return b"".join(parts)


@contextmanager
def running(command: list[str], port: int) -> Iterator[int]:
    environment = os.environ | {"RECOLLECT_INDEXING": "manual"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_open(port, process)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:  # the SDK server waits for its open streams
            process.kill()
            process.wait(15)


def serve_command(home: Path, port: int) -> list[str]:
    return [
        sys.executable,
        "-m",
        "recollect",
        "--home",
        str(home),
        "serve",
        "--port",
        str(port),
        "--rate-limit",
        "0",
    ]


async def run_load(connections: list[Connection], seconds: float, questions: list[str]) -> Load:
    load = Load(seconds=seconds)
    for connection in connections:
        await connection.open()
    start = time.perf_counter() + WARMUP
    end = start + seconds

    async def one(connection: Connection, seed: int) -> None:
        rng = random.Random(seed)
        sent_at = time.perf_counter()
        while sent_at < end:
            error = await connection.search(rng.choice(questions))
            if error is not None:
                load.failures[error] += 1
            if sent_at >= start:
                load.walls.append(time.perf_counter() - sent_at)
            sent_at = time.perf_counter()
        await connection.close()

    await asyncio.gather(*(one(connection, seed) for seed, connection in enumerate(connections)))
    return load


def _questions() -> list[str]:
    return [" ".join(query.words) for query in corpus.many_queries(60, 0)["rare word"]]


def show_calls(folder: Path, messages: int, seconds: float) -> None:
    home = library_of(folder, messages)
    print(
        f"\n## Calls over Streamable HTTP, {CLIENTS} connections, {seconds:g} s each, "
        f"{messages:,} messages"
    )
    table_head(
        "call",
        "protocol",
        "server",
        "calls / s",
        "Recollect / this",
        "p50 ms",
        "p99 ms",
        "failed",
        "server CPU ms per call",
        "clients' CPU",
        "MiB",
    )
    json_responses = {"lowlevel-json": "official SDK, lowlevel, JSON responses"}
    works: list[tuple[str, list[str], dict[str, str]]] = [
        ("invalid arguments", [""], SDK | json_responses),
        ("search", _questions(), SDK | json_responses),
    ]
    for work, questions, others in works:
        for version in (HANDSHAKE, STATELESS):
            best = math.nan
            for kind, name in {"": OURS, **others}.items():
                port = free_port()
                command = serve_command(home, port)
                if kind:
                    program = [sys.executable, "-m", "bench.plain_mcp"]
                    command = [*program, kind, str(home), str(port)]
                measurement = measure_calls(command, port, version, seconds, questions)
                ratio = ""
                if not kind:
                    best = measurement.rate
                elif measurement.rate:
                    ratio = f"{best / measurement.rate:.1f} times"
                table_row(work, version, name, *measurement.cells(ratio))
                print_failures(measurement.load.failures)


@dataclass
class Calls:
    """The load on a server, and what it cost the server and the clients."""

    load: Load
    server_cpu: float
    client_cpu: float
    resident: float

    @property
    def rate(self) -> float:
        return len(self.load.walls) / self.load.seconds

    def cells(self, ratio: str) -> list[object]:
        duration = self.load.seconds + WARMUP
        calls = max(len(self.load.walls), 1) * duration / self.load.seconds
        return [
            f"{self.rate:,.0f}",
            ratio,
            format_ms(self.load.at(50)),
            format_ms(self.load.at(99)),
            self.load.failures.total(),
            f"{self.server_cpu * 1000 / calls:.2f}",
            f"{self.client_cpu / duration:.0%}",
            f"{self.resident:.0f}",
        ]


def measure_calls(
    command: list[str], port: int, version: str, seconds: float, questions: list[str]
) -> Calls:
    connections = [Connection(port, version) for _ in range(CLIENTS)]
    with running(command, port) as pid:
        server, client = cpu(pid), time.process_time()
        load = uvloop.run(run_load(connections, seconds, questions))
        return Calls(load, cpu(pid) - server, time.process_time() - client, memory(pid))


def main(arguments: argparse.Namespace) -> None:
    os.environ["RECOLLECT_INDEXING"] = "manual"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with folder_for(None) as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        small = library_of(folder, 1_000)
        parts = {
            "start": lambda: show_starting(small, arguments.runs),
            "calls": lambda: show_calls(folder, arguments.messages, arguments.seconds),
        }
        for part in arguments.only or parts:
            parts[part]()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark MCP against the official SDK.")
    parser.add_argument("--runs", type=int, default=7, help="starts of each program")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument(
        "--messages", type=int, default=20_000, help="size of the library searched over HTTP"
    )
    parser.add_argument("--only", action="append", choices=("start", "calls"))
    main(parser.parse_args())
