"""Check a library: its file, its messages, and its text index. Changes nothing.

Also copies of a database that others are writing to, and checks of such copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from recollect.errors import DamagedLibrary, StoreBusy
from recollect.settings import READ_ONLY
from recollect.store.sql import checking
from recollect.store.sql import spaces as space_sql
from recollect.store.sqlite import text_index
from recollect.store.sqlite.connection import Connection, connect, connect_read_only, file_stamp
from recollect.store.sqlite.encryption import DataKey, apply_key, data_key
from recollect.store.sqlite.fts import has_positions
from recollect.store.values import Findings

UNINDEXED = (
    "from passage p where not exists (select 1 from passage_text_docsize s where s.id = p.key)"
)
_ORPHANED = (
    "from passage_text_docsize s where not exists (select 1 from passage p where p.key = s.id)"
)
_MAX_DAMAGED_PAGES = 20
_KEYS_PER_QUERY = 500
# What reading a damaged row can raise: its text is not UTF-8, or cannot be decompressed.
_UNREADABLE = (apsw.Error, DamagedLibrary, ValueError, IndexError, MemoryError)


# -- the file ---


def require_complete_copy(path: Path) -> None:
    """Refuse a library file that lost its contents, instead of starting a new library in it.

    Interrupted copies and sync clients leave empty files. Another process may be creating the
    library: its file is never empty once a journal or an index lies beside it.
    """
    remains = remains_of_library(path)
    if not remains or not is_empty(path):
        return
    raise DamagedLibrary(
        f"{path} is empty, but {remains[0]} shows that it was a library: a copy was interrupted, "
        "or a sync client lost the file. Nothing was changed. Copy the file again, or restore a "
        "backup with `recollect restore`. To start a new library instead, remove the folder "
        f"{path.parent}."
    )


def remains_of_library(path: Path) -> list[Path]:
    """What lies beside the file of a library: its journal and its index."""
    index = path.with_name("index")
    files = (
        path.with_name(f"{path.name}-wal"),
        path.with_name(f"{path.name}-shm"),
        index / "volumes",
        index / "vectors",
    )
    return [file for file in files if file.exists()]


def is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True


def check_structure(db: Connection, findings: Findings) -> None:
    # The check computes generated columns, which fails if a text cannot be decompressed.
    with db.codec.without_decompressing():
        lines = structural_problems(db, _MAX_DAMAGED_PAGES)
    for line in lines:
        if "passage_text" in line:
            findings.damaged_index.append(line)
        else:
            findings.damaged.append(line)
    for table, row, parent, *_ in db.rows("pragma foreign_key_check"):
        checking.add_line(findings.damaged, f"{table} row {row} refers to a missing {parent}")


def structural_problems(db: Connection, limit: int) -> list[str]:
    """What SQLite's own check finds in a database, one problem per line."""
    lines = []
    for (text,) in db.rows(f"pragma integrity_check({limit})"):
        lines += text.splitlines()
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def reason_unreadable(path: Path) -> str:
    """Why a library cannot be read at all; empty if it can. Only looks at a few pages."""
    try:
        require_complete_copy(path)
        if is_empty(path):
            return ""
        db = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
        with closing(db):
            apply_key(db, data_key(path))
            if not db.execute("select count(*) from sqlite_schema").get:
                return ""  # a process is creating the library
            for table in ("document", "passage"):
                db.execute(f"select key from {table} limit 1").fetchall()
    except DamagedLibrary:
        return "its file is empty"
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return str(error)
    except apsw.SQLError as error:
        return str(error)  # a table is missing
    except apsw.Error:
        return ""  # the library is locked, for example
    return ""


def check_small_database(path: Path, table: str) -> list[str]:
    """Check a database beside the libraries, such as that of the API keys, if there is one."""
    if not path.exists():
        return []
    if is_empty(path):
        return [f"{path} is empty: everything in it is lost"]
    try:
        with closing(connect_to_check(path)) as db:
            lines = structural_problems(db, 5)
            if not db.get("select 1 from sqlite_schema where name = ?", (table,)):
                lines.append(f"{path} has no table {table!r}")
            return lines
    except apsw.Error as error:
        return [f"{path} cannot be read ({error})"]


def connect_to_check(path: Path) -> Connection:
    """A connection that also works on a full disk and on read-only media."""
    try:
        return connect(path)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, apsw.FullError):
        return connect_read_only(path)


# -- messages ---


def check_messages(db: Connection, findings: Findings) -> None:
    for row in readable_rows(db, findings):
        checking.check_digest(row, findings)


def readable_rows(db: Connection, findings: Findings) -> Iterator[tuple[Any, ...]]:
    """Every message that can be read. The others are findings."""
    last = 0
    while True:
        keys = next_keys(db, last)
        if not keys:
            return
        try:
            yield from checking.read_rows(db, last, len(keys))
        except _UNREADABLE:
            for key in keys:
                yield from readable_row(db, key, findings)
        last = keys[-1]


def next_keys(db: Connection, last: int) -> list[int]:
    """The keys of the next messages, in ascending order.

    In a damaged table keys may come in any order, and must not be read for ever.
    """
    query = "select key from passage where key > ? order by key limit ?"
    for limit in (_KEYS_PER_QUERY, 1):
        with suppress(apsw.CorruptError):  # the structure is damaged, which is another finding
            keys = [key for (key,) in db.rows(query, (last, limit))]
            return sorted(key for key in keys if key > last)
    return []


