"""Backups at regular times, made by a thread of a server."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recollect.backup.locations import backup_folder
from recollect.backup.making import make_backup
from recollect.backup.manifest import Manifest, oldest_first
from recollect.backup.passphrase import configured_passphrase
from recollect.backup.repository import (
    Repository,
    create_repository,
    exists,
    open_repository,
)
from recollect.backup.retention import parse_rules, prune
from recollect.errors import NotFound, RecollectError, StoreBusy
from recollect.passphrases import require_strength
from recollect.progress import Progress
from recollect.settings import BACKUP_EVERY, BACKUP_KEEP, default_user, home

log = logging.getLogger(__name__)

_CHECK_SECONDS = 60.0
_RETRY_SECONDS = 3_600.0
_STOP_SECONDS = 5.0


_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_interval(text: str) -> timedelta | None:
    """The setting `backup_every`: `12h`, `1d`, `2w`; None for `off`."""
    if text == "off":
        return None
    return timedelta(seconds=int(text[:-1]) * _SECONDS[text[-1]])


def backup_user(place: Path | str) -> str:
    """Whose library a backup contains; empty for all libraries of a home."""
    if isinstance(place, Path):
        return ""
    return default_user()


def back_up_now(place: Path | str, progress: Progress) -> Manifest:
    """Make the backup that the schedule would make, whether it is due or not."""
    with _open(backup_folder(place)) as repository:
        return make_backup(repository, place, backup_user(place), progress, work_home=home())


class BackupSchedule:
    """Makes a backup whenever the newest one is older than RECOLLECT_BACKUP_EVERY."""

    def __init__(self, place: Path | str) -> None:
        self._place = place
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if parse_interval(BACKUP_EVERY.get()) is None:
            return
        self._thread = threading.Thread(target=self._run, name="recollect-backup", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop. A backup in progress is abandoned; older ones are intact."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _stop_if_closing(self, step: str, count: int, total: int) -> None:
        if self._closing.is_set():
            raise StoreBusy("The server is shutting down.")

    def _run(self) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            pause = _CHECK_SECONDS
            try:
                self.run_if_due(datetime.now(UTC))
            except (StoreBusy, NotFound):
                continue  # another process makes one, or there is no library yet
            except (RecollectError, OSError) as error:
                log.error("The scheduled backup failed: %s", error)
                pause = _RETRY_SECONDS

    def run_if_due(self, now: datetime) -> bool:
        """Make a backup and remove expired ones, if it is time. Returns whether it was."""
        interval = parse_interval(BACKUP_EVERY.get())
        if interval is None:
            return False
        user = backup_user(self._place)
        with _open(backup_folder(self._place)) as repository:
            backups, problems = repository.readable_manifests()
            for problem in problems.values():
                log.error("%s", problem)
            own = oldest_first(backup for backup in backups if backup.user == user)
            if own and timedelta(0) <= now - own[-1].created_at < interval:
                return False
            manifest = make_backup(
                repository, self._place, user, self._stop_if_closing, work_home=home()
            )
            log.info("Made backup %s in %s.", manifest.id, repository.folder)
            prune(repository, parse_rules(BACKUP_KEEP.get()))
        return True


def _open(folder: Path) -> Repository:
    passphrase = configured_passphrase()
    if exists(folder):
        return open_repository(folder, passphrase)
    if passphrase is not None:
        require_strength(passphrase)
    return create_repository(folder, passphrase)
