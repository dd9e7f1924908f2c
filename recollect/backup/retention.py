"""Which backups are kept, and the removal of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from recollect.backup.durable import explain_disk_errors
from recollect.backup.manifest import Manifest, oldest_first
from recollect.backup.repository import Repository
from recollect.backup.storing import chunk_names
from recollect.errors import DamagedBackup

_PERIODS = {
    "daily": "%Y-%m-%d",
    "weekly": "%G-%V",
    "monthly": "%Y-%m",
}
RULES = ("last", *_PERIODS)
# Rewriting a pack to free less than this share of it is not worth the time.
_MAX_WASTE = 0.25


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
    stands for the period. Backups of different users are counted apart, and the newest of each is
    always kept.
    """
    removable: list[Manifest] = []
    for user in {backup.user for backup in backups}:
        newest_first = oldest_first(backup for backup in backups if backup.user == user)[::-1]
        retained = {backup.id for backup in newest_first[: max(1, keep.get("last", 0))]}
        for period, pattern in _PERIODS.items():
            retained |= _newest_of_each(newest_first, pattern, keep.get(period, 0))
        removable += [backup for backup in newest_first if backup.id not in retained]
    return sorted(removable, key=lambda backup: backup.id)


def _newest_of_each(newest_first: Sequence[Manifest], pattern: str, count: int) -> set[str]:
    newest: dict[str, str] = {}
    for backup in newest_first:
        newest.setdefault(_period(backup.created_at, pattern), backup.id)
    return set(list(newest.values())[:count])


def _period(moment: datetime, pattern: str) -> str:
    return moment.strftime(pattern)


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
        removable = expired(backups, keep)
        removable_ids = {backup.id for backup in removable}
        remaining = [backup for backup in backups if backup.id not in removable_ids]
        live = _live_chunks(repository, remaining)
        for backup in removable:
            repository.delete_manifest(backup.id)
        max_waste = _MAX_WASTE
        if compact:
            max_waste = 0.0
        freed = repository.keep_chunks(live, max_waste)
    return PruneResult(
        tuple(backup.id for backup in remaining), tuple(sorted(removable_ids)), max(0, freed)
    )


def _live_chunks(repository: Repository, backups: Sequence[Manifest]) -> set[bytes]:
    live: set[bytes] = set()
    lists: set[str] = set()
    for backup in backups:
        for file in backup.files:
            if lists.issuperset(file.lists):
                continue
            lists.update(file.lists)
            live.update(bytes.fromhex(name) for name in file.lists)
            try:
                live.update(chunk_names(repository, file))
            except DamagedBackup as error:
                raise DamagedBackup(
                    f"Backup {backup.id} is damaged ({error}), so it is not certain which chunks "
                    "are still needed. Nothing was removed. Run `recollect backup verify`."
                ) from error
    return live
