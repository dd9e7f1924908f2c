"""Make backups, and check those that were made earlier.

A backup exists once its manifest does. The manifest is written last, after every chunk was read
back from the disk and every copy of a library passed SQLite's integrity check.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from recollect import __version__
from recollect.backup.files import (
    explain_disk_errors,
    files_to_back_up,
    is_library,
    make_folder,
    remember_backup,
    work_folder,
    write_file,
)
from recollect.backup.manifest import FileRecord, LibraryRecord, Manifest, new_id
from recollect.backup.repository import Repository
from recollect.errors import DamagedBackup, DamagedLibrary, InvalidInput, NotFound
from recollect.home_folder import KEY_FILE
from recollect.places import library_file, move
from recollect.progress import Progress, ignore_progress
from recollect.store.sqlite.database_errors import translate_error
from recollect.store.sqlite.encryption import (
    copy_key_file,
    find_key_file,
    read_key_file,
    write_plain_mark,
)
from recollect.store.sqlite.verification import (
    check_database_copy,
    check_library_copy,
    copy_database,
)

NO_BACKUP = "No backup was made; older backups are intact."


def make_backup(
    repository: Repository,
    place: Path | str,
    user: str | None = None,
    progress: Progress | None = None,
    *,
    work_home: Path,
) -> Manifest:
    """Back up the libraries of a place; of this user only, if one is given.

    From a database server, only the library of a user can be backed up. `work_home` is the folder
    for temporary copies then.
    """
    report = progress or ignore_progress
    with explain_disk_errors(repository.folder, NO_BACKUP), repository.lock():
        repository.sweep()
        if isinstance(place, Path):
            # A restore moves parts of the home folder away, and backups must not be among them.
            if repository.folder.resolve().is_relative_to(place.resolve()):
                raise InvalidInput(
                    f"The backup folder {repository.folder} is inside the home folder {place}. "
                    "Choose a folder outside of it, best on another disk."
                )
            with explain_disk_errors(place, NO_BACKUP), work_folder(place) as work:
                manifest = _Backup(repository, place, work, report).make(user or "", "sqlite")
                remember_backup(place, repository.folder, manifest.id)
                return manifest
        if not user:
            raise InvalidInput("A library in PostgreSQL is backed up for one user: --user NAME.")

        def report_move(_: str, count: int, total: int) -> None:
            report("Reading from PostgreSQL", count, total)

        with work_folder(work_home) as work:
            home = work / "home"
            make_folder(home)
            copy_key_file(work_home, home)
            move(place, home, user, progress=report_move)
            return _Backup(repository, home, work, report).make(user, "postgresql")


class _Backup:
    """One backup that is being made."""

    def __init__(self, repository: Repository, home: Path, work: Path, report: Progress) -> None:
        self._repository = repository
        self._home = home
        self._work = work
        self._report = report

    def make(self, user: str, engine: str) -> Manifest:
        folder = library_file(self._home, user).parent.name if user else ""
        paths = files_to_back_up(self._home, folder)
        if not any(map(is_library, paths)):
            raise NotFound(f"There is nothing to back up: no library at {self._home}.")
        repository = self._repository
        earlier, _ = repository.readable_manifests()
        before = repository.written
        for _ in range(2):
            created_at = datetime.now(UTC)
            records, libraries = self._store(paths)
            problems = self._read_back(records)
            if not problems:
                break
            for name in problems:  # of an older backup: it is stored again, for both
                repository.forget(name)
        else:
            raise DamagedBackup(
                "The backup could not be read back, so it does not count: "
                f"{next(iter(problems.values()))} {NO_BACKUP} Check the disk."
            )
        manifest = Manifest(
            id=new_id(created_at),
            created_at=created_at,
            user=user,
            engine=engine,
            recollect=__version__,
            libraries=tuple(libraries),
            files=tuple(records),
            added_bytes=repository.written - before,
            sequence=1 + max((backup.sequence for backup in earlier), default=0),
        )
        with explain_disk_errors(repository.folder, NO_BACKUP):
            repository.write_manifest(manifest)
        return manifest

    def _store(self, paths: list[str]) -> tuple[list[FileRecord], list[LibraryRecord]]:
        sizes = {path: size(self._home / path) for path in paths}
        self._begin("Backing up", sum(sizes.values()))
        records = []
        libraries = []
        for path in paths:
            file = self._home / path
            try:
                if path.endswith(".db"):
                    file.stat()  # raises FileNotFoundError
                    file = self._copy_database(file)
                    if is_library(path):
                        libraries.append(_count(path, file))
                    else:
                        check_database_copy(file)
                folder = self._repository.folder
                with file.open("rb") as stream, explain_disk_errors(folder, NO_BACKUP):
                    records.append(self._repository.add_file(path, stream, self._advance))
            except FileNotFoundError:
                if (self._home / path).exists():
                    raise
                continue  # it was deleted meanwhile
            except DamagedLibrary as error:
                raise DamagedLibrary(
                    f"{self._home / path} is damaged, and so would be its backup. {error} "
                    f"{NO_BACKUP} Run `recollect doctor`."
                ) from error
        with explain_disk_errors(self._repository.folder, NO_BACKUP):
            self._repository.flush()
        return records, libraries

    def _copy_database(self, source: Path) -> Path:
        copy = self._work / "copy.db"
        copy.unlink(missing_ok=True)
        try:
            copy_database(source, copy)
        except apsw.FullError:
            raise  # the disk with the copy is full
        except apsw.Error as error:
            raise translate_error(error, source) from error
        return copy

    def _read_back(self, records: list[FileRecord]) -> dict[bytes, str]:
        """Read everything from the disk, and return the chunks that are not intact."""
        self._begin("Verifying", sum(record.size for record in records))
        problems: dict[bytes, str] = {}
        for record in records:
            problems |= self._repository.unreadable_chunks(record, self._advance)
        return problems

    def _begin(self, step: str, total: int) -> None:
        self._step, self._count, self._total = step, 0, total

    def _advance(self, count: int) -> None:
        self._count += count
        self._report(self._step, self._count, max(self._count, self._total))


def _count(path: str, copy: Path) -> LibraryRecord:
    counts = check_library_copy(copy)
    return LibraryRecord(path.split("/")[1], counts.schema, counts.documents, counts.messages)


def size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


# -- checking ------------------------------------------------------------------


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
    try:
        prepare_key(repository, backup, work)
    except DamagedBackup as error:
        return Verification(id, (f"{KEY_FILE}: {error}",))
    problems = []
    count = 0
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
    outer = find_key_file(work)
    if record is None:
        if outer is not None:
            write_plain_mark(work)
        return
    write_file(target, b"".join(repository.read_file(record)))
    if outer is not None and read_key_file(outer).id == read_key_file(target).id:
        target.unlink()


def rebuild(repository: Repository, backup: Manifest, file: FileRecord, target: Path) -> None:
    """Write a file of a backup to `target` and check it. Raises DamagedBackup."""
    target.unlink(missing_ok=True)
    with target.open("wb") as stream:
        target.chmod(0o600)
        for data in repository.read_file(file):
            stream.write(data)
    if not file.is_database:
        return
    name = f"{file.path} in backup {backup.id}"
    try:
        if not is_library(file.path):
            check_database_copy(target)
            return
        record = _count(file.path, target)
    except DamagedLibrary as error:
        raise DamagedBackup(f"{name}: {error}") from error
    if record not in backup.libraries:
        raise DamagedBackup(
            f"{name} has {record.documents:,} documents and {record.messages:,} messages, not the "
            "number that was backed up."
        )
