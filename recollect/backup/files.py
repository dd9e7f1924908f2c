"""Files of a home folder and of a backup folder: which are backed up, and how they are written."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import apsw
import orjson

from recollect.errors import RecollectError, StoreBusy
from recollect.home_folder import (
    ARCHIVE,
    BACKUP_WORK,
    HOOK_LOG,
    KEY_FILE,
    MODELS,
    REPLACED,
    SERVER_DATABASE,
    USERS,
    is_own,
)
from recollect.settings import READ_ONLY
from recollect.store.durability import sync_folder
from recollect.store.sqlite.encryption import copy_key_file
from recollect.store.sqlite.private_files import create_private_folder, file_lock

TEMPORARY = ".tmp"
"""The suffix of files that are not complete."""
_LAST = f"{BACKUP_WORK}/last.json"
_DERIVED_IN_HOME = {MODELS, HOOK_LOG, SERVER_DATABASE, BACKUP_WORK}
_DERIVED_SUFFIXES = ("-wal", "-shm", "-journal", ".lock", TEMPORARY)

# From linux/fcntl.h and linux/fs.h.
_CURRENT_FOLDER = -100
_EXCHANGE = 2


# -- contents ------------------------------------------------------------------


def files_to_back_up(home: Path, library: str = "") -> list[str]:
    """The paths below a home folder, with the databases first.

    Everything of Recollect's is included, except what can be made again: the index files and the
    vectors of a library, downloaded models, logs, locks, copies that Recollect made itself, and
    what servers share. With `library`, only the files of the library in this folder. Databases come
    first, because they describe other files, which may only be newer.
    """
    paths = sorted(walk(home, PurePosixPath()), key=lambda path: (not path.endswith(".db"), path))
    if not library:
        return paths
    prefixes = (f"{USERS}/{library}/", f"{ARCHIVE}/{library}/", KEY_FILE)
    return [path for path in paths if path.startswith(prefixes)]


def walk(home: Path, folder: PurePosixPath) -> Iterator[str]:
    with os.scandir(home / folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = folder / entry.name
            if is_derived(path) or not (folder.parts or is_own(entry.name)):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from walk(home, path)
            elif entry.is_file(follow_symlinks=False):
                yield str(path)


def is_derived(path: PurePosixPath) -> bool:
    name = path.name
    if name == "lock" or name.endswith(_DERIVED_SUFFIXES):
        return True
    if len(path.parts) == 1:
        return name in _DERIVED_IN_HOME or name.startswith(REPLACED)
    return len(path.parts) == 3 and path.parts[0] == USERS and name == "index"


def is_library(path: str) -> bool:
    """Whether this is the database of a library."""
    parts = path.split("/")
    return len(parts) == 3 and parts[0] == USERS and parts[2] == "library.db"


# -- writing -------------------------------------------------------------------


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, which only their owner may read."""
    create_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def create_file(path: Path) -> BinaryIO:
    """Create a file that only its owner may read."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_file(path: Path, data: bytes) -> None:
    """Write a file under its name only when it is complete and on disk.

    Its next reader reads it from the disk, which proves that the disk has it.
    """
    temporary = path.with_name(f"{uuid.uuid4().hex}{TEMPORARY}")
    try:
        with create_file(temporary) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                with suppress(OSError):
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
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
    if not swap(former, current):
        former.rename(new)
        current.rename(former)
        new.rename(current)
    sync_folder(former.parent)


def swap(first: Path, second: Path) -> bool:
    """Exchange two names. False if the system has no call for it."""
    if sys.platform != "linux":
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = (_CURRENT_FOLDER, os.fsencode(first), _CURRENT_FOLDER, os.fsencode(second))
    return bool(renameat2(*names, _EXCHANGE) == 0)


@contextmanager
def explain_disk_errors(folder: Path, consequence: str) -> Iterator[None]:
    """Turn errors of the disk with this folder into an error that says what to do.

    `consequence` says what did not happen, such as "No backup was made."
    """
    full = f"The disk with {folder} is full. {consequence} Free some space and try again."
    try:
        yield
    except apsw.FullError as error:
        raise RecollectError(full) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RecollectError(full) from error
        raise RecollectError(
            f"{error.filename or folder} cannot be used ({error.strerror or error}). {consequence}"
        ) from error


@contextmanager
def work_folder(home: Path) -> Iterator[Path]:
    """An empty folder for copies, deleted at the end. So are remains of an earlier process.

    It is in the home folder, not in the backup folder: the copies are only encrypted if the home
    is, and the backup folder may be on a disk that others can read. For a home that is read-only,
    it is elsewhere.
    """
    base = home / BACKUP_WORK
    if not can_write(home, base):
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


def can_write(home: Path, base: Path) -> bool:
    if READ_ONLY.get() or not home.exists():
        return False
    try:
        make_folder(base)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return os.access(base, os.W_OK)


# -- the last one --------------------------------------------------------------


def remember_backup(home: Path, folder: Path, id: str) -> None:
    """Record the newest backup in a folder, unless the home folder cannot be written to.

    Whoever can write to a backup folder can put back an older state of it, which is intact in
    itself. So the home folder remembers the newest backup that must be there.
    """
    if READ_ONLY.get():
        return
    ids = last_ids(home) | {str(folder.absolute()): id}
    with suppress(OSError):  # the backup itself is complete
        make_folder(home / BACKUP_WORK)
        write_file(home / _LAST, orjson.dumps(ids, option=orjson.OPT_INDENT_2))


def missing_backup(home: Path, folder: Path, ids: Collection[str]) -> str:
    """A sentence about the newest backup if it has disappeared from its folder; else empty."""
    last = last_ids(home).get(str(folder.absolute()))
    if last is None or last in ids:
        return ""
    return (
        f"Backup {last} was the newest one in {folder}, and is missing. Somebody deleted it, or "
        "put back an older state of the folder."
    )


def last_ids(home: Path) -> dict[str, str]:
    try:
        record = orjson.loads((home / _LAST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return record if isinstance(record, dict) else {}
