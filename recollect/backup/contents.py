"""Which files of a home folder a backup contains.

Everything of Recollect's is included, except what can be made again: the index files and the
vectors of a library, downloaded models, logs, locks, copies that Recollect made itself, and what
servers share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from recollect.backup.durable import TEMPORARY
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

LIBRARY = "library.db"

_HOME_LEVEL = {MODELS, HOOK_LOG, SERVER_DATABASE, BACKUP_WORK}
_LIBRARY_LEVEL = {"index"}
_SUFFIXES = ("-wal", "-shm", "-journal", ".lock", TEMPORARY)


def files(home: Path, library: str = "") -> list[str]:
    """The paths below a home folder, with the databases first.

    With `library`, only the files of the library in this folder. Databases come first, because they
    describe other files, which may only be newer.
    """
    paths = sorted(_walk(home, PurePosixPath()), key=lambda path: (not path.endswith(".db"), path))
    if not library:
        return paths
    prefixes = (f"{USERS}/{library}/", f"{ARCHIVE}/{library}/", KEY_FILE)
    return [path for path in paths if path.startswith(prefixes)]


def _walk(home: Path, folder: PurePosixPath) -> Iterator[str]:
    with os.scandir(home / folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = folder / entry.name
            if _is_derived(path) or not (folder.parts or is_own(entry.name)):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(home, path)
            elif entry.is_file(follow_symlinks=False):
                yield str(path)


def _is_derived(path: PurePosixPath) -> bool:
    name = path.name
    if name == "lock" or name.endswith(_SUFFIXES):
        return True
    if len(path.parts) == 1:
        return name in _HOME_LEVEL or name.startswith(REPLACED)
    return len(path.parts) == 3 and path.parts[0] == USERS and name in _LIBRARY_LEVEL


def is_library(path: str) -> bool:
    """Whether this is the database of a library."""
    parts = path.split("/")
    return len(parts) == 3 and parts[0] == USERS and parts[2] == LIBRARY
