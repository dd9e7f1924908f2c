"""The power goes out: what was acknowledged is on the disk.

kill -9 cannot show this, since the system still writes what a dead program left
behind. Here a library lies on a disk of its own, a file behind a loop device.
The writer is stopped, the file is copied as it is at that moment (what was never
flushed is not in it), and the copy is started again. The same with a setting
that does not flush must lose something, or the test would be blind.

This needs root and loop devices; elsewhere it is skipped.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import recollect

CUTS = max(4, int(os.environ.get("KILLS", "100")) // 20)

WRITER = """
import sys, recollect
from recollect.store.sqlite import connection
connection._PRAGMAS = connection._PRAGMAS.replace("synchronous = full", "synchronous = " + sys.argv[2])
library = recollect.open(sys.argv[1])
library.add_conversation("c1", "Power")
for n in range(100_000):
    library.add_message("c1", "user", f"acknowledged word{n}x", id=f"m{n}")
    print(n, flush=True)
"""


def run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


@contextmanager
def mounted(disk: Path, at: Path) -> Iterator[Path]:
    at.mkdir()
    if not run("mount", "-o", "loop", str(disk), str(at)):
        pytest.skip(
            "loop devices cannot be mounted here: durability against power loss was NOT tried"
        )
    try:
        yield at
    finally:
        assert run("umount", str(at))


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    if os.geteuid() != 0 or not run("mkfs.ext4", "-q", "-F", str(path)):
        pytest.skip("this needs root and mkfs.ext4: durability against power loss was NOT tried")
    return path


def lost_messages(disk: Path, folder: Path, synchronous: str, acknowledged: int) -> int:
    """How many of the messages that were acknowledged are gone after the power came back."""
    after = folder / "after.img"
    with mounted(disk, folder / "before") as before:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(before / "home"), synchronous],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        promised = [int(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.send_signal(signal.SIGSTOP)
        shutil.copyfile(disk, after)
        writer.kill()
        writer.communicate()
    with mounted(after, folder / "after") as at, recollect.open(at / "home") as library:
        try:
            stored = {p.id for p in library.conversation("c1").messages}
        except recollect.RecollectError:
            return len(promised)
        assert library.verify().healthy
        assert library.search("acknowledged").total == len(stored)
        return sum(f"m{n}" not in stored for n in promised)


@pytest.mark.parametrize("cut", range(CUTS))
def test_what_was_acknowledged_survives_a_power_cut(disk: Path, tmp_path: Path, cut: int) -> None:
    assert lost_messages(disk, tmp_path, "full", random.Random(cut).randint(1, 300)) == 0


def test_the_same_without_flushing_loses_messages(disk: Path, tmp_path: Path) -> None:
    assert lost_messages(disk, tmp_path, "normal", 300) > 0
