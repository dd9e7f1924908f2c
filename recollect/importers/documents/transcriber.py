"""The user's own program that transcribes recordings.

RECOLLECT_TRANSCRIBER is its command line. It runs without a shell; `{file}` is replaced by the
path of the recording. The program prints the transcript.

Importers run in a process that may start no programs. That process delegates the transcription to
its parent, which calls `run`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.language.text import printable, truncate
from recollect.settings import LIMITS, TRANSCRIBER

_FILE = "{file}"
_ERROR_BYTES = 4_096  # of the end of the program's error output
_WATCH_SECONDS = 0.2


@dataclass(slots=True)
class _Delegation:
    """How the parsing process has its parent run the program."""

    transcribe: Callable[[Entry], bytes] | None = None
    is_configured: bool = False


_delegation = _Delegation()


def delegate(transcribe: Callable[[Entry], bytes]) -> None:
    """From now on, call this function instead of the program."""
    _delegation.transcribe = transcribe


def set_configured(is_configured: bool) -> None:
    """Whether the parent has a program to run."""
    _delegation.is_configured = is_configured


def is_configured() -> bool:
    if _delegation.transcribe is not None:
        return _delegation.is_configured
    return bool(TRANSCRIBER.get())


def transcribe(entry: Entry) -> bytes:
    """What the program prints. Raises Unreadable with its error message if it fails."""
    if _delegation.transcribe is not None:
        return _delegation.transcribe(entry)
    return run(entry, threading.Event())


def run(entry: Entry, stop: threading.Event) -> bytes:
    """Run the program in this process, until it ends or `stop` is set."""
    try:
        words = shlex.split(TRANSCRIBER.get())
    except ValueError as error:
        raise Unreadable(f"{TRANSCRIBER.name} is not a valid command line ({error})") from error
    if not any(_FILE in word for word in words):
        raise Unreadable(f"{TRANSCRIBER.name} has no {_FILE}: put it where the file name goes")
    with (
        _on_disk(entry) as path,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryDirectory(prefix="recollect-") as folder,
    ):
        # In a temporary folder, because some programs also write files there.
        process = _start([word.replace(_FILE, str(path)) for word in words], errors, folder)
        return _output(process, errors, stop)


def _output(process: subprocess.Popen[bytes], errors: IO[bytes], stop: threading.Event) -> bytes:
    watch = _Watch(process, stop)
    watch.start()
    try:
        assert process.stdout is not None
        with process.stdout as output:
            data = output.read(LIMITS.transcript_bytes + 1)
        if len(data) > LIMITS.transcript_bytes:
            raise Unreadable(f"the transcriber printed more than {LIMITS.transcript_bytes:,} bytes")
        status = process.wait()
    finally:
        watch.finished.set()
        _kill(process)
        process.wait()
    if watch.is_late:
        raise Unreadable(
            f"the transcriber took longer than its limit of {LIMITS.transcriber_seconds:,.0f} s"
        )
    if status:
        reason = _last_line(errors) or f"it exited with status {status}"
        raise Unreadable(f"the transcriber failed: {reason}")
    return data


class _Watch(threading.Thread):
    """Kills the program when it takes too long, or when the import is stopped."""

    def __init__(self, process: subprocess.Popen[bytes], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.finished = threading.Event()
        self.is_late = False
        self._process = process
        self._stop_import = stop
        self._deadline = time.monotonic() + LIMITS.transcriber_seconds

    def run(self) -> None:
        while not self.finished.wait(_WATCH_SECONDS):
            self.is_late = time.monotonic() > self._deadline
            if self.is_late or self._stop_import.is_set():
                _kill(self._process)
                return


def _start(command: list[str], errors: IO[bytes], folder: str) -> subprocess.Popen[bytes]:
    # The program must not see the keys of the library and of its models.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")
    }
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own setting, run without a shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise Unreadable(
            f"the transcriber {command[0]!r} cannot be started ({error.strerror})"
        ) from error


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and the processes that it started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass  # it has ended


def _last_line(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _ERROR_BYTES))
    text = errors.read().decode("utf-8", "replace").strip()
    if not text:
        return ""
    return truncate(printable(text.splitlines()[-1].strip()), 300)


@contextmanager
def _on_disk(entry: Entry) -> Iterator[Path]:
    """The recording as a file; a member of an archive is unpacked temporarily."""
    if entry.path is not None:
        yield entry.path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        path = Path(folder, "recording" + Path(entry.basename).suffix)
        with entry.open() as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        yield path
