"""Errors of SQLite and of the disk, as errors that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from recollect.errors import (
    DAMAGE_ADVICE,
    DamagedLibrary,
    ReadOnlyLibrary,
    RecollectError,
    SearchTimeout,
    StorageFull,
    StoreBusy,
)
from recollect.settings import LIMITS
from recollect.store.sqlite.encryption import is_encrypted

STORAGE_FULL = "The disk is full, so nothing was written. Free some space and try again."
READ_ONLY = (
    "This library is read-only ({reason}), so nothing was written. Searching and reading work."
)
# SQLite needs this much for the memory that its connections share.
_MIN_FREE_BYTES = 65_536


def translate_error(error: apsw.Error, path: Path) -> RecollectError:
    """An SQLite error as an error that explains what to do."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"Another program has been writing to {path} for more than "
                f"{LIMITS.write_wait_seconds:g} seconds. Try again when it is done."
            )
        case apsw.InterruptError():
            return SearchTimeout()
        case apsw.NotADBError() if is_encrypted(path):
            return DamagedLibrary(
                f"{path} cannot be decrypted: it is damaged, or not encrypted with the key of its "
                "home. Restore a backup with `recollect restore`."
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return DamagedLibrary(f"{path} is damaged ({error}). {DAMAGE_ADVICE}")
        case apsw.FullError():
            return StorageFull(STORAGE_FULL)
        case apsw.IOError() | apsw.CantOpenError() | apsw.ReadOnlyError() if is_disk_full(path):
            return StorageFull(STORAGE_FULL)
        case apsw.ReadOnlyError():
            return ReadOnlyLibrary(READ_ONLY.format(reason="its files cannot be written"))
        case apsw.CantOpenError():
            return RecollectError(
                f"{path} cannot be opened for writing ({error}). Check the folder's permissions."
            )
        case _:
            return RecollectError(f"The database reported: {error}")


def translate_os_error(error: OSError) -> RecollectError:
    """The error of a file beside the database as an error that explains what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(STORAGE_FULL)
    return RecollectError(f"A file of the library cannot be written ({error}).")


def translate_flush_error(error: OSError) -> RecollectError:
    """The error of a disk that could not store what was committed."""
    kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else RecollectError
    return kind(
        f"The disk could not store the last changes ({error}). They may be lost in a power cut, or "
        "if the disk fails. Check it, and try again."
    )


def is_disk_full(path: Path) -> bool:
    """Whether the disk of a file has too little space for another file."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    if disk.f_files and not disk.f_favail:
        return True
    return disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES
