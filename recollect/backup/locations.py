"""Where the backups of a place are."""

from __future__ import annotations

from pathlib import Path

from recollect.configuration import expand_path
from recollect.settings import BACKUP_FOLDER, home


def backup_folder(place: Path | str, folder: str | None = None) -> Path:
    """The folder with the backups of a place: the argument, else the setting, else a folder beside
    the home folder."""
    folder = folder or BACKUP_FOLDER.get()
    if folder:
        return expand_path(folder)
    base = home()
    if isinstance(place, Path):
        base = place
    base = base.absolute()
    return base.with_name(f"{base.name}-backups")
