"""A home folder, its backups, and what the tests of both need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.backup.making import make_backup
from recollect.backup.manifest import Manifest
from recollect.backup.repository import Repository, create_repository, exists, open_repository
from recollect.cli import main

PASSPHRASE = "correct horse battery staple"


def add_messages(home: Path, *texts: str, user: str = "default") -> None:
    """Add messages to the conversation of a library."""
    with recollect.open(home, user) as library:
        library.add_conversation("c1", "Castle")
        for text in texts:
            library.add_message("c1", "user", text, id=text)


def messages(home: Path | str, user: str = "default") -> list[str]:
    with recollect.open(home, user) as library:
        assert library.verify().healthy
        return [passage.content for passage in library.conversation("c1").passages]


def repository(folder: Path, passphrase: str | None = None) -> Repository:
    if exists(folder):
        return open_repository(folder, passphrase)
    return create_repository(folder, passphrase)


def back_up(home: Path, folder: Path, user: str = "", passphrase: str | None = None) -> Manifest:
    with repository(folder, passphrase) as backups:
        return make_backup(backups, home, user, work_home=home)


def run_json(capsys: pytest.CaptureFixture[str], *words: str, fails: bool = False) -> Any:
    """Run a command with --json, and return what it prints; the error if it must fail."""
    code = main([*words, "--json"])
    out, err = capsys.readouterr()
    assert bool(code) == fails, err
    if not out:
        return err
    return json.loads(out)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    """A file system of this size. Needs root; elsewhere, the test is skipped."""
    at.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs: a full disk was NOT tested")
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


def fill(disk: Path, free: int) -> Path:
    """Leave so many bytes free: enough to read a library, not enough to copy it."""
    filler = disk / "filler"
    filler.write_bytes(b"x" * (shutil.disk_usage(disk).free - free))
    return filler
