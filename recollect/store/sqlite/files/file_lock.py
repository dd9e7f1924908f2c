"""Advisory locks on files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recollect.store.sqlite.files.private_files import create_private_folder


@contextmanager
def file_lock(path: Path, wait: bool = False) -> Iterator[bool]:
    """Lock a file until the end of the block or of the process.

    If another process or thread holds the lock, wait for it, or without `wait` yield False.
    """
    create_private_folder(path.parent)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            _lock(file, wait)
        except OSError:
            yield False
            return
        yield True
    finally:
        with suppress(OSError):
            os.close(file)


def _lock(file: int, wait: bool) -> None:
    """Lock an open file. Raises OSError if that fails, without `wait` also if it is locked."""
    if sys.platform == "win32":
        import msvcrt

        mode = msvcrt.LK_NBLCK
        if wait:
            mode = msvcrt.LK_LOCK
        msvcrt.locking(file, mode, 1)
    else:
        import fcntl

        operation = fcntl.LOCK_EX
        if not wait:
            operation |= fcntl.LOCK_NB
        fcntl.flock(file, operation)
