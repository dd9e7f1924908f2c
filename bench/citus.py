"""A private Citus cluster for benchmarks and tests: a coordinator and two workers on this machine.

`python -m bench.citus FOLDER` starts one, prints the options with which `python -m bench.postgres`
uses it (the URL of its coordinator, and the data directories of all nodes), and stops it at Ctrl-C.

FOLDER is a PostgreSQL installation that has Citus: `bin/initdb`, `bin/pg_ctl` and `lib/citus.so`.
Like those of `bench.server`, the data of the nodes stays in a folder, so it can be reused, with the
same ports.
"""

from __future__ import annotations

import argparse
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
NODE_SETTINGS = {
    "shared_preload_libraries": "citus",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",  # to move shards while others write
    "max_prepared_transactions": "200",
}


class Cluster:
    """A running cluster. As a context manager, it stops at the end of the block."""

    def __init__(
        self, installation: Path, folder: Path, settings: Mapping[str, str] = SETTINGS
    ) -> None:
        require_citus(installation)
        self._installation = installation
        self._data = folder / "data"
        self._settings = settings
        self._ports: list[int] = []
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.getuid() == 0 else None
        ports = _free_ports(NODES)
        is_new = not self._data.exists()
        if is_new:
            self._data.mkdir(parents=True)
            folder.chmod(0o755)
        else:
            ports = sorted(int(node.name) for node in self._data.iterdir() if node.is_dir())
        self.url = f"postgresql://postgres@127.0.0.1:{ports[0]}/{DATABASE}"
        try:
            for port in ports:
                if is_new:
                    self._create_node(port)
                self.start_worker(port)
                self._ports.append(port)
            if is_new:
                coordinator, *workers = [("127.0.0.1", port) for port in ports]
                _create_everywhere(conninfo_to_dict(self.url), DATABASE, coordinator, workers)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for port in self._ports:
            self._control(port, "-m", "fast", "stop")

    def _create_node(self, port: int) -> None:
        node = self._data / str(port)
        node.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(node, self._user)
        self._run("initdb", "-D", str(node), "-U", "postgres", "--auth=trust", "-E", "UTF8")
        settings = NODE_SETTINGS | dict(self._settings) | {"port": str(port)}
        with (node / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._installation / "bin" / program), *arguments]
        subprocess.run(
            command,
            check=True,
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            env=_NO_SETTINGS,
        )

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
        self._create_node(port)
        self.start_worker(port)
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
        self._run("pg_ctl", "-D", str(self._data / str(port)), "-w", *arguments)


# The nodes get their settings from their files only.
_NO_SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def require_citus(installation: Path) -> None:
    """Raise FileNotFoundError if a folder is not a PostgreSQL installation that has Citus."""
    libraries = [installation / "lib" / name for name in ("citus.so", "postgresql/citus.so")]
    programs = [installation / "bin" / name for name in ("initdb", "pg_ctl")]
    missing = [str(file) for file in programs if not file.exists()]
    if not any(file.exists() for file in libraries):
        missing.append(str(libraries[0]))
    if missing:
        raise FileNotFoundError(
            f"{installation} is not a PostgreSQL installation that has Citus: there is no "
            f"{' and no '.join(missing)}."
        )


def create_database(url: str, name: str) -> None:
    """Create a database on every node of a cluster, and let the coordinator know the workers.

    One with the same name is dropped.
    """
    parts = conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as db:
        nodes = db.execute("select nodename, nodeport from pg_dist_node order by groupid")
        (coordinator, *workers) = nodes.fetchall()
    _create_everywhere(parts, name, coordinator, workers)


def _create_everywhere(
    parts: dict[str, Any], name: str, coordinator: tuple[str, int], workers: list[tuple[str, int]]
) -> None:
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
    parser.add_argument(
        "installation", type=Path, metavar="FOLDER", help="a PostgreSQL installation with Citus"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="recollect-citus-", ignore_cleanup_errors=True) as data,
        Cluster(arguments.installation, Path(data)) as cluster,
    ):
        options = ["--url", cluster.url]
        for folder in cluster.data_folders:
            options += ["--data", str(folder)]
        print(*options, flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
