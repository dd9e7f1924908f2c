"""Backup and point-in-time recovery, as docs/postgres.md describes it, on real servers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from local_servers import LocalServer, new_folder, server_folder, wait_until

import recollect
from recollect import cli

pytestmark = pytest.mark.full


@pytest.fixture
def folder() -> Iterator[Path]:
    with server_folder() as path:
        yield path


def texts(url: str, query: str) -> set[str]:
    with recollect.open(url, "ann", background=False) as library:
        return {hit.snippet for hit in library.search(query).hits}


def test_a_database_is_restored_to_a_point_in_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A base backup and the archived log: everything until the mistake, and nothing after it."""
    source = LocalServer(new_folder(folder / "a"))
    new_folder(source.archive)
    source.run("initdb", "-D", str(source.folder), "-U", "postgres", "--no-sync")
    source.configure(
        "wal_level = replica\narchive_mode = on\n"
        f"archive_command = 'test ! -f {source.archive}/%f && cp %p {source.archive}/%f'\n"
    )
    source.start()
    restored = LocalServer(new_folder(folder / "b"))
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
