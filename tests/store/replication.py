"""A streaming replica of the test server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres
import psycopg
from local_servers import LocalServer, new_folder, server_folder, wait_until
from psycopg.conninfo import conninfo_to_dict


class TestReplica:
    """A replica of the server of a database."""

    __test__ = False

    def __init__(self, database: str, server: LocalServer) -> None:
        self.server = server
        self.primary_url = database
        parts = conninfo_to_dict(database)
        folder = conninfo_to_dict(server.url)["host"]
        self.url = postgres.address({"dbname": parts["dbname"], "host": folder})

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as db:
            return db.execute(sql).fetchall()

    def catch_up(self) -> None:
        """Wait until it has what the primary has now."""
        with psycopg.connect(self.primary_url, autocommit=True) as db:
            ((position,),) = db.execute("select pg_current_wal_flush_lsn()").fetchall()
        wait_until(
            lambda: self.execute(f"select pg_last_wal_replay_lsn() >= '{position}'") == [(True,)]
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Replay nothing in this block."""
        self.execute("select pg_wal_replay_pause()")
        wait_until(lambda: self.execute("select pg_get_wal_replay_pause_state()") == [("paused",)])
        yield
        self.execute("select pg_wal_replay_resume()")
        self.catch_up()

    def start(self) -> None:
        self.server.start()


@contextmanager
def new_replica(database: str) -> Iterator[TestReplica]:
    """Copy the server of a database, and let the copy follow it."""
    slot = f"test_{uuid.uuid4().hex[:12]}"
    with server_folder() as folder:
        # Only the user of the test server can use its socket.
        user = Path(str(conninfo_to_dict(database)["host"])).owner()
        server = LocalServer(new_folder(folder / "r", user))
        options = ["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--create-slot"]
        server.run(
            "pg_basebackup",
            f"--dbname={database}",
            f"--pgdata={server.folder}",
            f"--slot={slot}",
            *options,
        )
        server.start()
        try:
            yield TestReplica(database, server)
        finally:
            server.stop("immediate")
            with psycopg.connect(database, autocommit=True) as db:
                wait_until(lambda: _drop_slot(db, slot))


def _drop_slot(db: psycopg.Connection, slot: str) -> bool:
    """False while the connection of the replica is still open."""
    try:
        db.execute("select pg_drop_replication_slot(%s)", [slot])
    except psycopg.errors.ObjectInUse:
        return False
    return True
