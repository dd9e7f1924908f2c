"""Compare this version of Recollect with another one, by the same text and the same queries.

    python -m bench.versions PYTHON [--sizes 5000,100000] [--rounds 2] [--keep FOLDER]

PYTHON is the Python of an environment in which the other version is installed, for example
`.venv/bin/python` in a clone of an older commit. Each version imports the same ChatGPT export and
indexes it in its own library. Then both take turns with the same queries, each time in a new
process. All times are CPU time. A library in FOLDER is reused.

Newer versions parse files in a process of their own. So importing has two rows: the process that
stores, and all processes with their start.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench import corpus
from bench.speed import folder_for, log

WARMUP = 6
SEARCHES = 40
_SCRIPT = Path(__file__).with_name("one_version.py")
Times = dict[str, float]
"""What was done, and the time that it took."""


class Version:
    """One version of Recollect, with a library of its own."""

    def __init__(self, name: str, python: str, home: Path) -> None:
        self.name = name
        self._python = python
        self._home = home

    def build(self, export: Path) -> Times:
        """Import an export and index it. Returns seconds."""
        finished = self._home.with_suffix(".built")
        if not finished.exists():
            log(f"Importing into {self._home}")
            start = _seconds_of_processes()
            times = self._run("import", str(export))
            times["importing, all processes"] = _seconds_of_processes() - start
            times |= self._run("index")
            finished.write_text(json.dumps(times), encoding="utf-8")
        built: Times = json.loads(finished.read_text(encoding="utf-8"))
        return built

    def search(self, queries: Path) -> Times:
        """Search for the same queries as the other version. Returns milliseconds."""
        return self._run("search", str(queries))

    def _run(self, *arguments: str) -> Times:
        environment = {**os.environ, "RECOLLECT_INDEXING": "manual", "RECOLLECT_OBSERVER": "off"}
        environment.pop("PYTHONPATH", None)
        process = subprocess.run(
            [self._python, "-P", str(_SCRIPT), str(self._home), *arguments],
            env=environment,
            cwd=self._home.parent,
            stdout=subprocess.PIPE,
            check=True,
        )
        times: Times = json.loads(process.stdout)
        return times


def _seconds_of_processes() -> float:
    """The CPU time of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(folder: Path, other_python: str, messages: int, rounds: int) -> None:
    """Print a table of one size."""
    folder.mkdir(parents=True, exist_ok=True)
    queries = folder / "queries.json"
    queries.write_text(json.dumps(_queries()), encoding="utf-8")
    export = folder / f"export-{messages}.json"
    versions = [
        Version("other", other_python, folder / f"other-{messages}"),
        Version("this", sys.executable, folder / f"this-{messages}"),
    ]
    if not all((folder / f"{v.name}-{messages}.built").exists() for v in versions):
        log(f"Writing an export of {messages:,} messages")
        corpus.write_chatgpt_export(export, messages)
    builds = [version.build(export) for version in versions]
    export.unlink(missing_ok=True)
    searches: list[list[Times]] = [[], []]
    for _ in range(rounds):
        for version, times in zip(versions, searches, strict=True):
            times.append(version.search(queries))
    print(f"\n| {messages:,} messages | other | this | share |\n|---|---|---|---|")
    for name in builds[0]:
        _print_row(name, [times[name] for times in builds], "s")
    for name in searches[0][0]:
        _print_row(name, [median(t[name] for t in times) for times in searches], "ms")


def _print_row(name: str, times: list[float], unit: str) -> None:
    other, this = times
    share = f"{this / other:.2f}"
    print(f"| {name} | {other:.1f} {unit} | {this:.1f} {unit} | {share} |", flush=True)


def _queries() -> dict[str, Any]:
    queries = corpus.many_queries(2 * SEARCHES + WARMUP)
    questions = [" ".join(query.words) for query in queries["question"]]
    return {
        "warmup": questions[:WARMUP],
        "both": questions[WARMUP : WARMUP + SEARCHES],
        "text": questions[WARMUP + SEARCHES :],
        "rare": [" ".join(query.words) for query in queries["rare word"]],
    }


def _sizes(text: str) -> Iterator[int]:
    return map(int, text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare two versions of Recollect.")
    parser.add_argument("python", help="the Python of an environment with the other version")
    parser.add_argument("--sizes", default="5000,100000", help="messages (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="keep the libraries in this folder")
    arguments = parser.parse_args()
    with folder_for(arguments.keep) as folder:
        for messages in _sizes(arguments.sizes):
            compare(folder.resolve(), arguments.python, messages, arguments.rounds)


if __name__ == "__main__":
    main()