def readable_row(db: Connection, key: int, findings: Findings) -> list[tuple[Any, ...]]:
    try:
        return checking.read_rows(db, key - 1, 1)
    except _UNREADABLE as error:
        name = f"row {key}"
        with suppress(*_UNREADABLE):
            ((id_, document),) = db.rows(
                "select p.id, d.id from passage p left join document d on d.key = p.document "
                "where p.key = ?",
                (key,),
            )
            name = f"{checking.describe_message(id_, key)} of conversation {document!r}"
        reason = "cannot be read"
        if isinstance(error, DamagedLibrary):
            reason = "cannot be decompressed"
        checking.add_line(findings.damaged, f"the text of {name} {reason}")
        return []


# -- the index ---


def is_index_outdated(db: Connection, is_encrypted: bool) -> bool:
    """Whether the index is of another version, or the library was encrypted or decrypted."""
    version = db.get("select version from derived where name = 'text'")
    return version != text_index.VERSION or has_positions(db) != is_encrypted


def is_index_behind(db: Connection, is_encrypted: bool) -> bool:
    """Whether the index is incomplete. Only its newest row is checked, which is fast."""
    newest = db.get("select max(key) from passage") or 0
    newest_indexed = db.get("select max(id) from passage_text_docsize") or 0
    if is_index_outdated(db, is_encrypted):
        return True
    return bool(newest_indexed < newest)


def count_lost(db: Connection) -> int:
    """The number of indexed messages that the library had and does not have any more."""
    count: int = db.get(f"select count(*) {_ORPHANED} and s.id <= (select passage from last_key)")
    return count


def check_index(db: Connection, findings: Findings) -> None:
    version = db.get("select version from derived where name = 'text'")
    findings.outdated = version != text_index.VERSION
    findings.unindexed = db.get(f"select count(*) {UNINDEXED}")
    findings.orphaned = db.get(f"select count(*) {_ORPHANED}")
    findings.orphaned_in_queue = space_sql.count_orphans(db)
    # `integrity_check` misses some damage inside the index that a ranked search runs into.
    for sql in (
        "insert into passage_text (passage_text, rank) values ('integrity-check', 1)",
        "select rowid from passage_text where passage_text match 'the OR a OR of' "
        "order by rank limit 1",
    ):
        # The first statement changes nothing, but on a read-only disk SQLite refuses it as a write.
        with suppress(apsw.ReadOnlyError):
            try:
                db.rows(sql)
            except apsw.CorruptError as error:
                findings.damaged_index.append(str(error))


def verify(db: Connection) -> Findings:
    """See Store.verify. The connection must be new."""
    findings = Findings()
    for check in (check_structure, check_messages, check_index):
        try:
            check(db, findings)
        except _UNREADABLE as error:
            checking.add_line(findings.damaged, str(error))
    if findings.damaged:
        return findings
    lost = 0
    if not findings.damaged_index:
        lost = count_lost(db)
    checking.check_counts(db, findings, lost)
    return findings


# -- copies ---


# Pages copied at a time: 8 MiB.
_PAGES_PER_STEP = 1_024
_BUSY_MILLISECONDS = 30_000


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
    with (
        closing(open_to_copy(source, key)) as reader,
        closing(apsw.Connection(str(target))) as copy,
    ):
        reader.set_busy_timeout(_BUSY_MILLISECONDS)
        reader.execute("begin; select count(*) from sqlite_schema").fetchall()
        apply_key(copy, key)
        if key is not None:  # then, pages are only copied to pages of the same size
            copy.execute(f"pragma page_size = {reader.pragma('page_size')}")
        os.chmod(target, 0o600)  # noqa: PTH101 - by name, see connection.py
        # If the copy is interrupted, it is deleted, so it needs no journal.
        copy.execute("pragma journal_mode = off; pragma synchronous = off").fetchall()
        with copy.backup("main", reader, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_PER_STEP)
        stamp = getattr(reader, "unlocked_stamp", None)
        if stamp is not None and file_stamp(source) != stamp:
            raise StoreBusy(f"{source} changed while it was copied in read-only mode. Try again.")


def open_to_copy(path: Path, key: DataKey | None) -> apsw.Connection:
    if READ_ONLY.get():
        return connect_read_only(path)
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        apply_key(db, key)
        db.set_busy_timeout(_BUSY_MILLISECONDS)
        db.execute("select count(*) from sqlite_schema").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if os.access(path.parent, os.W_OK):
            raise
        return connect_read_only(path)  # on a read-only disk
    return db


def check_library_copy(path: Path) -> LibraryCounts:
    """Check a copy that nobody uses, and count what is in it. Raises DamagedLibrary.

    Damage to the text index does not count: it is built again from the messages.
    """
    check_database_copy(path, derived="passage_text")
    try:
        with closing(connect(path)) as db:
            return LibraryCounts(
                db.pragma("user_version"),
                db.get("select count(*) from document"),
                db.get("select count(*) from passage"),
            )
    except apsw.Error as error:
        raise DamagedLibrary(f"The copy of the library is not readable: {error}.") from error


def check_database_copy(path: Path, derived: str = "") -> None:
    """Check every page and index of a copy that nobody uses. Raises DamagedLibrary."""
    try:
        # One message that cannot be decompressed must not prevent backups of all others.
        with closing(connect(path)) as db, db.codec.without_decompressing():
            lines = structural_problems(db, 20)
            orphans = db.rows("pragma foreign_key_check")
    except apsw.Error as error:
        raise DamagedLibrary(f"The database is damaged: {error}.") from error
    problems = [line for line in lines if not (derived and derived in line)]
    problems += [
        f"{table} row {row} refers to a missing {other}" for table, row, other, *_ in orphans
    ]
    if problems:
        raise DamagedLibrary(f"The database is damaged: {problems[0]}.")
