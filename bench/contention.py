"""Writers and readers on one library: how long a write takes, and whether anything is lost.

    python -m bench.contention --seconds 600

Eight writers append messages to conversations of their own, sixteen readers search and read. They
are threads of several processes, each of which has a background thread that seals, embeds and
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
from pathlib import Path
from typing import Any

import recollect

WORDS = (
    *("harbour", "crane", "sail", "tide", "anchor", "rope", "mast", "deck", "compass", "chart"),
    *("pilot", "ferry", "lighthouse", "storm", "captain", "cargo", "engine", "voyage", "island"),
    *("channel", "buoy", "signal", "wharf", "hull", "keel", "rudder", "propeller"),
)
_WRITE_PAUSE = 0.02
_READ_PAUSE = 0.05


@dataclass
class Latencies:
    """What the threads of one process have measured, in seconds."""

    acknowledged: list[str] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def sentence(generator: random.Random) -> str:
    return " ".join(generator.choice(WORDS) for _ in range(40))


def write(library: recollect.Library, name: str, end: float, latencies: Latencies) -> None:
    generator = random.Random(name)
    library.add_conversation(name, f"Log of {name}")
    number = 0
    while time.monotonic() < end:
        id_ = f"{name}-{number}"
        start = time.monotonic()
        try:
            library.add_message(name, "user", f"{id_} {sentence(generator)}", id=id_)
        except recollect.RecollectError as error:
            latencies.errors.append(f"write: {error}")
        else:
            latencies.acknowledged.append(id_)
            latencies.writes.append(time.monotonic() - start)
        number += 1
        time.sleep(_WRITE_PAUSE * generator.uniform(0.5, 1.5))


def read(library: recollect.Library, name: str, end: float, latencies: Latencies) -> None:
    generator = random.Random(name)
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            if generator.random() < 0.5:
                library.search(" ".join(generator.sample(WORDS, 2)))
            else:
                library.conversations(limit=20)
        except recollect.RecollectError as error:
            latencies.errors.append(f"read: {error}")
        else:
            latencies.reads.append(time.monotonic() - start)
        time.sleep(_READ_PAUSE * generator.uniform(0.5, 1.5))


def work(home: str, number: int, writers: int, readers: int, seconds: float) -> None:
    """One process. It prints what it measured as JSON."""
    latencies = Latencies()
    with recollect.open(home, background=True) as library:
        end = time.monotonic() + seconds
        jobs = [(write, f"writer-{number}-{n}") for n in range(writers)]
        jobs += [(read, f"reader-{number}-{n}") for n in range(readers)]
        threads = [
            threading.Thread(target=job, args=(library, name, end, latencies)) for job, name in jobs
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
