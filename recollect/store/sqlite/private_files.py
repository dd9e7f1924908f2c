"""Keep the folders and files of a home to their owner, whatever the umask says; and locks on files.

If several users of the computer share a home on purpose, the setting `permissions` leaves their
access as it is.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recollect.home_folder import has_other_entries, own_entries
from recollect.settings import PERMISSIONS

_FOLDER = 0o700
_FILE = 0o600
_OTHERS = 0o077


def create_private_folder(folder: Path) -> None:
    """Create a folder and its parents. `Path.mkdir` would let others read the parents."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=_FOLDER, exist_ok=True)
        protect(path, _FOLDER)


def protect_file(file: Path) -> None:
    """Make a new file private."""
    protect(file, _FILE)


def protect_library(home: Path, library: Path) -> None:
    """Make a home and the files of one library private, unless the setting forbids it."""
    if PERMISSIONS.get() == "keep" or os.name != "posix":
        return
    was_private = is_private(home) and is_private(library.parent) and is_private(library)
    if was_private or not home.is_dir():
        return
    if belongs_to_recollect(home):
        for path in (home, *own_entries(home)):
            protect_any(path)
    users = library.parent.parent
    for path in (users, library.parent, *library.parent.rglob("*")):
        protect_any(path)


def protect_tree(folder: Path) -> None:
    """Make a new folder and everything in it private."""
    if PERMISSIONS.get() == "keep":
        return
    protect(folder, _FOLDER)
    for path in folder.rglob("*"):
        protect_any(path)


def belongs_to_recollect(home: Path) -> bool:
    """Whether a folder is for libraries only: not the user's own, or one that others use."""
    if home.resolve() in (Path.home().resolve(), Path(home.resolve().anchor)):
        return False
    return not home.stat().st_mode & stat.S_ISVTX and not has_other_entries(home)


def is_private(path: Path) -> bool:
    try:
        return not path.stat().st_mode & _OTHERS
    except OSError:
        return True


def protect_any(path: Path) -> None:
    if path.is_dir():
        protect(path, _FOLDER)
    else:
        protect(path, _FILE)


def protect(path: Path, mode: int) -> None:
    # By name: closing a file descriptor would drop SQLite's locks.
    with suppress(OSError):  # it belongs to someone else, or is gone
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)


# -- locks ---


@contextmanager
def file_lock(path: Path, wait: bool = False) -> Iterator[bool]:
    """Lock a file until the end of the block or of the process.

    If another process or thread holds the lock, wait for it, or without `wait` yield False.
    """
    create_private_folder(path.parent)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            lock(file, wait)
        except OSError:
            yield False
            return
        yield True
    finally:
        with suppress(OSError):
            os.close(file)


def lock(file: int, wait: bool) -> None:
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
