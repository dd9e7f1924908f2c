"""When backups are made, where they are, which of them are kept, and their state."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recollect.backup.files import explain_disk_errors, missing_backup
from recollect.backup.making import make_backup
from recollect.backup.manifest import Manifest, oldest_first
from recollect.backup.repository import (
    Repository,
    create_repository,
    exists,
    is_encrypted,
    open_repository,
)
from recollect.configuration import expand_path
from recollect.errors import DamagedBackup, NotFound, RecollectError, StoreBusy
from recollect.passphrases import read_passphrase, require_strength
from recollect.progress import Progress
from recollect.settings import (
    BACKUP_EVERY,
    BACKUP_FOLDER,
    BACKUP_KEEP,
    BACKUP_PASSPHRASE,
    BACKUP_PASSPHRASE_FILE,
    default_user,
    home,
)

log = logging.getLogger(__name__)

_UNITS = {"m": ("minute", 60), "h": ("hour", 3_600), "d": ("day", 86_400), "w": ("week", 604_800)}
_PERIODS = {"daily": "%Y-%m-%d", "weekly": "%G-%V", "monthly": "%Y-%m"}
RULES = ("last", *_PERIODS)
_MAX_WASTE = 0.25
"""Rewriting a pack to free less than this share of it is not worth the time."""
_CHECK_SECONDS = 60.0
_RETRY_SECONDS = 3_600.0
_STOP_SECONDS = 5.0


# -- where ---------------------------------------------------------------------


def backup_folder(place: Path | str, folder: str | None = None) -> Path:
    """The folder with the backups of a place: the argument, else the setting, else a folder beside
    the home folder."""
    folder = folder or BACKUP_FOLDER.get()
    if folder:
        return expand_path(folder)
    base = (place if isinstance(place, Path) else home()).absolute()
    return base.with_name(f"{base.name}-backups")


def configured_passphrase() -> str | None:
    """The passphrase in the settings, or None."""
    file = BACKUP_PASSPHRASE_FILE.get()
    if file:
        return read_passphrase(expand_path(file))
    return BACKUP_PASSPHRASE.get() or None


def backup_user(place: Path | str) -> str:
    """Whose library a backup contains; empty for all libraries of a home."""
    return "" if isinstance(place, Path) else default_user()


# -- which are kept ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PruneResult:
    remaining_ids: tuple[str, ...]
    removed_ids: tuple[str, ...]
    freed_bytes: int


def parse_rules(text: str) -> dict[str, int]:
    """The rules of the setting `backup_keep`. A rule that is not named keeps nothing."""
    counts = dict.fromkeys(RULES, 0)
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if name:
            counts[name] = int(number)
    return counts


def expired(backups: Sequence[Manifest], keep: dict[str, int]) -> list[Manifest]:
    """The backups that no rule keeps.

    `keep` has a number for `last`, `daily`, `weekly` and `monthly`. The newest backup of a period
    counts for it. Backups of each user, and those of everything, are counted apart, and the newest
    of each is always kept.
    """
    removable: list[Manifest] = []
    for user in {backup.user for backup in backups}:
        newest_first = oldest_first(backup for backup in backups if backup.user == user)[::-1]
        retained = {backup.id for backup in newest_first[: max(1, keep.get("last", 0))]}
        for period, pattern in _PERIODS.items():
            newest: dict[str, str] = {}
            for backup in newest_first:
                newest.setdefault(backup.created_at.strftime(pattern), backup.id)
            retained.update(list(newest.values())[: keep.get(period, 0)])
        removable += [backup for backup in newest_first if backup.id not in retained]
    return sorted(removable, key=lambda backup: backup.id)


def prune(repository: Repository, keep: dict[str, int], *, compact: bool = False) -> PruneResult:
    """Delete expired backups, and the chunks that only they used.

    With `compact`, no unused chunk remains; otherwise some remain in packs that are mostly used.
    """
    nothing = "Nothing more was removed."
    with repository.lock(), explain_disk_errors(repository.folder, nothing):
        repository.sweep()
        backups, problems = repository.readable_manifests()
        for id_, problem in problems.items():
            raise DamagedBackup(
                f"{problem} So it is not certain which chunks are still needed, and nothing was "
                f"removed. If you give backup {id_} up, delete its file in "
                f"{repository.folder / 'backups'}."
            )
        removed_ids = {backup.id for backup in expired(backups, keep)}
        remaining = [backup for backup in backups if backup.id not in removed_ids]
        live = live_chunks(repository, remaining)
        for id_ in sorted(removed_ids):
            repository.delete_manifest(id_)
        freed = repository.keep_chunks(live, 0.0 if compact else _MAX_WASTE)
    remaining_ids = tuple(backup.id for backup in remaining)
    return PruneResult(remaining_ids, tuple(sorted(removed_ids)), max(0, freed))


def live_chunks(repository: Repository, backups: Sequence[Manifest]) -> set[bytes]:
    live: set[bytes] = set()
    lists: set[str] = set()
    for backup in backups:
        for file in backup.files:
            if lists.issuperset(file.lists):
                continue
            lists.update(file.lists)
            live.update(bytes.fromhex(name) for name in file.lists)
            try:
                live.update(repository.chunk_names(file))
            except DamagedBackup as error:
                raise DamagedBackup(
                    f"Backup {backup.id} is damaged ({error}), so it is not certain which chunks "
                    "are still needed. Nothing was removed. Run `recollect backup verify`."
                ) from error
    return live


# -- when ----------------------------------------------------------------------


def parse_interval(text: str) -> timedelta | None:
    """The setting `backup_every`: `12h`, `1d`, `2w`; None for `off`."""
    if text == "off":
        return None
    return timedelta(seconds=int(text[:-1]) * _UNITS[text[-1]][1])


def back_up_now(place: Path | str, progress: Progress) -> Manifest:
    """Make the backup that the schedule would make, whether it is due or not."""
    with _open(backup_folder(place)) as repository:
        return make_backup(repository, place, backup_user(place), progress, work_home=home())


def _open(folder: Path) -> Repository:
    passphrase = configured_passphrase()
    if exists(folder):
        return open_repository(folder, passphrase)
    if passphrase is not None:
        require_strength(passphrase)
    return create_repository(folder, passphrase)


class BackupSchedule:
    """A thread of a server that makes a backup when the newest one is older than the setting."""

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


# -- the state -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BackupOverview:
    """The state of the backups of a place: the last one, the next one, and what is wrong."""

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
        count, (unit, _) = int(self.every[:-1]), _UNITS[self.every[-1]]
        return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def backup_overview(place: Path | str) -> BackupOverview:
    """Read the manifests of a place's backups. A problem is part of the result."""
    folder, every = backup_folder(place), BACKUP_EVERY.get()
    if not exists(folder):
        return BackupOverview(folder, every)
    try:
        encrypted = is_encrypted(folder)
        with open_repository(folder, configured_passphrase()) as repository:
            backups, unreadable = repository.readable_manifests()
            ids = repository.ids()
    except (RecollectError, OSError) as error:
        return BackupOverview(folder, every, problem=str(error))
    problems = list(unreadable.values())
    if isinstance(place, Path):
        problems.append(missing_backup(place, folder, ids))
    own = oldest_first(backup for backup in backups if backup.user == backup_user(place))
    problems += [backup.clock_problem for backup in own]
    next_at = None
    interval = parse_interval(every)
    if own and interval is not None:
        next_at = own[-1].created_at + interval
        if own[-1].clock_problem:
            next_at = datetime.now(UTC)
    return BackupOverview(
        folder,
        every,
        own[-1] if own else None,
        len(own),
        encrypted,
        next_at,
        " ".join(filter(None, problems)),
    )
