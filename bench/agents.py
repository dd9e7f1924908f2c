"""Many agents at once for a long time: errors, response times, memory and open files.

    python -m bench.agents [--agents N] [--seconds S] [--messages N] [--keep FOLDER]

Each agent has its own MCP session over Streamable HTTP. It works like a real one: it calls a tool,
thinks for a few seconds, and calls the next. Of 100 calls, 60 search, 20 read around a hit, 10 list
recent conversations and 10 save a note. The server embeds the new notes in the background. Its
memory and open files are sampled every second; the slope is that of a straight line through the
samples after the first fifth of the run. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench import corpus
from bench.mcp import HANDSHAKE, Connection, library_of
from bench.service import Load, cpu, free_port, memory, print_failures, running
from bench.speed import folder_for, format_ms, table_head, table_row

THINKING = (1.0, 5.0)
"""How long an agent waits between two calls, in seconds."""
CALLS = {"recall_search": 60, "recall_read": 20, "recall_recent": 10, "recall_note": 10}
_HEADING = re.compile(r"^\W*\[(\S{4,})\] ", re.MULTILINE)
"""The line above the hits of a conversation begins with its short id."""


@dataclass
class Agent:
    """One agent: its session, and the ids that its last search returned."""

    connection: Connection
    rng: random.Random
    questions: Sequence[str]
    ids: list[str] = field(default_factory=list)

    def next_call(self) -> tuple[str, dict[str, Any]]:
        name = self.rng.choices(list(CALLS), list(CALLS.values()))[0]
        question = self.rng.choice(self.questions)
        if name == "recall_read" and self.ids:
            return name, {"id": self.rng.choice(self.ids)}
        if name == "recall_recent":
            return name, {}
        if name == "recall_note":
            return name, {"title": question[:40], "text": f"Remember: {question}"}
        return "recall_search", {"query": question}

    async def call(self, name: str, arguments: dict[str, Any]) -> str | None:
        """Call a tool. Returns the error, if there is one."""
        self.connection.number += 1
        params = {"name": name, "arguments": arguments}
        status, _, body = await self.connection.post(
            {
                "jsonrpc": "2.0",
                "id": self.connection.number,
                "method": "tools/call",
                "params": params,
            }
        )
        if status != 200:
            return f"{name} {status} {body[:200].decode(errors='replace')}"
        result = orjson.loads(_last_event(body)).get("result", {})
        if result.get("isError") or not result.get("content"):
            return f"{name} {body[:200].decode(errors='replace')}"
        if name == "recall_search":
            self.ids = _HEADING.findall(result["content"][0]["text"])
        return None


def _last_event(body: bytes) -> bytes:
    """The JSON of a response. A slow call is answered as a stream of events, the result last."""
    if body.startswith(b"{"):
        return body
    prefix = b"data: "  # a result may contain these words as well
    events = [line for line in body.splitlines() if line.startswith(prefix)]
    return events[-1].removeprefix(prefix)


@dataclass
class Samples:
    """The memory and open files of the server over time."""

    seconds: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def add(self, moment: float, pid: int) -> None:
        self.seconds.append(moment)
        self.mib.append(memory(pid))
        self.files.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))

    def mib_per_hour(self) -> float:
        """The slope of the memory, without the first fifth of the run."""
        first = len(self.seconds) // 5
        slope, _ = np.polyfit(self.seconds[first:], self.mib[first:], 1)
        return float(slope) * 3600


async def work(agent: Agent, end: float, loads: dict[str, Load]) -> None:
    await agent.connection.open()
    while time.perf_counter() < end:
        await asyncio.sleep(agent.rng.uniform(*THINKING))
        name, arguments = agent.next_call()
        start = time.perf_counter()
        error = await agent.call(name, arguments)
        loads[name].walls.append(time.perf_counter() - start)
        if error is not None:
            loads[name].failures[error] += 1
    await agent.connection.close()


async def watch(pid: int, start: float, end: float, samples: Samples) -> None:
    while time.perf_counter() < end:
        samples.add(time.perf_counter() - start, pid)
        await asyncio.sleep(1)


async def run(port: int, pid: int, agents: int, seconds: float) -> tuple[dict[str, Load], Samples]:
    questions = [" ".join(query.words) for query in corpus.many_queries(400, 0)["question"]]
    loads: dict[str, Load] = defaultdict(Load)
    samples = Samples()
    start = time.perf_counter()
    end = start + seconds
    team = [
        Agent(Connection(port, HANDSHAKE), random.Random(number), questions)
        for number in range(agents)
    ]
    await asyncio.gather(
        watch(pid, start, end, samples), *(work(agent, end, loads) for agent in team)
    )
    return loads, samples


def show(loads: dict[str, Load], samples: Samples) -> None:
    table_head("call", "calls", "p50 ms", "p99 ms", "max ms", "failed")
    everything = Load()
    for name, load in sorted(loads.items()):
        everything.walls += load.walls
        everything.failures += load.failures
        _show_load(name, load)
    _show_load("all", everything)
    print_failures(everything.failures)
    first = len(samples.mib) // 5
    print(
        f"\nMemory: {samples.mib[first]:.0f} MiB after a fifth, {samples.mib[-1]:.0f} MiB at the "
        f"end, at most {max(samples.mib):.0f} MiB, slope {samples.mib_per_hour():+.1f} MiB per "
        f"hour. Open files: at most {max(samples.files)}, {samples.files[-1]} at the end."
    )


def _show_load(name: str, load: Load) -> None:
    table_row(
        name,
        len(load.walls),
        format_ms(load.at(50)),
        format_ms(load.at(99)),
        format_ms(load.at(100)),
        load.failures.total(),
    )


def main(agents: int, seconds: float, messages: int, keep: Path | None) -> None:
    with folder_for(keep) as folder:
        os.environ["RECOLLECT_INDEXING"] = "manual"
        home = library_of(folder, messages)
        port = free_port()
        program = [sys.executable, "-m", "recollect", "--home", str(home), "serve"]
        command = [*program, "--rate-limit", "0", "--port", str(port)]
        with running(command, port, {"RECOLLECT_INDEXING": "background"}) as process:
            before = cpu(process.pid)
            print(f"\n## {agents} agents for {seconds:g} s on {messages:,} messages\n")
            loads, samples = asyncio.run(run(port, process.pid, agents, seconds))
            show(loads, samples)
            print(f"CPU of the server: {cpu(process.pid) - before:.0f} s.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Many agents at once, for a long time.")
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="build the library here, or reuse it"
    )
    arguments = parser.parse_args()
    main(arguments.agents, arguments.seconds, arguments.messages, arguments.keep)
