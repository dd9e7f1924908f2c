"""The state of the backups of a place: the last one, the next one, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from recollect.backup.last_backup import missing_backup
from recollect.backup.locations import backup_folder
from recollect.backup.manifest import Manifest, clock_problem, oldest_first
from recollect.backup.passphrase import configured_passphrase
from recollect.backup.repository import exists, is_encrypted, open_repository
from recollect.backup.schedule import backup_user, parse_interval
from recollect.errors import RecollectError
from recollect.settings import BACKUP_EVERY

_UNITS = {"m": "minute", "h": "hour", "d": "day", "w": "week"}


@dataclass(frozen=True, slots=True)
class BackupOverview:
    folder: Path
    every: str
    """The setting `backup_every`: how often a backup is made, or `off`."""
    last: Manifest | None = None
    """A backup exists only after all of it was read back and verified."""
    count: int = 0
    is_encrypted: bool = False
    next_at: datetime | None = None
    """When the next backup is due; None without a schedule."""
    problem: str = ""

    @property
    def interval(self) -> str:
        """How often a backup is made, in words: `every 12 hours`."""
        count, unit = int(self.every[:-1]), _UNITS[self.every[-1]]
        if count == 1:
            return f"every {unit}"
        return f"every {count} {unit}s"


def backup_overview(place: Path | str) -> BackupOverview:
    """Read the manifests of a place's backups. A problem is part of the result."""
    folder, every = backup_folder(place), BACKUP_EVERY.get()
    if not exists(folder):
        return BackupOverview(folder, every)
    try:
        encrypted = is_encrypted(folder)
        with open_repository(folder, configured_passphrase()) as repository:
            backups, problems = repository.readable_manifests()
            ids = repository.ids()
    except (RecollectError, OSError) as error:
        return BackupOverview(folder, every, problem=str(error))
    if isinstance(place, Path):
        missing = missing_backup(place, folder, ids)
        if missing:
            problems["missing"] = missing
    backups = [backup for backup in backups if backup.user == backup_user(place)]
    last = next(reversed(oldest_first(backups)), None)
    next_at = None
    interval = parse_interval(every)
    if last is not None:
        problems |= {each.id: clock_problem(each) for each in backups if clock_problem(each)}
        if interval is not None:
            next_at = last.created_at + interval
            if clock_problem(last):
                next_at = datetime.now(UTC)
    problem = " ".join(problems.values())
    return BackupOverview(folder, every, last, len(backups), encrypted, next_at, problem)
