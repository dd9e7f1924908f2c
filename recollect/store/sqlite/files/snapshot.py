"""Copies of a database that others are writing to, and checks of such copies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import apsw

from recollect.errors import DamagedLibrary, StoreBusy
from recollect.settings import READ_ONLY
from recollect.store.sqlite.care.verification import structural_problems
from recollect.store.sqlite.connections.connection import connect, connect_read_only, file_stamp
from recollect.store.sqlite.files.encryption import DataKey, apply_key, data_key

# Pages copied at a time: 8 MiB.
_PAGES_PER_STEP = 1_024
_BUSY_MILLISECONDS = 30_000

"""Called with the pages copied and their total."""


class LibraryCounts(NamedTuple):
    """What is in the copy of a library."""

    schema: int
    documents: int
    messages: int


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at this moment.

    Others may write meanwhile. One read transaction covers all pages, so the copy never starts
    again, however much they write.
    """
    key = data_key(source)
    reader = _open_reader(source, key)
    try:
        copy = apsw.Connection(str(target))
        try:
            apply_key(copy, key)
            if key is not None:  # then, pages are only copied to pages of the same size
                copy.execute(f"pragma page_size = {reader.pragma('page_size')}")
            os.chmod(target, 0o600)  # noqa: PTH101 - by name, see connection.py
            # If the copy is interrupted, it is deleted, so it needs no journal.
            copy.execute("pragma journal_mode = off; pragma synchronous = off").fetchall()
            _copy_pages(copy, reader)
            _require_unchanged(reader, source)
        finally:
            copy.close(True)
    finally:
        reader.close(True)


def _open_reader(path: Path, key: DataKey | None) -> apsw.Connection:
    """A connection in a read transaction."""
    if READ_ONLY.get():
        return _begin(connect_read_only(path))
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        apply_key(db, key)
        return _begin(db)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if os.access(path.parent, os.W_OK):
            raise
        return _begin(connect_read_only(path))  # on a read-only disk


def _begin(db: apsw.Connection) -> apsw.Connection:
    try:
        db.set_busy_timeout(_BUSY_MILLISECONDS)
        db.execute("begin")
        db.execute("select count(*) from sqlite_schema").fetchall()
    except BaseException:  # nobody else would close the connection
        db.close(True)
        raise
    return db


def _require_unchanged(reader: apsw.Connection, path: Path) -> None:
    """Reject the copy if it was read without locks, and another program wrote meanwhile."""
    stamp = getattr(reader, "unlocked_stamp", None)
    if stamp is not None and file_stamp(path) != stamp:
        raise StoreBusy(f"{path} changed while it was copied in read-only mode. Try again.")


def _copy_pages(copy: apsw.Connection, reader: apsw.Connection) -> None:
    with copy.backup("main", reader, "main") as backup:
        while not backup.done:
            backup.step(_PAGES_PER_STEP)


def check_library_copy(path: Path) -> LibraryCounts:
    """Check a copy that nobody uses, and count what is in it. Raises DamagedLibrary.

    Damage to the text index does not count: it is built again from the messages.
    """
    check_database_copy(path, derived="passage_text")
    db = connect(path)
    try:
        return LibraryCounts(
            db.pragma("user_version"),
            db.get("select count(*) from document"),
            db.get("select count(*) from passage"),
        )
    except apsw.Error as error:
        raise DamagedLibrary(f"The copy of the library is not readable: {error}.") from error
    finally:
        db.close(True)


def check_database_copy(path: Path, derived: str = "") -> None:
    """Check every page and index of a copy that nobody uses. Raises DamagedLibrary."""
    try:
        db = connect(path)
        try:
            # One message that cannot be decompressed must not prevent backups of all others.
            with db.codec.without_decompressing():
                lines = structural_problems(db, 20)
            orphans = db.rows("pragma foreign_key_check")
        finally:
            db.close(True)
    except apsw.Error as error:
        raise DamagedLibrary(f"The database is damaged: {error}.") from error
    problems = [line for line in lines if not (derived and derived in line)]
    problems += [
        f"{table} row {row} refers to a missing {other}" for table, row, other, *_ in orphans
    ]
    if problems:
        raise DamagedLibrary(f"The database is damaged: {problems[0]}.")
