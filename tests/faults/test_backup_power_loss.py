"""Power loss: a backup that was reported complete is on the disk, and is good.

See test_power_loss.py for the method. With flushing disabled, the same procedure must lose
the backup; otherwise it proves nothing.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from backup_helpers import add_messages, repository
from test_power_loss import disk as disk  # the fixture
from test_power_loss import mount

from recollect.backup.making import verify

BACKUP = """
import os, sys, time
from pathlib import Path
from recollect.backup.making import make_backup
from recollect.backup.repository import create_repository
if sys.argv[3] == "off":
    os.fsync = lambda file: None
home, folder = Path(sys.argv[1]), Path(sys.argv[2])
with create_repository(folder, None) as repository:
    print(make_backup(repository, home, "", work_home=home).id, flush=True)
time.sleep(600)
"""


def survives(disk: Path, tmp_path: Path, flushing: str) -> bool:
    """Whether a complete backup is there and good after the power loss."""
    home, after = tmp_path / "home", tmp_path / "after.img"
    add_messages(home, "the castle")
    with mount(disk, tmp_path / "before") as before:
        process = subprocess.Popen(
            [sys.executable, "-c", BACKUP, str(home), str(before / "backups"), flushing],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        id_ = process.stdout.readline().strip()
        process.send_signal(signal.SIGSTOP)
        shutil.copyfile(disk, after)
        process.kill()
        process.communicate()
    with mount(after, tmp_path / "after") as at:
        try:
            with repository(at / "backups") as backups:
                return verify(backups, id_, tmp_path, lambda *_: None).is_good
        except Exception:
            return False


@pytest.mark.full
@pytest.mark.parametrize("cut", range(3))
def test_a_complete_backup_survives_a_power_loss(disk: Path, tmp_path: Path, cut: int) -> None:
    assert survives(disk, tmp_path, "on")


@pytest.mark.full
def test_without_flushing_the_backup_is_lost(disk: Path, tmp_path: Path) -> None:
    assert not survives(disk, tmp_path, "off")
