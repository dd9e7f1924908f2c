"""MCP: what it costs to start, how many calls it answers, what it keeps, and what its tools cost a model.

    python -m bench.mcp [--runs N] [--seconds S] [--messages N] [--requests N] [--only PART]

Beside Recollect, in the same run and in turns: the same tool built plainly on the official SDK (bench/plain_mcp.py),
which searches by the same code. Servers have one process; the clients have another on the same machine. Linux only.
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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import uvloop

import recollect
from bench import corpus
from bench.mcp_start import INITIALIZE, Cost, _cost, bare
from bench.service import Load, _until_open, cpu, free_port, memory
from bench.speed import _head, _ms, _row, folder_for
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.protocol import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY

CLIENTS = 32
AGENTS = 64
WARMING = 1.0
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
SDK = {"lowlevel": "official SDK, lowlevel", "mcpserver": "official SDK, MCPServer"}
OURS = "Recollect"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


def library_of(folder: Path, messages: int) -> Path:
    home = folder / f"home-{messages}"
    if not home.exists():
        with recollect.open(home, background=False) as library:
            library._store.save(list(corpus.documents(messages)))
            library.index()
    return home


def search(query: str, number: int, version: str = HANDSHAKE) -> dict[str, Any]:
    """Without a query: a call that the tool refuses before it looks anything up, so that only the way to it counts."""
    arguments = {"query": query, "limit": 5} if query else {"limit": 5, "start_date": "never"}
    params: dict[str, Any] = {"name": "conversation_search", "arguments": arguments}
    if version == STATELESS:
        client = {"name": "bench", "version": "1"}
        params["_meta"] = {VERSION_KEY: version, CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: client}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


# -- starting --------------------------------------------------------------------------------


def started(command: list[str], query: str) -> tuple[Cost, Cost]:
    """What a server has cost when it has answered `initialize`, and when it has answered its first search."""
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
            costs.append(_cost(Path(f"/proc/{process.pid}")))
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
    for command in programs.values():  # from here on everything is compiled
        started(command, query)
    for _ in range(runs):
        idle.append(bare().cpu_ms)
        for name, command in programs.items():
            costs[name].append(started(command, query))
    print(f"\n## Starting over stdio, medians of {runs}")
    _head(
        "program",
        "CPU ms to `initialize`",
        "times",
        "MiB",
        "CPU ms to the first search answer",
        "times",
        "MiB",
    )
    _row("`python -c pass`", _ms(statistics.median(idle)), "", "", "", "", "")
    ours = [
        statistics.median(cost[at].cpu_ms for cost in costs["`recollect mcp`"]) for at in (0, 1)
    ]
    for name, measured in costs.items():
        cells = []
        for at in (0, 1):
            spent = statistics.median(cost[at].cpu_ms for cost in measured)
            held = statistics.median(cost[at].rss_mib for cost in measured)
            cells += [_ms(spent), f"{spent / ours[at]:.1f}", f"{held:.0f}"]
        _row(name, *cells)


# -- over HTTP -------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """One connection of HTTP/1.1 to an MCP server, in one of the eras. As lean as can be: it shares two cores with the
    server that is measured."""

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
        found = re.search(rb"mcp-session-id: (\S+)", head, re.IGNORECASE)
        assert status == 200 and found, (status, body[:300])
        self.session = found[1].decode()
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def search(self, query: str) -> str | None:
        """What was wrong with the answer, if anything."""
        self.number += 1
        status, _, body = await self.post(search(query, self.number, self.version))
        refused = b'"isError":true' in body or b'"isError": true' in body
        if status == 200 and b'"content"' in body and refused == (not query):
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
        told = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
            **({"Authorization": f"Bearer {self.key}"} if self.key else {}),
            **headers,
        }
        lines = "".join([f"{name}: {value}\r\n" for name, value in told.items()])
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(f"{method} /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        head, body = await self._answer
        return int(head[9:12]), head, body

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, body = self._received.partition(b"\r\n\r\n")
        if not ended:
            return
        length = _LENGTH.search(head)
        if len(body) == int(length[1]) if length else (ended + body).endswith(b"\r\n0\r\n\r\n"):
            self._received = b""
            assert self._answer is not None
            self._answer.set_result((head, body if length else _unchunked(body)))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    async def close(self) -> None:
        self._transport.close()


def _unchunked(body: bytes) -> bytes:
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
        _until_open(port, process)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:  # the SDK's waits for its open streams
            process.kill()
            process.wait(15)


def ours(home: Path, port: int) -> list[str]:
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


async def asking(connections: list[Connection], seconds: float, questions: list[str]) -> Load:
    load = Load(seconds=seconds)
    for connection in connections:
        await connection.open()
    began = time.perf_counter() + WARMING
    end = began + seconds

    async def one(connection: Connection, seed: int) -> None:
        rng = random.Random(seed)
        while (asked := time.perf_counter()) < end:
            wrong = await connection.search(rng.choice(questions))
            if wrong is not None:
                load.failed[wrong] += 1
            if asked >= began:
                load.walls.append(time.perf_counter() - asked)
        await connection.close()

    await asyncio.gather(*(one(connection, seed) for seed, connection in enumerate(connections)))
    return load


def _questions(kind: str = "rare word") -> list[str]:
    return [" ".join(asked.words) for asked in corpus.many_queries(60, 0)[kind]]


def show_calls(folder: Path, messages: int, seconds: float) -> None:
    home = library_of(folder, messages)
    print(
        f"\n## Calls over Streamable HTTP, {CLIENTS} connections, {seconds:g} s each, {messages:,} messages"
    )
    _head(
        "call",
        "era",
        "server",
        "calls / s",
        "Recollect is",
        "p50 ms",
        "p99 ms",
        "failed",
        "server CPU ms a call",
        "clients' CPU",
        "MiB",
    )
    json_answers = {"lowlevel-json": "official SDK, lowlevel, JSON answers"}
    works: list[tuple[str, list[str], dict[str, str]]] = [
        ("refused by the tool", [""], SDK | json_answers),
        (
            "search",
            _questions(),
            SDK | json_answers | {"lowlevel-like": "official SDK, lowlevel, LIKE scan"},
        ),
    ]
    for work, questions, others in works:
        for era in (HANDSHAKE, STATELESS):
            best = math.nan
            for kind, name in {"": OURS, **others}.items():
                port = free_port()
                command = [sys.executable, "-m", "bench.plain_mcp", kind, str(home), str(port)]
                with running(command if kind else ours(home, port), port) as pid:
                    before, own = cpu(pid), time.process_time()
                    load = uvloop.run(
                        asking([Connection(port, era) for _ in range(CLIENTS)], seconds, questions)
                    )
                    spent, own, held = cpu(pid) - before, time.process_time() - own, memory(pid)
                rate = len(load.walls) / load.seconds
                best = best if kind else rate
                each = spent * 1000 / max(len(load.walls), 1) * seconds / (seconds + WARMING)
                times = f"{best / rate:.1f} times" if kind and rate else ""
                _row(
                    work,
                    era,
                    name,
                    f"{rate:,.0f}",
                    times,
                    _ms(load.at(50)),
                    _ms(load.at(99)),
                    load.failed.total(),
                    f"{each:.2f}",
                    f"{own / (seconds + WARMING):.0%}",
                    f"{held:.0f}",
                )
                _tell(load.failed)


def _tell(failed: Counter[str]) -> None:
    for what, count in failed.most_common(3):
        print(f"\nFailed {count} times: {what}\n")


# -- what is kept ----------------------------------------------------------------------------


async def sessions(port: int, key: str, number: int, *, end: bool) -> None:
    async def some(count: int) -> None:
        connection = Connection(port, HANDSHAKE, key)
        await connection.open()
        for _ in range(count):
            connection.session = ""
            await connection.begin()
            if end:
                await connection.send("DELETE", b"", {"Mcp-Session-Id": connection.session})
        await connection.close()

    await asyncio.gather(*(some(number // 8) for _ in range(8)))


REFUSED: list[tuple[int, bytes, dict[str, str]]] = [
    (403, b"{}", {"Origin": "https://evil.example"}),
    (421, b"{}", {"Host": "evil.example"}),
    (400, b'{"jsonrpc": "2.0", "id": 1, "method', {}),
    (404, json.dumps(search("x", 1)).encode(), {"Mcp-Session-Id": "0123456789abcdef"}),
    (401, json.dumps(search("x", 1)).encode(), {"Authorization": "Bearer rk_000000000000_nobody"}),
    (415, b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}),
]
"""Requests that are turned away, each at another door, with the status that says so; 429 where they come too fast."""


async def refusals(port: int, key: str, number: int) -> Counter[str]:
    seen: Counter[str] = Counter()

    async def some(count: int, first: int) -> None:
        connection = Connection(port, STATELESS, key)
        await connection.open()
        for at in range(first, first + count):
            wanted, body, headers = REFUSED[at % len(REFUSED)]
            # Each is another one, as a stranger would try them: what is kept of them would add up.
            headers = {
                name: value.replace("evil", f"evil{at}").replace("0000", f"{at:04}")
                for name, value in headers.items()
            }
            status, head, _ = await connection.send("POST", body, headers)
            seen["as wanted" if status in (wanted, 429) else f"{status} instead of {wanted}"] += 1
            if b"connection: close" in head.lower():
                await connection.close()
                await connection.open()
        await connection.close()

    await asyncio.gather(*(some(number // 8, number // 8 * part) for part in range(8)))
    return seen


def show_memory(home: Path, number: int) -> None:
    print(f"\n## Memory of a server that wants a key, {number:,} each")
    port = free_port()
    add = [sys.executable, "-m", "recollect", "keys", "add", "bench", "--home", str(home), "--json"]
    key = json.loads(subprocess.run(add, check=True, capture_output=True).stdout)["key"]
    with running(ours(home, port), port) as pid:
        _head("after", "MiB", "more", "s")
        held = 0.0

        def told(what: str, work: Callable[[], Any]) -> Any:
            nonlocal held
            began = time.perf_counter()
            result = work()
            before, held = held, memory(pid)
            _row(
                what,
                f"{held:.1f}",
                f"{held - before:+.1f}" if before else "",
                f"{time.perf_counter() - began:.0f}",
            )
            return result

        few = number // 5

        def warm() -> None:
            uvloop.run(sessions(port, key, few, end=True))
            uvloop.run(refusals(port, key, few))

        told(f"{few:,} sessions begun and ended, and as many refusals", warm)
        told("sessions begun and left", lambda: uvloop.run(sessions(port, key, number, end=False)))
        seen = told("refused requests", lambda: uvloop.run(refusals(port, key, number)))
        told("refused requests, again", lambda: uvloop.run(refusals(port, key, number)))
    print(f"\nRefused: {dict(seen)}")


# -- many agents -----------------------------------------------------------------------------


def show_agents(folder: Path, messages: int, seconds: float) -> None:
    home = library_of(folder, messages)
    print(
        f"\n## {AGENTS} agents searching {messages:,} messages over HTTP, {seconds:g} s, half of them in each era"
    )
    _head("agents", "searches / s", "p50 ms", "p99 ms", "max ms", "errors", "server MiB")
    port = free_port()
    with running(ours(home, port), port) as pid:
        connections = [Connection(port, (HANDSHAKE, STATELESS)[n % 2]) for n in range(AGENTS)]
        load = uvloop.run(asking(connections, seconds, _questions("question")))
        _row(
            AGENTS,
            f"{len(load.walls) / seconds:,.0f}",
            _ms(load.at(50)),
            _ms(load.at(99)),
            _ms(load.at(100)),
            load.failed.total(),
            f"{memory(pid):.0f}",
        )
    _tell(load.failed)


# -- tokens ----------------------------------------------------------------------------------


def show_tokens() -> None:
    print(
        "\n## What the list of tools costs a model\n\nFour characters a token; OpenAI's o200k makes 7 % fewer of them."
    )
    _head("profile", "tools", "characters", "tokens")
    for profile in ("default", "research", "letta"):
        listing = Catalog(profile).listing()
        length = len(json.dumps(listing, separators=(",", ":"), ensure_ascii=False))
        _row(profile, len(listing), f"{length:,}", f"{length / 4:,.0f}")


def main(given: argparse.Namespace) -> None:
    os.environ["RECOLLECT_INDEXING"] = "manual"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with folder_for(None) as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        small = library_of(folder, 1_000)
        parts = {
            "start": lambda: show_starting(small, given.runs),
            "calls": lambda: show_calls(folder, given.messages, given.seconds),
            "memory": lambda: show_memory(library_of(folder, 100), given.requests),
            "agents": lambda: show_agents(folder, given.messages, given.seconds),
            "tokens": show_tokens,
        }
        for part in given.only or parts:
            parts[part]()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="MCP, beside the official SDK.")
    parser.add_argument("--runs", type=int, default=7, help="of every program that is started")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument(
        "--messages", type=int, default=20_000, help="in the library that is searched over HTTP"
    )
    parser.add_argument(
        "--requests", type=int, default=10_000, help="sessions, and refused requests"
    )
    parser.add_argument(
        "--only", action="append", choices=("start", "calls", "memory", "agents", "tokens")
    )
    main(parser.parse_args())
