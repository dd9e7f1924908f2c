"""Restore a backup: write it to the side, check all of it, then exchange it for what is there.

Nothing is replaced before the whole backup was read and checked. Replaced files are kept in the
home folder, in a folder of its own.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import apsw

from recollect.backup.files import exchange, explain_disk_errors, make_folder, work_folder
from recollect.backup.making import prepare_key, rebuild
from recollect.backup.manifest import FileRecord, Manifest
from recollect.backup.repository import Repository
from recollect.errors import (
    Conflict,
    DamagedBackup,
    InvalidInput,
    NewerLibrary,
    NotFound,
    ReadOnlyLibrary,
    RecollectError,
    StoreBusy,
)
from recollect.home_folder import ARCHIVE, KEY_FILE, REPLACED, USERS
from recollect.places import abort_move, library_file, move
from recollect.progress import Progress
from recollect.settings import READ_ONLY
from recollect.store.durability import sync_file, sync_folder
from recollect.store.sqlite.database_errors import translate_error
from recollect.store.sqlite.encryption import apply_key, data_key, read_key_file
from recollect.store.sqlite.schema import VERSION

_UNCHANGED = "Nothing was restored or changed."


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What to restore, and over what."""

    user: str = ""
    """Only the library of this user."""
    to_user: str = ""
    """The user who gets it; by default, the same."""
    replace: bool = False
    """Replace libraries even if they changed after the backup."""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    backup: Manifest
    place: str
    restored_files: tuple[str, ...]
    retained_files: tuple[str, ...]
    """Files beside the libraries, such as API keys, that exist at the place. They stay."""
    replaced_folder: str
    """Where the replaced libraries are now; empty if nothing was replaced."""


def restore(
    repository: Repository,
    backup: Manifest,
    place: Path | str,
    options: RestoreOptions,
    progress: Progress,
    *,
    work_home: Path,
) -> RestoreResult:
    """Restore a backup to a place. Raises DamagedBackup, and changes nothing, if it is not intact.

    `work_home` is the folder for temporary copies if the place is a database server.
    """
    if READ_ONLY.get():
        raise ReadOnlyLibrary(f"Recollect is in read-only mode ({READ_ONLY.name}). {_UNCHANGED}")
    for library in backup.libraries:
        if library.schema > VERSION:
            raise NewerLibrary(
                f"Backup {backup.id} was made by a newer Recollect (schema {library.schema}; this "
                f"one knows {VERSION}). {_UNCHANGED} Upgrade Recollect to restore it."
            )
    with repository.lock(for_reading=True):
        if isinstance(place, Path):
            with explain_disk_errors(place, _UNCHANGED):
                make_folder(place)
                with work_folder(place) as work:
                    return _Restore(repository, backup, place, work, options, progress).run()
        with explain_disk_errors(work_home, _UNCHANGED), work_folder(work_home) as work:
            return restore_to_server(repository, backup, place, options, progress, work)


def restore_to_server(
    repository: Repository,
    backup: Manifest,
    url: str,
    options: RestoreOptions,
    progress: Progress,
    work: Path,
) -> RestoreResult:
    """Restore one library into PostgreSQL: rebuild it on disk, then move it there."""
    user = options.user or backup.user
    if not user:
        raise InvalidInput("Into PostgreSQL, one library is restored at a time: --user NAME.")
    home, staging = work / "home", work / "staging"
    make_folder(home)
    make_folder(staging)
    local = replace(options, user=user, to_user="")
    result = _Restore(repository, backup, home, staging, local, progress).run()
    target_user = options.to_user or user
    try:
        move(home, url, user, target_user, remove=True)
    except RecollectError:
        with suppress(RecollectError):
            abort_move(url, target_user)  # never touches a complete library
        raise
    return replace(result, place="the database server")


