"""Benchmark what people wait for: the start of commands and of the server, and large libraries.

    python -m bench.startup [--runs 7] [--messages 1000000] [--long 200000] [--keep FOLDER]

Three parts, all in CPU milliseconds, medians:

- The start of a command, and of the server until it has answered one request, on a library of
  10,000 messages with vectors. `python -c "import numpy"` is measured in between: a search by
  meaning cannot start faster.
- One conversation of 200,000 messages: a page at its beginning and a page near its end.
- `stats` and `activity` of a library of 1,000,000 messages.

`--keep` reuses what it has built. Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import recollect
from bench import corpus
from recollect.knowledge.retrieval import Retrieval
from recollect.model.documents import Document, Passage, arrange

SMALL = 10_000
BATCH = 10_000


# -- libraries -----------------------------------------------------------------


def build(home: Path, documents: Iterable[Document], *, with_vectors: bool = False) -> Path:
    if home.exists():
        return home
    with recollect.open(home, background=False) as library:
        batch: list[Document] = []
        for document in documents:
            batch.append(document)
            if sum(len(d.passages) for d in batch) >= BATCH:
                library._store.save(batch)
                batch = []
        library._store.save(batch)
        if with_vectors:
            library.index()
    return home


def long_conversation(messages: int) -> Iterator[Document]:
    """One conversation in which every message replies to the one before it."""
    rng = Random(1)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    passages = []
    parent = None
    for number in range(messages):
        text = corpus._prose(rng, rng.randint(5, 60))
        role = ("user", "assistant")[number % 2]
        at = start + timedelta(minutes=number)
        passages.append(Passage(f"m{number}", role, text, parent=parent, created_at=at))
        parent = f"m{number}"
    yield arrange(Document("bench", "long", "A long conversation", passages=tuple(passages)))


# -- measuring -----------------------------------------------------------------


class Cost(NamedTuple):
    cpu_ms: float
    rss_mib: float


def bare() -> Cost:
    """Python that starts and exits. Its memory cannot be read after it has exited."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost((usage.ru_utime + usage.ru_stime) * 1000, math.nan)


def process_cost(process: Path) -> Cost:
    nanoseconds = sum(int(path.read_text().split()[0]) for path in process.glob("task/*/schedstat"))
    highest = next(
        line for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return Cost(nanoseconds / 1e6, int(highest.split()[1]) / 1024)


def command_cost(arguments: list[str]) -> float:
    """The CPU milliseconds of a Python process from its start to its end."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return (usage.ru_utime + usage.ru_stime) * 1000


def server_cost(home: Path, path: str) -> float:
    """The CPU milliseconds of a server from its start until it has answered one request."""
    command = [sys.executable, "-m", "recollect", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--home", str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        address = json.loads(process.stdout.readline())["address"]
        with urllib.request.urlopen(address + path) as response:
            response.read()
        cost = process_cost(Path(f"/proc/{process.pid}")).cpu_ms
        process.send_signal(signal.SIGTERM)
    return cost


def call_cost(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1000


def medians(measures: dict[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """Everything takes turns, so that a busy machine affects all of it equally."""
    costs: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(runs):
        for name, measure in measures.items():
            costs[name].append(measure())
    return {name: statistics.median(some) for name, some in costs.items()}


def show(title: str, costs: dict[str, float]) -> None:
    print(f"\n| {title} | CPU ms |\n|---|---|")
    for name, cost in costs.items():
        digits = 1 if cost < 10 else 0
        print(f"| {name} | {cost:,.{digits}f} |")


# -- the parts -----------------------------------------------------------------


def starting(home: Path, runs: int) -> dict[str, float]:
    def run(*arguments: str) -> Callable[[], float]:
        return lambda: command_cost(["-m", "recollect", *arguments])

    place = ["--home", str(home)]
    return medians(
        {
            "`python -c pass`": lambda: command_cost(["-c", "pass"]),
            '`python -c "import numpy"`': lambda: command_cost(["-c", "import numpy"]),
            "`recollect --version`": run("--version"),
            "`recollect --help`": run("--help"),
            "`recollect search word`": run("search", "database", *place),
            "`recollect serve` until `/conversations` is answered": lambda: server_cost(
                home, "/conversations"
            ),
            "`recollect serve` until the console is answered": lambda: server_cost(home, "/"),
        },
        runs,
    )


def reading(home: Path, messages: int, runs: int) -> dict[str, float]:
    last = messages - 50
    middle = f"m{messages // 2}"
    place = ["--home", str(home)]
    command = ["-m", "recollect", "read", "long", *place]
    retrieval = Retrieval(mode="chunk_with_siblings", loc={"message_id": middle})
    with recollect.open(home, background=False) as library:
        calls: dict[str, Callable[[], object]] = {
            "a page of messages, first": lambda: library.messages("long"),
            "a page of messages, last": lambda: library.messages("long", last),
            "a view (console, MCP resources), first": lambda: library.view("long"),
            "a view, last": lambda: library.view("long", start=last),
            "a view around a message": lambda: library.view("long", around=middle),
            "knowledge: a message with its siblings": lambda: library.knowledge.get(
                "chats", "long", retrieval
            ),
        }
        measures: dict[str, Callable[[], float]] = {
            name: lambda call=call: call_cost(call) for name, call in calls.items()
        }
        measures["`recollect read`, first page"] = lambda: command_cost(command)
        measures["`recollect read`, last page"] = lambda: command_cost(
            [*command, "--offset", str(last)]
        )
        return medians(measures, runs)


def counting(home: Path, runs: int) -> dict[str, float]:
    with recollect.open(home, background=False) as library:
        return medians(
            {
                "stats": lambda: call_cost(library.stats),
                "activity": lambda: call_cost(library.activity),
            },
            runs,
        )


def main(arguments: argparse.Namespace, folder: Path) -> None:
    runs = arguments.runs
    home = build(folder / "small", corpus.documents(SMALL), with_vectors=True)
    show(f"starting, {SMALL:,} messages", starting(home, runs))
    home = build(folder / "long", long_conversation(arguments.long))
    show(f"a conversation of {arguments.long:,} messages", reading(home, arguments.long, runs))
    home = build(folder / "large", corpus.documents(arguments.messages))
    show(f"a library of {arguments.messages:,} messages", counting(home, runs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--long", type=int, default=200_000)
    parser.add_argument("--keep", type=Path, help="a folder to reuse")
    options = parser.parse_args()
    os.environ["RECOLLECT_INDEXING"] = "manual"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode
    with tempfile.TemporaryDirectory() as temporary:
        main(options, options.keep or Path(temporary))
