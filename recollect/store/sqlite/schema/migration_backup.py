"""A copy of a library before its schema changes, in the folder `before-migration` beside it.

The two newest copies are kept, for thirty days at most. They are deleted as soon as something is
deleted from the library, because they still contain it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import apsw

from recollect.errors import RecollectError
from recollect.settings import MIGRATION_BACKUP
from recollect.store.durability import sync_file, sync_folder
from recollect.store.sqlite.files.encryption import apply_key, data_key
from recollect.store.sqlite.files.snapshot import copy_database

FOLDER = "before-migration"
_MAX_COPIES = 2
_MAX_SECONDS = 30 * 86_400
_TEMPORARY = ".tmp"


def back_up_before_migration(db: apsw.Connection, version: int) -> None:
    """Copy the library before it is migrated to this version, if there is something to lose.

    The caller holds the write lock. If the migration was interrupted, the copy that was made then
    is the one to keep.
    """
    if not db.filename or MIGRATION_BACKUP.get() == "off":
        return
    schema: int = db.pragma("user_version")
    if not schema or not db.execute("select exists (select 1 from document)").get:
        return
    path = Path(db.filename)
    folder = path.with_name(FOLDER)
    if _has_copy(folder, schema, version):
        return
    target = folder / f"schema-{schema}-to-{version}-{datetime.now(UTC):%Y%m%d-%H%M%S}.db"
    temporary = target.with_suffix(_TEMPORARY)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _delete(list(folder.glob(f"*{_TEMPORARY}")))
        copy_database(path, temporary)
        _require_same(db, temporary)
        sync_file(temporary)
        temporary.rename(target)
        sync_folder(folder)
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError, OSError) as error:
        _delete([temporary])
        raise RecollectError(
            f"{path} was not migrated, because it could not be copied to {folder} first "
            f"({error}). Nothing was changed. Free some space there and try again, or set "
            f"{MIGRATION_BACKUP.name}=off to migrate without a copy."
        ) from error
    _delete(_copies(folder)[:-_MAX_COPIES])


def _has_copy(folder: Path, schema: int, version: int) -> bool:
    """Whether an interrupted migration to this version began with a copy."""
    for copy in folder.glob(f"schema-*-to-{version}-*.db"):
        if int(copy.name.split("-")[1]) < schema:
            return True
    return False


def delete_copies(library: Path) -> None:
    """Delete all copies."""
    folder = library.with_name(FOLDER)
    if folder.exists():
        _delete(list(folder.iterdir()))
        with suppress(OSError):
            folder.rmdir()


def delete_expired_copies(library: Path) -> None:
    """Delete copies that are older than thirty days."""
    folder = library.with_name(FOLDER)
    if folder.exists():
        oldest = time.time() - _MAX_SECONDS
        _delete([copy for copy in _copies(folder) if copy.stat().st_mtime < oldest])


def _copies(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob("*.db"), key=lambda copy: copy.stat().st_mtime_ns)


def _delete(files: list[Path]) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()


def _require_same(db: apsw.Connection, copy: Path) -> None:
    """Read the copy back: it must have the rows of the library."""
    query = "select (select count(*) from document), (select count(*) from passage)"
    # Without `immutable`, SQLite would leave files beside the copy.
    address = f"file:{quote(str(copy))}?immutable=1"
    other = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        apply_key(other, data_key(copy))
        if other.execute(query).get != db.execute(query).get:
            raise OSError("the copy differs from the library")
    finally:
        other.close(True)
