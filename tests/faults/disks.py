"""Small disks to fill or to make read-only. They need the right to mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Leave no space for another byte."""
        with (self.folder / "ballast").open("ab", buffering=0) as file:
            try:
                while file.write(b"\0" * 65_536) == 65_536:
                    pass
            except OSError:
                return

    def free(self) -> None:
        (self.folder / "ballast").unlink()

    def remount(self, options: str) -> None:
        _run("mount", "-o", f"remount,{options}", str(self.folder))


@contextmanager
def small_disk(folder: Path, megabytes: int = 8) -> Iterator[Disk]:
    folder.mkdir()
    options = f"size={megabytes}m"
    if os.name != "posix" or not _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)):
        pytest.skip("cannot mount a small disk: full disks and read-only media were NOT tested")
    try:
        yield Disk(folder)
    finally:
        assert _run("umount", str(folder))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False
