"""Load test of the REST API: 32 clients on a library of 100,000 messages, over loopback.

    python -m bench.service [--messages N] [--clients N] [--seconds S] [--keep FOLDER]

The workloads are search, list, append and a mix of the three. Each runs for some seconds in a
closed loop: a client sends its next request as soon as it has the response. One after the other, in
the same run: Recollect on SQLite, Recollect on PostgreSQL, and a minimal FastAPI service on one
SQLite file with FTS5 (bench/plain_service.py). The server is one process; all clients share another
process on the same machine. Any response without a 2xx status counts as failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

import recollect
from bench import corpus, plain_service
from bench.server import Server
from bench.speed import folder_for, format_ms, table_head, table_row

KINDS = ("search", "list", "append", "mixed: 80 % search, 15 % append, 5 % list")
WARMUP = 2.0  # seconds that are not counted


# -- the data ------------------------------------------------------------------------------


def build(place: str | Path, messages: int) -> None:
    with recollect.open(place, "bench", background=False) as library:
        if library.conversation_page(limit=1)[1]:
            return
        batch: list[recollect.Document] = []
        for document in corpus.documents(messages):
            batch.append(document)
            if len(batch) == 200:
                library._store.save(batch)
                batch = []
        library._store.save(batch)
        library.index()


def build_plain(path: Path, messages: int) -> None:
    if path.exists():
        return
    with sqlite3.connect(path) as db:
        db.executescript(plain_service.SCHEMA)
        for document in corpus.documents(messages):
            at = document.updated_at.timestamp() if document.updated_at else 0.0
            db.execute(
                "insert into conversation values (?, ?, ?, ?)",
                [document.source_id, document.title, at, len(document.passages)],
            )
            db.executemany(
                "insert into message (id, conversation, role, content, at) values (?, ?, ?, ?, ?)",
                [(p.id, document.source_id, p.role, p.content, at) for p in document.passages],
            )
        db.execute("insert into words (words) values ('rebuild')")
    db.close()


# -- servers ---------------------------------------------------------------------------------


@contextmanager
def running(
    command: list[str], port: int, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_open(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the server did not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cpu(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    ticks = stat.read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    match = re.search(r"VmRSS:\s+(\d+)", status.read_text())
    if not match:
        return 0.0
    return int(match[1]) / 1024


# -- clients ---------------------------------------------------------------------------------


@dataclass
class Api:
    """The request lines of one service."""

    name: str
    search: Callable[[str], str]
    list_: Callable[[int], str]
    append: Callable[[str], str]
    conversations: list[str] = field(default_factory=list)


RECOLLECT = Api(
    "Recollect",
    search=lambda q: f"GET /api/v1/search?q={quote(q)}&mode=text HTTP/1.1\r\n",
    list_=lambda offset: f"GET /conversations?limit=50&offset={offset} HTTP/1.1\r\n",
    append=lambda id_: f"POST /conversations/{quote(id_, safe='')}/messages HTTP/1.1\r\n",
)
PLAIN = Api(
    "plain FastAPI with FTS5",
    search=lambda q: f"GET /search?q={quote(q)} HTTP/1.1\r\n",
    list_=lambda offset: f"GET /conversations?offset={offset} HTTP/1.1\r\n",
    append=lambda id_: f"POST /conversations/{quote(id_, safe='')}/messages HTTP/1.1\r\n",
)


@dataclass
class Load:
    """Response times and failures of one run."""

    walls: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def at(self, percent: float) -> float:
        """A percentile of the response times, in milliseconds."""
        if not self.walls:
            return 0.0
        sorted_walls = sorted(self.walls)
        return sorted_walls[round(percent / 100 * (len(sorted_walls) - 1))] * 1000


def print_failures(failures: Counter[str]) -> None:
    for error, count in failures.most_common(3):
        print(f"\nFailed {count} times: {error}\n")


@cache
def samples() -> tuple[list[str], list[str]]:
    """Questions to search for, and texts to append."""
    questions = [" ".join(query.words) for query in corpus.many_queries(400, 0)["question"]]
    return questions, [turn.text for turn in corpus.messages(300, 7)]


def requests(api: Api, kind: str, seed: int) -> Iterator[bytes]:
    rng = random.Random(f"{kind} {seed}")
    questions, texts = samples()
    while True:
        action = kind
        if kind not in KINDS[:3]:
            action = rng.choices(("search", "append", "list"), (80, 15, 5))[0]
        body = b""
        if action == "search":
            line = api.search(rng.choice(questions))
        elif action == "list":
            line = api.list_(rng.randrange(0, max(1, len(api.conversations) - 50)))
        else:
            line = api.append(rng.choice(api.conversations))
            body = json.dumps({"role": "user", "content": rng.choice(texts)}).encode()
        head = (
            f"{line}Host: 127.0.0.1:{{port}}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body


async def client(
    api: Api, kind: str, seed: int, port: int, start: float, end: float, load: Load
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in requests(api, kind, seed):
        sent_at = time.perf_counter()
        if sent_at >= end:
            break
        writer.write(request.replace(b"{port}", str(port).encode(), 1))
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1])) if length else b""
        if sent_at >= start:
            load.walls.append(time.perf_counter() - sent_at)
            status = head.split(b" ", 2)[1].decode()
            if not status.startswith("2"):
                load.failures[f"{status} {body[:120].decode(errors='replace')}"] += 1
    writer.close()
    await writer.wait_closed()


async def run_clients(api: Api, kind: str, port: int, clients: int, seconds: float) -> Load:
    load = Load(seconds=seconds)
    start = time.perf_counter() + WARMUP
    await asyncio.gather(
        *(client(api, kind, n, port, start, start + seconds, load) for n in range(clients))
    )
    return load


# -- the whole run ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    clients: int
    seconds: float


@dataclass(frozen=True)
class Service:
    """A server program and the requests it understands."""

    name: str
    api: Api
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def recollect_service(name: str, home: str) -> Service:
    program = [sys.executable, "-m", "recollect", "--home", home, "--user", "bench"]
    serve = [*program, "serve", "--rate-limit", "0", "--port"]
    return Service(name, RECOLLECT, serve, {"RECOLLECT_INDEXING": "background"})


def show(service: Service, workload: Workload) -> None:
    """Run every kind of request on a fresh server. The port is the last argument of the command."""
    for kind in KINDS:
        port = free_port()
        with running([*service.command, str(port)], port, service.environment) as process:
            before = cpu(process.pid)
            load = asyncio.run(
                run_clients(service.api, kind, port, workload.clients, workload.seconds)
            )
            cpu_time = cpu(process.pid) - before
            table_row(
                kind,
                service.name,
                f"{len(load.walls) / load.seconds:,.0f}",
                format_ms(load.at(50)),
                format_ms(load.at(99)),
                format_ms(load.at(100)),
                load.failures.total(),
                f"{cpu_time * 1000 / max(len(load.walls), 1):.1f}",
                f"{memory(process.pid):.0f}",
            )
        print_failures(load.failures)


def main(messages: int, workload: Workload, keep: Path | None) -> None:
    os.environ["RECOLLECT_INDEXING"] = "manual"
    with folder_for(keep) as folder:
        within = folder / f"service-{messages}"
        within.mkdir(parents=True, exist_ok=True)
        home, plain = within / "home", within / "plain.db"
        build(home, messages)
        build_plain(plain, messages)
        with Server(within / "postgres") as server:
            url = server.database("service")
            build(url, messages)
            samples()  # generates the texts before the clock runs
            conversations = [document.source_id for document in corpus.documents(messages)]
            RECOLLECT.conversations = PLAIN.conversations = conversations
            plain_command = [sys.executable, "-m", "bench.plain_service", str(plain)]
            show_header(messages, workload)
            show(recollect_service("Recollect, SQLite", str(home)), workload)
            show(recollect_service("Recollect, PostgreSQL", url), workload)
            show(Service(PLAIN.name, PLAIN, plain_command), workload)


def show_header(messages: int, workload: Workload) -> None:
    print(
        f"\n## {workload.clients} clients on {messages:,} messages, {workload.seconds:g} s each\n"
    )
    table_head(
        "requests",
        "service",
        "requests / s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "failed",
        "server CPU ms per request",
        "server MiB",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Load test of the REST API.")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="build the libraries here, or reuse them"
    )
    arguments = parser.parse_args()
    main(arguments.messages, Workload(arguments.clients, arguments.seconds), arguments.keep)