class _Restore:
    """One restore into a home folder."""

    def __init__(
        self,
        repository: Repository,
        backup: Manifest,
        home: Path,
        work: Path,
        options: RestoreOptions,
        report: Progress,
    ) -> None:
        self._repository = repository
        self._backup = backup
        self._home = home
        self._work = work
        self._options = options
        self._report = report

    def run(self) -> RestoreResult:
        files = self._selection()
        # As a whole: half of an older audit log would not match the rest of a newer one.
        retained = [
            path for path in files if not is_of_library(path) and self._exists(path.split("/")[0])
        ]
        for path in retained:
            del files[path]
        prepare_key(self._repository, self._backup, self._work)
        self._require_same_key()
        needed, free = sum(file.size for file in files.values()), shutil.disk_usage(self._home).free
        if needed > free:
            raise InvalidInput(
                f"The backup needs {needed:,} bytes at {self._home}, but only {free:,} are free. "
                f"{_UNCHANGED}"
            )
        self._require_older(self._present_databases(files))
        self._rebuild(files)
        with ExitStack() as stack:
            for database in self._present_databases(files):
                db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
                stack.callback(db.close, True)
                apply_key(db, data_key(database))
                self._lock(db, database)
            replaced = self._exchange(sorted({_unit(path) for path in files}))
        return RestoreResult(self._backup, str(self._home), tuple(files), tuple(retained), replaced)

    def _selection(self) -> dict[str, FileRecord]:
        """The files to restore, by their path at the target."""
        files = {file.path: file for file in self._backup.files}
        if not self._options.user:
            return files
        source = library_file(self._home, self._options.user).parent.name
        target = library_file(self._home, self._options.to_user or self._options.user).parent.name
        selection = {}
        for path, file in files.items():
            parts = path.split("/")
            if is_of_library(path) and parts[1] == source:
                parts[1] = target
                selection["/".join(parts)] = file
        if not selection:
            raise NotFound(
                f"Backup {self._backup.id} does not contain the library of "
                f"{self._options.user!r}. {_UNCHANGED}"
            )
        if KEY_FILE in files:
            selection[KEY_FILE] = files[KEY_FILE]
        return selection

    def _exists(self, path: str) -> bool:
        return (self._home / path).exists()

    def _present_databases(self, files: dict[str, FileRecord]) -> list[Path]:
        return [self._home / path for path in files if path.endswith(".db") and self._exists(path)]

    def _require_same_key(self) -> None:
        """Refuse to mix libraries with different keys, or encrypted and plain ones, in a home."""
        key_file = self._work / KEY_FILE
        if not key_file.exists():  # neither is encrypted, or both with the same key
            return
        has_libraries = any(self._home.glob("users/*/library.db")) or self._exists("keys.db")
        if self._exists(KEY_FILE) or (has_libraries and read_key_file(key_file).id):
            raise Conflict(
                f"Backup {self._backup.id} and {self._home} are not encrypted with the same key. "
                f"{_UNCHANGED} Restore to another folder with --to."
            )

    def _require_older(self, databases: list[Path]) -> None:
        """Refuse to replace what was written after the backup, unless the options say so."""
        for database in () if self._options.replace else databases:
            if not database.stat().st_size:
                continue  # a torn copy, which is what the backup replaces
            changed_at = last_write(database)
            if changed_at > self._backup.created_at:
                raise Conflict(
                    f"{database} was changed at {changed_at:%Y-%m-%d %H:%M:%S} UTC, after backup "
                    f"{self._backup.id}. {_UNCHANGED} Add --replace to restore anyway; the present "
                    "library is then kept beside it. Or restore to another place with --to."
                )

    def _rebuild(self, files: dict[str, FileRecord]) -> None:
        """Write all files to the side, and check them."""
        total = sum(file.size for file in files.values())
        count = 0
        for path, file in files.items():
            target = self._work / path
            make_folder(target.parent)
            try:
                rebuild(self._repository, self._backup, file, target)
            except DamagedBackup as error:
                raise DamagedBackup(
                    f"Backup {self._backup.id} is damaged: {path}: {error} {_UNCHANGED} "
                    "`recollect backup verify --all` shows which backups are intact; restore one "
                    "of these."
                ) from error
            sync_file(target)
            count += file.size
            self._report("Restoring", count, total)

    def _lock(self, db: apsw.Connection, path: Path) -> None:
        """Keep others out of a database until the connection is closed.

        Raises StoreBusy if it is in use. A damaged one, which nobody can use, needs no lock.
        """
        busy = StoreBusy(
            f"Another program, perhaps `recollect serve`, has {path} open. {_UNCHANGED} "
            "Stop that program and try again."
        )
        try:
            version = db.pragma("data_version")
            self._require_older([path])  # once more, because rebuilding took a while
            # Leaving WAL mode fails while anybody else has the file open.
            db.execute("pragma journal_mode = delete").fetchall()
            db.execute("begin exclusive")
            if db.pragma("data_version") != version:
                raise busy
        except (apsw.BusyError, apsw.LockedError) as error:
            raise busy from error
        except (apsw.CorruptError, apsw.NotADBError):
            return
        except apsw.Error as error:
            raise translate_error(error, path) from error

    def _exchange(self, units: list[str]) -> str:
        """Put the restored files in place, and keep what was there. Returns the folder with it."""
        replaced = self._home / f"{REPLACED}{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        for unit in units:
            make_folder((self._home / unit).parent)
            if self._exists(unit):
                make_folder((replaced / unit).parent)
        for count, unit in enumerate(units):
            current = self._home / unit
            try:
                if current.exists():
                    exchange(self._work / unit, current, replaced / unit)
                else:
                    (self._work / unit).rename(current)
                sync_folder(current.parent)
            except OSError as error:
                raise RecollectError(
                    f"The restore stopped after {count} of {len(units)} parts ({error}). "
                    f"What was replaced is in {replaced}. Run the same command again with "
                    "--replace to complete it."
                ) from error
        return str(replaced) if replaced.exists() else ""


def is_of_library(path: str) -> bool:
    return path.split("/")[0] in (USERS, ARCHIVE)


def _unit(path: str) -> str:
    """What is exchanged as a whole: the folder of a library or of its archive, or one file."""
    return "/".join(path.split("/")[:2]) if is_of_library(path) else path


def last_write(database: Path) -> datetime:
    """When a database was last written to, by its files' times: nobody else may open them.

    An empty write-ahead log says nothing: SQLite creates one whenever a database is opened.
    """
    latest = database.stat().st_mtime
    log = database.with_name(f"{database.name}-wal")
    if log.exists() and log.stat().st_size:
        latest = max(latest, log.stat().st_mtime)
    return datetime.fromtimestamp(latest, UTC)
