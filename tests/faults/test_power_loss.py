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

CUTS = max(1, KILLS // 10)

WRITER = """
import sys, recollect
from recollect.store.sqlite import transactions
home, name, count, flushing = sys.argv[1:]
if flushing == "off":
    transactions._flush = lambda handle: None
library = recollect.open(home)
library.add_conversation(name, "Power")
for n in range(int(count)):
    library.add_message(name, "user", f"acknowledged word{n}x", id=f"m{n}")
    print(n, flush=True)
sys.stdin.read()  # until it is killed
"""
# A writer stops so many messages after the last one that counts. The disk has little space.
_MORE_MESSAGES = 50


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


class Writer:
    """A process that writes to a conversation until it is killed."""

    def __init__(self, home: Path, name: str, count: int, flushing: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home), name, str(count), flushing],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_ids(self, count: int) -> list[str]:
        """The ids of the first messages that were acknowledged."""
        assert self._process.stdout is not None
        return [f"m{int(self._process.stdout.readline())}" for _ in range(count)]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def lost_messages(
    disk: Path, folder: Path, acknowledged: int, writers: int = 1, flushing: str = "on"
) -> int:
    """How many acknowledged messages are missing after the power loss."""
    after = folder / "after.img"
    with mount(disk, folder / "before") as before:
        count = acknowledged + _MORE_MESSAGES
        processes = [Writer(before / "home", f"c{n}", count, flushing) for n in range(writers)]
        try:
            ids = {process.name: process.read_ids(acknowledged) for process in processes}
            for process in processes:
                process.stop()
            shutil.copyfile(disk, after)
        finally:
            for process in processes:
                process.kill()
    with mount(after, folder / "after") as at, recollect.open(at / "home") as library:
        assert library.verify().healthy
        stored = {
            document.id: {passage.id for passage in document.passages}
            for document in library.documents()
        }
        assert library.search("acknowledged").total == sum(map(len, stored.values()))
        return sum(len(set(ids[name]) - stored.get(name, set())) for name in ids)


@pytest.mark.parametrize("cut", range(CUTS))
def test_acknowledged_messages_survive_a_power_loss(disk: Path, tmp_path: Path, cut: int) -> None:
    writers = 1 + cut % 2  # a flush of one process also covers what another one has committed
    acknowledged = random.Random(cut).randint(1, 300) // writers + 1
    assert lost_messages(disk, tmp_path, acknowledged, writers) == 0


def test_without_flushing_messages_are_lost(disk: Path, tmp_path: Path) -> None:
    assert lost_messages(disk, tmp_path, 300, flushing="off") > 0
