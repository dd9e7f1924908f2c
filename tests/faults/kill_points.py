"""Runs a command of Recollect and kills the process at one point of it.

    python kill_points.py POINT COMMAND...

The points are numbered: every SQL statement, and every file that is created, opened for writing,
renamed or removed. The process kills itself before point POINT, so every gap between two effects
can be hit, however short. Without a kill (point 0), the last line of the output is the number of
points. The command `upload FILE` uploads a file to a server in this process and waits until
it is imported; all others are those of the command line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import apsw

from recollect import passphrases
from recollect.cli import main
from recollect.serve.http.service import Service
from recollect.settings import place

FILE_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Counter:
    """Counts the points of this process, in all threads, and kills it at one of them."""

    def __init__(self, deadly: int) -> None:
        self.points = 0
        self._deadly = deadly
        self._lock = threading.Lock()

    def count(self, *_: Any) -> None:
        with self._lock:
            self.points += 1
            if self.points == self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS or (event == "open" and _is_written(arguments)):
            self.count()

    def trace(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self.count, id=self)


def upload(path: Path) -> int:
    """What a server does: it accepts the file, imports it, and resumes what it was killed in."""
    service = Service(place())
    try:
        with service.imports.upload("default", path.name) as target:
            target.write(path.read_bytes())
            target.accept()
        while any(not job.is_finished for job in service.imports.list_for("default")):
            threading.Event().wait(0.01)
    finally:
        service.close()
    return 0


def _is_written(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & WRITING)


if __name__ == "__main__":
    passphrases.SCRYPT = {"n": 16, "r": 8, "p": 1}  # many are stretched, so it must be fast
    counter = Counter(int(sys.argv[1]))
    apsw.connection_hooks.append(counter.trace)
    sys.addaudithook(counter.audit)
    if sys.argv[2] == "upload":
        code = upload(Path(sys.argv[3]))
    else:
        code = main(sys.argv[2:])
    print(counter.points)
    sys.exit(code)
