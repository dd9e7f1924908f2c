"""Start a parsing process, exchange frames with it, watch it, and kill it."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recollect.errors import RecollectError
from recollect.importers.sandbox import protocol
from recollect.importers.sandbox.protocol import Bounds

MODULE = "recollect.importers.sandbox.parser"
_INHERITED = tuple("LANG LC_ALL LC_CTYPE TZ SYSTEMROOT LD_LIBRARY_PATH PATH PYTHONUTF8".split())
"""The variables that the process gets. Others may contain secrets."""
_WATCH_SECONDS = 0.1
_PIPE_BYTES = 1 << 20
_LARGEST_FRAME = 1 << 30
_MAX_IDLE = 3


class ProcessDied(Exception):
    """The process ended or was killed. The message says why, for the receipt."""


class ParsingProcess:
    """A process that parses files below some folders, one request at a time."""

    def __init__(self, readable: Sequence[Path], bounds: Bounds, module: str = "") -> None:
        self.key = _key(readable, bounds, module)
        self.bounds = bounds
        self._size = 0
        self._output = 0
        self._waiting_since: float | None = None
        self._verdict = ""
        """Why the process was killed, if it was."""
        self._is_ready = False
        self._process = start(module or MODULE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._frames = self._process.stdin, self._process.stdout
        self.send(
            {"do": "confine", "readable": [str(p) for p in readable], "bounds": asdict(bounds)}
        )

    def wait_until_ready(self) -> list[str]:
        """The active bounds; empty if they were returned before.

        Raises RecollectError if the process cannot start.
        """
        if self._is_ready:
            return []
        try:
            kind, payload = self.receive()
        except ProcessDied as error:
            raise RecollectError(
                f"The process that reads files cannot start ({error}). "
                f"Try: {sys.executable} -m {MODULE}"
            ) from error
        if kind != protocol.READY:
            raise self.reject("unexpected reply")
        self._is_ready = True
        active: list[str] = json.loads(payload)
        return active

    def send(self, request: dict[str, Any]) -> None:
        with suppress(OSError):  # if it has died, receive() says so
            self._input.write(json.dumps(request).encode("ascii") + b"\n")
            self._input.flush()

    def receive(self) -> tuple[bytes, bytes]:
        """The kind and the payload of the next frame. Raises ProcessDied."""
        header = self._read(protocol.HEADER.size)
        kind, length = protocol.HEADER.unpack(header)
        self._output += length
        limit = self.bounds.output_for(self._size)
        if length > _LARGEST_FRAME or self._output > limit:
            raise self.reject(f"its content is larger than {limit:,} bytes")
        return kind, self._read(length)

    def expect(self, size: int) -> None:
        """A file of this size is parsed from now on: apply its bounds."""
        self._size = size
        self._output = 0

    def reject(self, reason: str) -> ProcessDied:
        """Kill the process because of what it sent."""
        self.kill(reason)
        return self._death()

    def kill(self, reason: str) -> None:
        self._verdict = self._verdict or reason
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        for stream in (self._input, self._frames):
            with suppress(OSError):
                stream.close()
        self._process.wait()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _read(self, length: int) -> bytes:
        self._waiting_since = time.monotonic()
        try:
            data = self._frames.read(length)
        finally:
            self._waiting_since = None
        if len(data) < length:
            raise self._death()
        return data

    def _death(self) -> ProcessDied:
        self._process.kill()  # it may have closed its output and still run
        status = self._process.wait()
        if self._verdict:
            return ProcessDied(self._verdict)
        if hasattr(signal, "SIGPROF") and status == -signal.SIGPROF:
            seconds = self.bounds.cpu_seconds_for(self._size)
            return ProcessDied(f"it takes more than {seconds:.3g} s of CPU time")
        description = f"exit status {status}"
        with suppress(ValueError):
            description = signal.Signals(-status).name
        return ProcessDied(f"it crashes the parser ({description})")

    @contextmanager
    def watch(self, stop: threading.Event) -> Iterator[None]:
        """Kill the process when `stop` is set, or when it does nothing for too long."""
        finished = threading.Event()

        def kill_if_stuck() -> None:
            while not finished.wait(_WATCH_SECONDS):
                since = self._waiting_since
                limit = self.bounds.waiting_seconds_for(self._size)
                if stop.is_set():
                    self.kill("stopped")
                elif since is not None and time.monotonic() - since > limit:
                    self.kill(f"it takes more than {limit:,.0f} s")

        threading.Thread(target=kill_if_stuck, daemon=True).start()
        try:
            yield
        finally:
            finished.set()


def active_bounds() -> list[str]:
    """The limits of a process that parses files on this computer."""
    process = ParsingProcess([], Bounds())
    try:
        return process.wait_until_ready()
    finally:
        process.close()


def _key(readable: Sequence[Path], bounds: Bounds, module: str) -> tuple[object, ...]:
    """The key under which a process is reused. A folder that was replaced gets another one."""
    folders: list[object] = []
    for folder in readable:
        with suppress(OSError):
            status = folder.stat()
            folders.append((str(folder), status.st_dev, status.st_ino))
    return (module, bounds, *folders)


def start(module: str) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    package_folder = str(Path(__file__).parents[3])
    search_path = [package_folder, os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, search_path))
    try:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=_PIPE_BYTES,
            start_new_session=True,
        )
    except OSError as error:
        raise RecollectError(
            f"The process that reads files cannot start: {error.strerror} ({sys.executable})."
        ) from error
    if sys.platform == "linux":  # let the process parse ahead while the parent stores
        import fcntl

        assert process.stdout is not None
        with suppress(OSError):
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


# -- idle processes ----------------------------------------------------------


class _Pool:
    """Processes that wait for more files from the same folders. Watching needs one often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[ParsingProcess] = []
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def take(self, readable: Sequence[Path], bounds: Bounds, module: str = "") -> ParsingProcess:
        """A process that may read these folders. It may not be ready yet."""
        key = _key(readable, bounds, module)
        with self._lock:
            same = next((process for process in self._idle if process.key == key), None)
            if same is not None:
                self._idle.remove(same)
                if same.is_alive:
                    return same
                same.close()
        return ParsingProcess(readable, bounds, module)

    def prepare(self, readable: Sequence[Path], *, wait: bool) -> None:
        """Start a process now that will be needed soon."""
        with suppress(RecollectError):  # if it cannot start, the import will say so
            process = self.take(readable, Bounds())
            if wait:
                process.wait_until_ready()
            self.give_back(process)

    def give_back(self, process: ParsingProcess) -> None:
        """Keep a process that has answered its last request completely."""
        with self._lock:
            self._idle.append(process)
            surplus, self._idle = self._idle[:-_MAX_IDLE], self._idle[-_MAX_IDLE:]
        for each in surplus:
            each.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def _forget(self) -> None:
        """After a fork, the processes belong to the parent."""
        self._lock = threading.Lock()
        self._idle = []


POOL = _Pool()
