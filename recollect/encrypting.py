"""Encrypt a home, decrypt it again, or change its passphrase.

Each database is copied into a new file, the copy is compared with it and then takes its place. The
key file says what is going on, and keeps everybody else out meanwhile. If the process is killed,
running it again continues, and the opposite command undoes it: files that can be opened with the
new key have been converted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from recollect.backup.files import create_file
from recollect.errors import (
    DAMAGE_ADVICE,
    DamagedLibrary,
    InvalidInput,
    RecollectError,
    StorageFull,
    StoreBusy,
)
from recollect.home_folder import (
    ARCHIVE,
    BACKUP_WORK,
    KEY_FILE,
    MODELS,
    RESULTS,
    UPLOADS,
    own_entries,
)
from recollect.passphrases import aes, require_strength, wrap_key
from recollect.progress import Progress
from recollect.store.durability import sync_file, sync_folder
from recollect.store.sqlite import encryption
from recollect.store.sqlite.connection import Connection, connect_with
from recollect.store.sqlite.database_errors import STORAGE_FULL, translate_error
from recollect.store.sqlite.encryption import DataKey, KeyFile, apply_key
from recollect.store.sqlite.private_files import create_private_folder
from recollect.transfer.archive_files import ENCRYPTED_SUFFIX, decrypt, encrypt, older_copy

_DRAFT = ".converting"
_PLAIN_SUFFIX = ".gz"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was encrypted or decrypted."""

    databases: int
    archived_files: int


def encrypt_home(home: Path, passphrase: str, progress: Progress | None = None) -> Conversion:
    """Encrypt every library of a home, its API keys and its archive, or resume doing so."""
    encryption.require_support()
    if not (home / KEY_FILE).exists():
        require_strength(passphrase)
        create_private_folder(home)
        uploads = home / UPLOADS
        if uploads.is_dir() and any(uploads.iterdir()):
            raise InvalidInput(
                f"Uploads wait to be imported in {uploads}. Start `recollect serve` until they are "
                "imported, or delete them."
            )
        require_unused(home, None)
        encryption.new_key_file(home, passphrase, encryption.ENCRYPTING)
    key_file = encryption.read_key_file(home / KEY_FILE)
    if key_file.state == encryption.ENCRYPTED:
        raise InvalidInput(f"{home} is encrypted already.")
    key = encryption.unlock(key_file, passphrase)
    key_file = key_file.change_state(encryption.ENCRYPTING)
    result = convert(home, _Direction(None, key), progress)
    key_file.change_state(encryption.ENCRYPTED)
    return result


def decrypt_home(home: Path, progress: Progress | None = None) -> Conversion:
    """Decrypt a home, or resume doing so."""
    encryption.require_support()
    key_file = required_key_file(home)
    key = encryption.unlock(key_file)
    if key_file.state == encryption.ENCRYPTED:
        require_unused(home, key)
    key_file = key_file.change_state(encryption.DECRYPTING)
    result = convert(home, _Direction(key, None), progress)
    key_file.path.unlink()
    sync_folder(home)
    return result


def change_passphrase(home: Path, new_passphrase: str) -> None:
    """Protect the key of a home with another passphrase. Nothing else is written."""
    key_file = required_key_file(home)
    key = encryption.unlock(key_file)
    require_strength(new_passphrase)
    record = wrap_key(key.secret, new_passphrase, encryption.key_context(key.id))
    key_file._replace(record=record).write()


def required_key_file(home: Path) -> KeyFile:
    if not (home / KEY_FILE).exists():
        raise InvalidInput(f"{home} is not encrypted.")
    return encryption.read_key_file(home / KEY_FILE)


# -- all files ---


@dataclass(frozen=True, slots=True)
class _Direction:
    """The keys before and after. No key stands for plain text."""

    source: DataKey | None
    target: DataKey | None

    @property
    def suffixes(self) -> tuple[str, str]:
        """The ends of the names of archived files, before and after."""
        if self.source is None:
            return _PLAIN_SUFFIX, ENCRYPTED_SUFFIX
        return ENCRYPTED_SUFFIX, _PLAIN_SUFFIX


