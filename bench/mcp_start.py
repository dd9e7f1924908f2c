"""Benchmark the start of an MCP server: CPU and memory until it answers `initialize`.

    python -m bench.mcp_start [RUNS]

Three programs take turns, so that a busy machine affects all of them equally: Python that does
nothing, `recollect mcp`, and a stdio server on the official SDK with the same tool. Prints a
Markdown table of medians. Linux only.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

OFFICIAL = """
import anyio, mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from recollect.serve.mcp.tools.conversations.definitions import CONVERSATION_SEARCH as tool

async def list_tools(context, params):
    search = types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.input_schema
    )
    return types.ListToolsResult(tools=[search])

async def call_tool(context, params):
    text = types.TextContent(type="text", text="No matching messages.")
    return types.CallToolResult(content=[text])

async def main():
    server = Server("official", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""
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


class Cost(NamedTuple):
    cpu_ms: float
    rss_mib: float


def bare() -> Cost:
    """Python that starts and exits. Its memory cannot be read after it has exited."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost((usage.ru_utime + usage.ru_stime) * 1000, math.nan)


def server(command: list[str]) -> Cost:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        assert b'"serverInfo"' in process.stdout.readline()
        cost = process_cost(Path(f"/proc/{process.pid}"))
        process.stdin.close()
    return cost


def process_cost(process: Path) -> Cost:
    nanoseconds = sum(int(path.read_text().split()[0]) for path in process.glob("task/*/schedstat"))
    highest = next(
        line for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return Cost(nanoseconds / 1e6, int(highest.split()[1]) / 1024)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as home:
        programs = {
            "`python -c pass`": bare,
            "`recollect mcp`": lambda: server(
                [sys.executable, "-m", "recollect", "mcp", "--home", home]
            ),
            "official SDK, one tool": lambda: server([sys.executable, "-c", OFFICIAL]),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in programs}
        for _ in range(runs):
            for name, run in programs.items():
                costs[name].append(run())
    print(
        f"| until `initialize` is answered, median of {runs} "
        "| CPU ms | more than bare | RSS MiB |\n|---|---|---|---|"
    )
    idle = statistics.median(cost.cpu_ms for cost in costs["`python -c pass`"])
    for name, program_costs in costs.items():
        cpu = statistics.median(cost.cpu_ms for cost in program_costs)
        rss = statistics.median(cost.rss_mib for cost in program_costs)
        memory = f"{rss:.0f}"
        if math.isnan(rss):
            memory = "–"
        print(f"| {name} | {cpu:.0f} | {cpu - idle:.0f} | {memory} |")


if __name__ == "__main__":
    main()
