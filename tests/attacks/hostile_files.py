"""Import every hostile file and measure it: `python -m tests.attacks.hostile_files [WORD…]`.

Each file is imported with `recollect import` in a process of its own, in a folder with a good
file. It must end within ten seconds of CPU time and 300 MB of memory, without a traceback, without
a file outside the library, without a connection, and the good file must be imported. Processes
that the command starts are included. With words, only files whose name contains one are imported.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hostile_corpus import BEACON, CORPUS, Hostile

MAX_SECONDS = 10.0
MAX_MEGABYTES = 300.0
PATIENCE = 120
"""Seconds on the clock after which a command counts as stuck."""
LAUNCHER = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
seconds, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), seconds, megabytes], file)
"""
"""Measures a command. On Linux the peak of a new process includes that of the one that started it,
so it has to be a small one."""
GOOD_NOTE = "# A good note\n\nPlant the beans."
GOOD_CONVERSATION = {
    "id": "good",
    "title": "A good conversation",
    "messages": [{"id": "m", "role": "user", "content": "Plant the beans."}],
}


@dataclass(slots=True)
class Outcome:
    name: str
    result: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0
    faults: list[str] = field(default_factory=list)


class Beacon:
    """Listens at the address that is in the files, and counts connections."""

    def __init__(self) -> None:
        self.connections = 0
        host, _, port = BEACON.partition(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((host, int(port)))
        self._socket.listen()
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def listening() -> Iterator[Beacon]:
    beacon = Beacon()
    try:
        yield beacon
    finally:
        beacon.close()


def import_hostile(name: str, folder: Path) -> Outcome:
    """Import one hostile file in a folder that does not exist yet."""
    hostile = CORPUS[name]
    files, home, temporary = folder / "files", folder / "home", folder / "tmp"
    temporary.mkdir(parents=True)
    good = _write(hostile, files)
    before = _list(folder)
    outcome = Outcome(name)
    receipt = _run(files, home, temporary, outcome)
    if receipt is not None:
        outcome.result = _describe(receipt, good)
        if not _is_imported(receipt, good):
            outcome.faults.append("the good file was not imported")
    strays = sorted(path for path in _list(folder) - before if not path.startswith("home"))
    if strays:
        outcome.faults.append(f"files outside the library: {strays[:3]}")
    return outcome


def _write(hostile: Hostile, files: Path) -> str:
    """Write the hostile file and a good one. Returns the name of the good one."""
    path = files / hostile.path
    path.parent.mkdir(parents=True)
    path.write_bytes(hostile.build())
    if hostile.is_note_or_media:
        (files / "good.md").write_text(GOOD_NOTE)
        return "good.md"
    (files / "good.json").write_text(json.dumps({"conversations": [GOOD_CONVERSATION]}))
    return "good.json"


def _list(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _run(files: Path, home: Path, temporary: Path, outcome: Outcome) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "recollect", "--home", str(home)]
    command += ["import", str(files), "--json", "--no-index"]
    environment = {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "200"}
    figures = temporary.parent / "figures.json"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(figures), *command],
            stdout=out,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        timer = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        process.wait()
        timer.cancel()
        out.seek(0)
        errors.seek(0)
        text, error_text = out.read(), errors.read().decode(errors="replace")
    status = -signal.SIGKILL
    if figures.exists():
        status, outcome.seconds, outcome.megabytes = json.loads(figures.read_text())
        figures.unlink()
    if outcome.seconds > MAX_SECONDS:
        outcome.faults.append(f"took {outcome.seconds:.1f} s of CPU time")
    if outcome.megabytes > MAX_MEGABYTES:
        outcome.faults.append(f"took {outcome.megabytes:.0f} MB")
    if "Traceback" in error_text or status not in (0, 1, 2):
        outcome.faults.append(f"exit {status}: {error_text.strip()[-300:]}")
    try:
        receipt: dict[str, Any] = json.loads(text)
    except ValueError:
        outcome.result = error_text.strip()[-100:]
        outcome.faults.append(f"no receipt: {error_text.strip()[-200:]}")
        return None
    return receipt


def _is_imported(receipt: dict[str, Any], name: str) -> bool:
    return any(
        file["name"] == name and file["conversations"]["new"] == 1 for file in receipt["files"]
    )


def _describe(receipt: dict[str, Any], good: str) -> str:
    """What became of the hostile file."""
    imported = 0
    reasons: dict[str, int] = {}
    counts = [receipt["left_out"]]
    for file in receipt["files"]:
        if file["name"] != good:
            imported += file["conversations"]["new"]
            counts += [file["conversations"], file["messages"]]
    for count in counts:
        reasons |= {**count["skipped"], **count["failed"]}
    parts = [f"imported {imported}"] if imported else []
    parts += [reason for reason in reasons if reason]
    return "; ".join(parts) or "nothing to import"


def run_corpus(names: list[str], folder: Path) -> Iterator[Outcome]:
    """Import files two at a time."""

    def run(number: int) -> Outcome:
        place = folder / str(number)
        try:
            return import_hostile(names[number], place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(run, range(len(names)))


def main(words: list[str]) -> int:
    names = [name for name in CORPUS if not words or any(word in name for word in words)]
    outcomes = []
    print(f"{'file':44} {'CPU s':>6} {'MB':>5}  result")
    with listening() as beacon, tempfile.TemporaryDirectory() as folder:
        for outcome in run_corpus(names, Path(folder)):
            outcomes.append(outcome)
            result = ascii(outcome.result)[1:-1][:90]
            print(f"{outcome.name:44} {outcome.seconds:6.2f} {outcome.megabytes:5.0f}  {result}")
            for fault in outcome.faults:
                print(f"    FAULT: {fault}", flush=True)
    faulty = [outcome for outcome in outcomes if outcome.faults]
    seconds = max((outcome.seconds for outcome in outcomes), default=0)
    megabytes = max((outcome.megabytes for outcome in outcomes), default=0)
    print(
        f"{len(outcomes)} files, {len(faulty)} with faults, {beacon.connections} connections;"
        f" at most {seconds:.1f} s of CPU time and {megabytes:.0f} MB"
    )
    return int(bool(faulty) or beacon.connections > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
