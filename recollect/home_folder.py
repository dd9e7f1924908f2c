"""What Recollect stores in a home folder.

People may choose a folder that has other files as well. Those are left alone: they are neither
encrypted nor backed up, and their permissions and those of the folder stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

USERS = "users"
"""A folder for each user, with the library."""
ARCHIVE = "archive"
"""Transcripts that were imported, by user."""
AUDIT = "audit"
IMPORTING = "importing"
"""Locks of imports that are running, by user."""
UPLOADS = "uploads"
SPOOL = "spool"
"""What hooks reported and nobody has imported yet."""
RESULTS = ".results"
"""The ids behind the numbers that the command line prints."""
MODELS = "models"
BACKUP_WORK = ".backup"
"""Copies of databases while they are backed up or restored."""
REPLACED = "replaced-"
"""The start of the names of folders with what a restore replaced."""
KEYS = "keys.db"
SERVER_DATABASE = "server.db"
KEY_FILE = "recollect-key.json"
EXCLUSIONS = "exclude.txt"
HOOK_LOG = "hook.log"

_DATABASES = (KEYS, SERVER_DATABASE)
_OTHERS = frozenset(
    {
        *(USERS, ARCHIVE, AUDIT, IMPORTING, UPLOADS, SPOOL, RESULTS, MODELS, BACKUP_WORK),
        *(KEY_FILE, EXCLUSIONS, HOOK_LOG),
        "recollect.toml",  # on macOS, the folders for settings and for data are the same
    }
)


def own_entries(home: Path) -> Iterator[Path]:
    """The files and folders in a home that are Recollect's."""
    return (path for path in sorted(home.iterdir()) if is_own(path.name))


def has_other_entries(home: Path) -> bool:
    """Whether a folder has files that are not Recollect's. Hidden ones do not count."""
    return any(not is_own(path.name) and path.name[0] != "." for path in home.iterdir())


def is_own(name: str) -> bool:
    """Whether Recollect gives a file or folder in a home this name."""
    # A database may have `-wal` and other files beside it.
    return name in _OTHERS or name.startswith((*_DATABASES, REPLACED))
