"""A program of the person's own that makes a transcript of a recording.

It is the command in RECOLLECT_TRANSCRIBER, run without a shell, with {file} in the
place of the recording's name. What it prints is the transcript.
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

SETTING = "RECOLLECT_TRANSCRIBER"
_FILE = "{file}"


def configured() -> bool:
    return bool(TRANSCRIBER.get())


def transcribe(entry: Entry) -> bytes:
    """What the command prints. Raises Unreadable with what it says where it fails."""
    try:
        words = shlex.split(TRANSCRIBER.get())
    except ValueError as error:
        raise Unreadable(f"{SETTING} is no command line ({error})") from error
    if not any(_FILE in word for word in words):
        raise Unreadable(
            f"{SETTING} does not say where the recording's name goes: put {_FILE} there"
        )
    with (
        _on_disk(entry) as path,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryDirectory(prefix="recollect-") as folder,
    ):
        return _run([word.replace(_FILE, str(path)) for word in words], errors, folder)


def _run(command: list[str], errors: IO[bytes], folder: str) -> bytes:
    """Run it in a folder of its own, since some programs also write files to where they are."""
    # The keys of the library and of its models are none of the command's business.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")
    }
    try:
        process = subprocess.Popen(  # noqa: S603 - the command is the person's own setting, and no shell reads it
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
    late = Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = Timer(LIMITS.transcriber_seconds, end)
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
    if late.is_set():
        raise Unreadable(
            f"the transcriber took longer than {LIMITS.transcriber_seconds:,.0f} seconds"
        )
    if status:
        raise Unreadable(
            f"the transcriber failed: {_last_words(errors) or f'it ended with {status}'}"
        )
    return data


def _kill(process: subprocess.Popen[bytes]) -> None:
    """It and what it started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4096))
    lines = [
        line.strip()
        for line in errors.read().decode("utf-8", "replace").splitlines()
        if line.strip()
    ]
    return truncate(printable(lines[-1]), 300) if lines else ""


@contextmanager
def _on_disk(entry: Entry) -> Iterator[Path]:
    """The recording as a file of its own: one in an archive is unpacked for a while."""
    if entry.path is not None:
        yield entry.path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        path = Path(folder, "recording" + Path(entry.basename).suffix)
        with entry.open() as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        yield path
