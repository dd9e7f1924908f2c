"""Check backups that were made earlier: read every chunk, rebuild and check every database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recollect.backup import contents
from recollect.backup.durable import write_file
from recollect.backup.manifest import FileRecord, LibraryRecord, Manifest
from recollect.backup.repository import Repository
from recollect.backup.storing import read_file
from recollect.errors import DamagedBackup, DamagedLibrary
from recollect.home_folder import KEY_FILE
from recollect.progress import Progress
from recollect.store.sqlite.files.encryption import (
    find_key_file,
    read_key_file,
    write_plain_mark,
)
from recollect.store.sqlite.files.snapshot import check_database_copy, check_library_copy


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of checking one backup."""

    id: str
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.problems


def verify(repository: Repository, id: str, work: Path, progress: Progress) -> Verification:
    """Check one backup as a restore would, without stopping at the first problem."""
    try:
        backup = repository.manifest(id)
    except DamagedBackup as error:
        return Verification(id, (str(error),))
    problems = []
    count = 0
    try:
        prepare_key(repository, backup, work)
    except DamagedBackup as error:
        return Verification(id, (f"{KEY_FILE}: {error}",))
    for file in backup.files:
        try:
            rebuild(repository, backup, file, work / "check.db")
        except DamagedBackup as error:
            problems.append(f"{file.path}: {error}")
        count += file.size
        progress("Verifying", count, backup.size)
    return Verification(id, tuple(problems))


def prepare_key(repository: Repository, backup: Manifest, work: Path) -> None:
    """Write the key of a backup to the folder in which it will be rebuilt.

    If the home around that folder has the same key, its key file is used: its passphrase may have
    been changed after the backup.
    """
    record = next((file for file in backup.files if file.path == KEY_FILE), None)
    target = work / KEY_FILE
    target.unlink(missing_ok=True)
    if record is None:
        if find_key_file(work) is not None:
            write_plain_mark(work)
        return
    data = b"".join(read_file(repository, record))
    outer = find_key_file(work)
    write_file(target, data)
    if outer is not None and read_key_file(outer).id == read_key_file(target).id:
        target.unlink()


def rebuild(repository: Repository, backup: Manifest, file: FileRecord, target: Path) -> None:
    """Write a file of a backup to `target` and check it. Raises DamagedBackup."""
    target.unlink(missing_ok=True)
    with target.open("wb") as stream:
        target.chmod(0o600)
        for data in read_file(repository, file):
            stream.write(data)
    if not file.is_database:
        return
    try:
        if contents.is_library(file.path):
            _compare_counts(backup, file, target)
        else:
            check_database_copy(target)
    except DamagedLibrary as error:
        raise DamagedBackup(f"{file.path} in backup {backup.id}: {error}") from error


def _compare_counts(backup: Manifest, file: FileRecord, copy: Path) -> None:
    counts = check_library_copy(copy)
    name = file.path.split("/")[1]
    record = LibraryRecord(name, counts.schema, counts.documents, counts.messages)
    if record not in backup.libraries:
        raise DamagedBackup(
            f"{file.path} in backup {backup.id} has {counts.documents:,} documents and "
            f"{counts.messages:,} messages, not the number that was backed up."
        )
