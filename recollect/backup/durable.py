"""Files that are on disk, complete and under their name, or not there at all."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import apsw

from recollect.errors import RecollectError
from recollect.store.durability import sync_folder
from recollect.store.sqlite.files.private_files import create_private_folder

TEMPORARY = ".tmp"
"""The suffix of files that are not complete."""

# From linux/fcntl.h and linux/fs.h.
_CURRENT_FOLDER = -100
_EXCHANGE = 2


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, which only their owner may read."""
    create_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def create_file(path: Path) -> BinaryIO:
    """Create a file that only its owner may read."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_file(path: Path, data: bytes) -> None:
    """Write a file under its name only when it is complete and on disk."""
    temporary = path.with_name(f"{uuid.uuid4().hex}{TEMPORARY}")
    try:
        with create_file(temporary) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(path)
    except BaseException:  # also Ctrl-C: no half-written file stays
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def exchange(new: Path, current: Path, former: Path) -> None:
    """Rename `current` to `former` and `new` to `current`; in one step, where the system can.

    So at every moment, there is something complete under the current name, and nothing is lost.
    """
    new.rename(former)
    sync_folder(former.parent)
    if not _swap(former, current):
        former.rename(new)
        current.rename(former)
        new.rename(current)
    sync_folder(former.parent)


def _swap(first: Path, second: Path) -> bool:
    """Exchange two names. False if the system has no call for it."""
    if sys.platform != "linux":
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    result = renameat2(
        _CURRENT_FOLDER, os.fsencode(first), _CURRENT_FOLDER, os.fsencode(second), _EXCHANGE
    )
    return bool(result == 0)


@contextmanager
def explain_disk_errors(folder: Path, consequence: str) -> Iterator[None]:
    """Turn errors of the disk with this folder into an error that says what to do.

    `consequence` says what did not happen, such as "No backup was made."
    """
    try:
        yield
    except apsw.FullError as error:
        raise _full(folder, consequence) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(folder, consequence) from error
        raise RecollectError(
            f"{error.filename or folder} cannot be used ({error.strerror or error}). {consequence}"
        ) from error


def _full(folder: Path, consequence: str) -> RecollectError:
    return RecollectError(
        f"The disk with {folder} is full. {consequence} Free some space and try again."
    )
