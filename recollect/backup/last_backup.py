"""Which backup was the last one, remembered in the home folder.

Whoever can write to a backup folder can put back an older state of it, which is intact in itself.
So the home folder remembers the newest backup that must be there.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import orjson

from recollect.backup.durable import make_folder, write_file
from recollect.home_folder import BACKUP_WORK
from recollect.settings import READ_ONLY

_FILE = "last.json"


def remember_backup(home: Path, folder: Path, id: str) -> None:
    """Record the newest backup in a folder, unless the home folder cannot be written to."""
    if READ_ONLY.get():
        return
    ids = _read(home) | {str(folder.absolute()): id}
    with suppress(OSError):  # the backup itself is complete
        make_folder(home / BACKUP_WORK)
        write_file(home / BACKUP_WORK / _FILE, orjson.dumps(ids, option=orjson.OPT_INDENT_2))


def missing_backup(home: Path, folder: Path, ids: Collection[str]) -> str:
    """A sentence about the newest backup if it has disappeared from its folder; else empty."""
    last = _read(home).get(str(folder.absolute()))
    if last is None or last in ids:
        return ""
    return (
        f"Backup {last} was the newest one in {folder}, and is missing. Somebody deleted it, or "
        "put back an older state of the folder."
    )


def _read(home: Path) -> dict[str, str]:
    try:
        record = orjson.loads((home / BACKUP_WORK / _FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    if not isinstance(record, dict):
        return {}
    return record
