"""Power loss: every acknowledged message is on the disk.

kill -9 cannot prove this, because the system still writes what a killed program left in the page
cache. Here the library has its own file system, in a file behind a loop device. The test stops the
writer, copies the file (without anything that was never flushed), and opens the library in the
copy. With flushing disabled, the same procedure must lose messages; otherwise it proves nothing.

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
from kills import KILLS

import recollect

CUTS = max(2, KILLS // 10)

WRITER = """
import sys, recollect
from recollect.store.sqlite import connection
mode = "synchronous = " + sys.argv[2]
connection._PRAGMAS = connection._PRAGMAS.replace("synchronous = full", mode)
library = recollect.open(sys.argv[1])
library.add_conversation("c1", "Power")
for n in range(100_000):
    library.add_message("c1", "user", f"acknowledged word{n}x", id=f"m{n}")
    print(n, flush=True)
"""


def run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


@contextmanager
def mount(disk: Path, at: Path) -> Iterator[Path]:
    at.mkdir()
    if not run("mount", "-o", "loop", str(disk), str(at)):
        pytest.skip("cannot mount loop devices: durability against power loss was NOT tested")
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
        pytest.skip("needs root and mkfs.ext4: durability against power loss was NOT tested")
    return path


def lost_messages(disk: Path, folder: Path, synchronous: str, acknowledged: int) -> int:
    """How many acknowledged messages are missing after the power loss."""
    after = folder / "after.img"
    with mount(disk, folder / "before") as before:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(before / "home"), synchronous],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        acknowledged_ids = [int(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.send_signal(signal.SIGSTOP)
        shutil.copyfile(disk, after)
        writer.kill()
        writer.communicate()
    with mount(after, folder / "after") as at, recollect.open(at / "home") as library:
        try:
            stored_ids = {p.id for p in library.conversation("c1").messages}
        except recollect.RecollectError:
            return len(acknowledged_ids)
        assert library.verify().healthy
        assert library.search("acknowledged").total == len(stored_ids)
        return sum(f"m{n}" not in stored_ids for n in acknowledged_ids)


@pytest.mark.parametrize("cut", range(CUTS))
def test_acknowledged_messages_survive_a_power_loss(disk: Path, tmp_path: Path, cut: int) -> None:
    assert lost_messages(disk, tmp_path, "full", random.Random(cut).randint(1, 300)) == 0


def test_without_flushing_messages_are_lost(disk: Path, tmp_path: Path) -> None:
    assert lost_messages(disk, tmp_path, "normal", 300) > 0