def convert(home: Path, direction: _Direction, progress: Progress | None) -> Conversion:
    # Copies that a killed backup or conversion left may be plain text.
    shutil.rmtree(home / BACKUP_WORK, ignore_errors=True)
    shutil.rmtree(home / RESULTS, ignore_errors=True)
    for draft in files(home, f"*{_DRAFT}*"):
        draft.unlink()
    databases = list(_databases(home))
    copies = stored_copies(databases, direction)
    archived_files = [
        path
        for path in files(home, f"*{direction.suffixes[0]}")
        if ARCHIVE in path.relative_to(home).parts
    ]
    total = len(databases) + len(archived_files)
    for count, path in enumerate((*archived_files, *databases)):
        if progress is not None:
            progress(str(path.relative_to(home)), count, total)
        if path.suffix == ".db":
            convert_database(path, direction)
        else:
            convert_file(path, direction, *copies.get(path, (path.name, None)))
    return Conversion(len(databases), len(archived_files))


def _databases(home: Path) -> Iterator[Path]:
    """Every database in a home: libraries, API keys, catalogues, and copies of these."""
    for path in files(home, "*.db"):
        if path.relative_to(home).parts[0] not in (MODELS, BACKUP_WORK):
            yield path


def files(home: Path, pattern: str) -> list[Path]:
    """Recollect's own files whose names match a pattern."""
    paths: list[Path] = []
    for entry in own_entries(home):
        if entry.is_dir():
            paths += entry.rglob(pattern)
        elif entry.match(pattern):
            paths.append(entry)
    return sorted(path for path in paths if path.is_file())


def require_unused(home: Path, key: DataKey | None) -> None:
    """Raise an error if a database is in use or damaged, before anything is changed."""
    for path in _databases(home):
        with closing(open_alone(path, key)) as db, db.codec.without_decompressing():
            problems = db.get("pragma integrity_check(1)")
        if problems != "ok":
            raise DamagedLibrary(f"{path} is damaged, so nothing was changed. {DAMAGE_ADVICE}")


def open_alone(path: Path, key: DataKey | None) -> Connection:
    """A connection that keeps all others out."""
    try:
        db = connect_with(key, path)
        try:
            # Leaving WAL mode fails while anybody else has the file open.
            db.execute("pragma locking_mode = exclusive; pragma journal_mode = delete").fetchall()
            db.execute("begin exclusive; commit")
        except BaseException:  # also Ctrl-C: an open connection would keep the file locked
            db.close()
            raise
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreBusy(
            f"Another program, perhaps `recollect serve`, has {path} open. Stop that program and "
            "try again."
        ) from error
    except apsw.Error as error:
        raise translate_error(error, path) from error
    return db


# -- a database ---


def convert_database(path: Path, direction: _Direction) -> None:
    draft = path.with_name(path.name + _DRAFT)
    if not opens(path, direction.target):
        db = open_alone(path, direction.source)
        try:
            _copy(db, draft, direction.target)
            draft.chmod(0o600)
            finish_copy(db, draft, direction.target)
        except apsw.Error as error:
            draft.unlink(missing_ok=True)
            raise translate_error(error, path) from error
        finally:
            db.close()
        sync_file(draft)
        draft.replace(path)
        sync_folder(path.parent)
    if direction.target is not None and path.name == "library.db":
        for name in ("volumes", "vectors"):  # they contain plain text
            shutil.rmtree(path.with_name("index") / name, ignore_errors=True)
    if path.name == "catalogue.db":
        update_sizes(path, direction)


def _copy(db: Connection, draft: Path, key: DataKey | None) -> None:
    """Copy a database into a new file. An error of SQLite would contain the key, and is dropped."""
    try:
        db.execute("vacuum into ?", (_address(draft, key),))
    except apsw.FullError:
        raise StorageFull(STORAGE_FULL) from None
    except apsw.Error as error:
        reason = type(error).__name__
        raise RecollectError(
            f"{draft} could not be written ({reason}). Check the disk and the permissions, and run "
            "the command again."
        ) from None


