"""A folder for copies of databases while they are backed up or restored.

It is in the home folder, not in the backup folder: the copies are only encrypted if the home is,
and the backup folder may be on a disk that others can read.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.backup.durable import TEMPORARY, make_folder
from recollect.errors import StoreBusy
from recollect.home_folder import BACKUP_WORK
from recollect.settings import READ_ONLY
from recollect.store.sqlite.files.encryption import copy_key_file
from recollect.store.sqlite.files.file_lock import file_lock


@contextmanager
def work_folder(home: Path) -> Iterator[Path]:
    """An empty folder that is deleted at the end. So are remains of an earlier process."""
    base = home / BACKUP_WORK
    if not _can_write(home, base):
        with tempfile.TemporaryDirectory(prefix="recollect-") as name:
            copy_key_file(home, Path(name))
            yield Path(name)
        return
    with file_lock(base / "lock") as is_held:
        if not is_held:
            raise StoreBusy(
                f"Another backup or restore of {home} is running. Try again when it has finished."
            )
        for path in base.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.suffix == TEMPORARY:
                path.unlink(missing_ok=True)
        folder = base / uuid.uuid4().hex
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _can_write(home: Path, base: Path) -> bool:
    """Whether there is a home folder that is not read-only."""
    if READ_ONLY.get() or not home.exists():
        return False
    try:
        make_folder(base)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return os.access(base, os.W_OK)
