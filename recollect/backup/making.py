"""Make a backup: copy each database at one moment, store what is new, and read all of it back.

A backup exists once its manifest does. The manifest is written last, after every chunk was read
back from the disk and every copy of a library passed SQLite's integrity check.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import apsw

from recollect import __version__
from recollect.backup import contents
from recollect.backup.durable import explain_disk_errors, make_folder
from recollect.backup.last_backup import remember_backup
from recollect.backup.manifest import FileRecord, LibraryRecord, Manifest, new_id
from recollect.backup.repository import Repository
from recollect.backup.storing import store_file, unreadable_chunks
from recollect.backup.work_folder import work_folder
from recollect.errors import DamagedBackup, DamagedLibrary, InvalidInput, NotFound
from recollect.places import library_file, move
from recollect.progress import Progress, ignore_progress
from recollect.store.sqlite.connections.database_errors import translate_error
from recollect.store.sqlite.files.encryption import copy_key_file
from recollect.store.sqlite.files.snapshot import (
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
            _require_apart(repository.folder, place)
            with explain_disk_errors(place, NO_BACKUP), work_folder(place) as work:
                manifest = _Backup(repository, place, work, report).make(user or "", "sqlite")
                remember_backup(place, repository.folder, manifest.id)
                return manifest
        if not user:
            raise InvalidInput("A library in PostgreSQL is backed up for one user: --user NAME.")
        with work_folder(work_home) as work:
            home = work / "home"
            make_folder(home)
            copy_key_file(work_home, home)
            move(place, home, user, progress=_rename_step(report))
            return _Backup(repository, home, work, report).make(user, "postgresql")


def _rename_step(report: Progress) -> Progress:
    def forward(step: str, count: int, total: int) -> None:
        report("Reading from PostgreSQL", count, total)

    return forward


def _require_apart(folder: Path, home: Path) -> None:
    """A restore moves parts of the home folder away, and backups must not be among them."""
    if folder.resolve().is_relative_to(home.resolve()):
        raise InvalidInput(
            f"The backup folder {folder} is inside the home folder {home}. Choose a folder outside "
            "of it, best on another disk."
        )


class _Backup:
    """One backup that is being made."""

    def __init__(self, repository: Repository, home: Path, work: Path, report: Progress) -> None:
        self._repository = repository
        self._home = home
        self._work = work
        self._report = report
        self._step = ""
        self._count = 0
        self._total = 0

    def make(self, user: str, engine: str) -> Manifest:
        folder = ""
        if user:
            folder = library_file(self._home, user).parent.name
        paths = contents.files(self._home, folder)
        if not any(contents.is_library(path) for path in paths):
            raise NotFound(f"There is nothing to back up: no library at {self._home}.")
        backups, _ = self._repository.readable_manifests()
        before = self._repository.flush()
        created_at = datetime.now(UTC)
        records, libraries = self._store(paths)
        problems = self._read_back(records)
        if problems:
            # A chunk of an older backup was damaged. Store it again, for both backups.
            for name in problems:
                self._repository.forget(name)
            created_at = datetime.now(UTC)
            records, libraries = self._store(paths)
            problems = self._read_back(records)
        if problems:
            problem = next(iter(problems.values()))
            raise DamagedBackup(
                f"The backup could not be read back, so it does not count: {problem} {NO_BACKUP} "
                "Check the disk."
            )
        manifest = Manifest(
            id=new_id(created_at),
            created_at=created_at,
            user=user,
            engine=engine,
            recollect=__version__,
            libraries=tuple(libraries),
            files=tuple(records),
            added_bytes=self._repository.flush() - before,
            sequence=1 + max((backup.sequence for backup in backups), default=0),
        )
        with explain_disk_errors(self._repository.folder, NO_BACKUP):
            self._repository.write_manifest(manifest)
        return manifest

    def _store(self, paths: list[str]) -> tuple[list[FileRecord], list[LibraryRecord]]:
        self._begin("Backing up", sum(_size(self._home / path) for path in paths))
        records = []
        libraries = []
        for path in paths:
            try:
                if path.endswith(".db"):
                    copy = self._copy_database(path)
                    if contents.is_library(path):
                        libraries.append(_count(path, copy))
                    else:
                        check_database_copy(copy)
                    records.append(self._store_file(path, copy))
                    copy.unlink()
                else:
                    records.append(self._store_file(path, self._home / path))
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

    def _copy_database(self, path: str) -> Path:
        source = self._home / path
        source.stat()  # raises FileNotFoundError
        copy = self._work / "copy.db"
        copy.unlink(missing_ok=True)
        try:
            copy_database(source, copy)
        except apsw.FullError:
            raise  # the disk with the copy is full
        except apsw.Error as error:
            raise translate_error(error, source) from error
        return copy

    def _store_file(self, path: str, file: Path) -> FileRecord:
        folder = self._repository.folder
        with file.open("rb") as stream, explain_disk_errors(folder, NO_BACKUP):
            return store_file(self._repository, path, stream, self._advance)

    def _read_back(self, records: list[FileRecord]) -> dict[bytes, str]:
        """Read everything from the disk, and return the chunks that are not intact."""
        self._begin("Verifying", sum(record.size for record in records))
        problems: dict[bytes, str] = {}
        for record in records:
            problems |= unreadable_chunks(self._repository, record, self._advance)
        return problems

    def _begin(self, step: str, total: int) -> None:
        self._step = step
        self._count = 0
        self._total = total

    def _advance(self, count: int) -> None:
        self._count += count
        self._report(self._step, self._count, max(self._count, self._total))


def _count(path: str, copy: Path) -> LibraryRecord:
    counts = check_library_copy(copy)
    name = path.split("/")[1]
    return LibraryRecord(name, counts.schema, counts.documents, counts.messages)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