def opens(path: Path, key: DataKey | None) -> bool:
    """Whether a database can be read with a key."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        try:
            apply_key(db, key)
            db.execute("select count(*) from sqlite_schema").fetchall()
        except apsw.NotADBError:
            return False
    return True


def _address(path: Path, key: DataKey | None) -> str:
    """The address of a new database, with the key that encrypts it."""
    address = f"file:{quote(str(path.absolute()))}"
    if key is None:
        return f"{address}?key="
    return f"{address}?cipher=chacha20&key=raw:{key.for_databases.hex()}"


def finish_copy(db: Connection, copy: Path, key: DataKey | None) -> None:
    """Compare a copy with the database, and make it as the store expects it."""
    other = connect_with(key, copy)
    try:
        with other.codec.without_decompressing():
            problems = [line for (line,) in other.rows("pragma integrity_check(5)") if line != "ok"]
        if problems or counts(other) != counts(db):
            raise RecollectError(f"{copy} differs from the original, which was not changed.")
        if key is not None and has_table(other, "volume"):
            other.run("delete from volume")
        other.execute("pragma journal_mode = delete").fetchall()
    finally:
        other.close()


def counts(db: Connection) -> dict[str, int]:
    """The number of rows of every table that is stored as such."""
    names = [
        name
        for _, name, kind, *_ in db.rows("pragma table_list")
        if kind in ("table", "shadow") and not name.startswith("sqlite_")
    ]
    return {name: db.get(f'select count(*) from "{name}"') for name in sorted(names)}  # noqa: S608


def has_table(db: Connection, name: str) -> bool:
    return bool(db.get("select 1 from sqlite_schema where name = ?", (name,)))


# -- an archived file ---


def stored_copies(
    databases: list[Path], direction: _Direction
) -> dict[Path, tuple[str, int | None]]:
    """The name in the catalogue, and the size, of each archived file that catalogues know.

    An interrupted append may have left more bytes, and an interrupted copy an older one more.
    """
    copies: dict[Path, tuple[str, int | None]] = {}
    for catalogue in databases:
        if catalogue.name != "catalogue.db":
            continue
        is_converted = not opens(catalogue, direction.source)  # by the opposite command
        key = direction.target if is_converted else direction.source
        with closing(connect_with(key, catalogue)) as db:
            if has_table(db, "file"):
                rows = db.rows("select path, stored, copies from file where stored > 0")
                for name, stored, older in rows:
                    copy = catalogue.parent / f"{name}{direction.suffixes[0]}"
                    for number in range(1, older + 2):
                        copies[older_copy(copy, number)] = name, None
                    copies[copy] = name, None if is_converted else stored
    return copies


def convert_file(path: Path, direction: _Direction, name: str, size: int | None) -> None:
    before, after = direction.suffixes
    target = path.with_name(path.name.removesuffix(before) + after)
    draft = target.with_name(target.name + _DRAFT)
    with create_file(draft) as file:
        if direction.target is not None:
            with path.open("rb") as plain:
                data = plain.read(-1 if size is None else size)
            encrypt(file, [data], aes(direction.target.for_files), name)
        elif direction.source is not None:
            cipher = aes(direction.source.for_files)
            for chunk in decrypt(path, cipher, name, size):
                file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)
    sync_folder(target.parent)
    path.unlink()


def update_sizes(catalogue: Path, direction: _Direction) -> None:
    """Record the new sizes of archived files."""
    suffix = direction.suffixes[1]
    with closing(connect_with(direction.target, catalogue)) as db, db:
        if not has_table(db, "file"):
            return
        for id_, path in db.rows("select id, path from file where stored > 0"):
            with suppress(FileNotFoundError):
                size = (catalogue.parent / f"{path}{suffix}").stat().st_size
                db.run("update file set stored = ? where id = ?", (size, id_))
