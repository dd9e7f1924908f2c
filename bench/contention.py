"""Writers and readers on one library: how long a write takes, and whether anything is lost.

    python -m bench.contention --seconds 600

Eight writers append messages, half of them to new conversations all the time and half to one long
conversation each. Sixteen readers search and list. The texts and queries are those of bench.corpus.
They are threads of several processes, each of which has a background thread that seals, embeds and
observes. Every acknowledged message must be in the library at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import recollect
from bench import corpus

MESSAGES_PER_WRITER = 1_000_000
_WRITE_PAUSE = 0.02
_READ_PAUSE = 0.05


@dataclass
class Latencies:
    """What the threads of one process have measured, in seconds."""

    acknowledged: list[str] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def write(library: recollect.Library, number: int, end: float, latencies: Latencies) -> None:
    """Append messages. Every other writer stays in one conversation, as a long session does."""
    generator = random.Random(number)
    stays = number % 2 == 0
    conversation = ""
    for count, chat in enumerate(corpus.chats(MESSAGES_PER_WRITER, number)):
        if not stays or not conversation:
            conversation = f"writer-{number}-{count}"
            library.add_conversation(conversation, chat.title)
        for turn in chat.turns:
            if time.monotonic() >= end:
                return
            start = time.monotonic()
            try:
                library.add_message(conversation, turn.role, turn.text, id=turn.id)
            except recollect.RecollectError as error:
                latencies.errors.append(f"write: {error}")
            else:
                latencies.acknowledged.append(turn.id)
                latencies.writes.append(time.monotonic() - start)
            time.sleep(_WRITE_PAUSE * generator.uniform(0.5, 1.5))


@cache
def sample_queries() -> list[str]:
    """Questions, words, phrases and prefixes in equal parts."""
    kinds = corpus.many_queries(40).values()
    return [" ".join(query.words) for queries in kinds for query in queries]


def read(library: recollect.Library, number: int, end: float, latencies: Latencies) -> None:
    queries = sample_queries()
    generator = random.Random(number)
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            if generator.random() < 0.5:
                library.search(generator.choice(queries))
            else:
                library.conversation_page(limit=20)
        except recollect.RecollectError as error:
            latencies.errors.append(f"read: {error}")
        else:
            latencies.reads.append(time.monotonic() - start)
        time.sleep(_READ_PAUSE * generator.uniform(0.5, 1.5))


def work(home: str, number: int, writers: int, readers: int, seconds: float) -> None:
    """One process. It prints what it measured as JSON."""
    latencies = Latencies()
    sample_queries()  # not part of the time
    with recollect.open(home, background=True) as library:
        end = time.monotonic() + seconds
        jobs = [(write, number * writers + n) for n in range(writers)]
        jobs += [(read, number * readers + n) for n in range(readers)]
        threads = [
            threading.Thread(target=job, args=(library, each, end, latencies)) for job, each in jobs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    json.dump(vars(latencies), sys.stdout)


def measure(
    home: Path, seconds: float, processes: int, writers: int, readers: int
) -> dict[str, Any]:
    """Run all processes and count what is in the library afterwards."""
    recollect.open(home, background=False).close()
    command = [sys.executable, "-m", "bench.contention", "--home", str(home)]
    command += ["--seconds", str(seconds), "--worker"]
    children = []
    for number in range(processes):
        shares = [_share(writers, processes, number), _share(readers, processes, number)]
        child = subprocess.Popen([*command, str(number), *map(str, shares)], stdout=subprocess.PIPE)
        children.append(child)
    total = Latencies()
    for child in children:
        output, _ = child.communicate()
        if child.returncode:
            raise SystemExit(f"A process ended with status {child.returncode}.")
        for name, values in json.loads(output).items():
            getattr(total, name).extend(values)
    return report(home, total)


def _share(count: int, processes: int, number: int) -> int:
    return count // processes + (number < count % processes)


def report(home: Path, latencies: Latencies) -> dict[str, Any]:
    with recollect.open(home, background=False) as library:
        stored = {passage.id for document in library.documents() for passage in document.passages}
    lost = set(latencies.acknowledged) - stored
    return {
        "acknowledged": len(latencies.acknowledged),
        "lost": len(lost),
        "errors": len(latencies.errors),
        "first_error": next(iter(latencies.errors), ""),
        "write_ms": _percentiles(latencies.writes),
        "read_ms": _percentiles(latencies.reads),
        "load_average": round(os.getloadavg()[0], 1),
    }


def _percentiles(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ordered = sorted(seconds)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(1000 * ordered[min(int(len(ordered) * share), len(ordered) - 1)], 1)
        for name, share in shares.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=16)
    parser.add_argument("--home", help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        number, writers, readers = arguments.worker
        work(arguments.home, number, writers, readers, arguments.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(
            Path(folder) / "home",
            arguments.seconds,
            arguments.processes,
            arguments.writers,
            arguments.readers,
        )
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
