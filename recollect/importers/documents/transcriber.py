"""The user's own program that transcribes recordings.

RECOLLECT_TRANSCRIBER is its command line. It runs without a shell; `{file}` is replaced by the
path of the recording. The program prints the transcript.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Timer
from typing import IO

from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.language.text import printable, truncate
from recollect.settings import LIMITS, TRANSCRIBER

_FILE = "{file}"
_ERROR_BYTES = 4_096  # of the end of the program's error output


def is_configured() -> bool:
    return bool(TRANSCRIBER.get())


def transcribe(entry: Entry) -> bytes:
    """What the program prints. Raises Unreadable with its error message if it fails."""
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
        return _run([word.replace(_FILE, str(path)) for word in words], errors, folder)


def _run(command: list[str], errors: IO[bytes], folder: str) -> bytes:
    """Run the command in a temporary folder, because some programs also write files there."""
    process = _start(command, errors, folder)
    is_late = Event()

    def stop() -> None:
        is_late.set()
        _kill(process)

    timer = Timer(LIMITS.transcriber_seconds, stop)
    timer.start()
    try:
        assert process.stdout is not None
        with process.stdout as output:
            data = output.read(LIMITS.transcript_bytes + 1)
        if len(data) > LIMITS.transcript_bytes:
            raise Unreadable(f"the transcriber printed more than {LIMITS.transcript_bytes:,} bytes")
        status = process.wait()
    finally:
        timer.cancel()
        _kill(process)
        process.wait()
    if is_late.is_set():
        raise Unreadable(
            f"the transcriber took longer than its limit of {LIMITS.transcriber_seconds:,.0f} s"
        )
    if status:
        reason = _last_line(errors) or f"it exited with status {status}"
        raise Unreadable(f"the transcriber failed: {reason}")
    return data


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
        pass


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
