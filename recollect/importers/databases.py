"""Open SQLite databases of other programs safely.

They may be in use, and they may be malicious. They are opened read-only, and nothing in their
schema is trusted: no views, triggers, functions or constraints. A small file can pretend to be
huge, because its pages can refer to one another in circles. So what a connection computes is
limited in proportion to the size of the file, and `has_shared_pages` tells whether a table is
larger than the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import apsw

from recollect.settings import LIMITS

_BUSY_MILLISECONDS = 5_000
_WITHOUT_LOCKS = "unix-none"
_STEPS_BETWEEN_CHECKS = 10_000
_MIN_STEPS = 20_000_000
_STEPS_PER_BYTE = 20
"""How many steps of SQLite's virtual machine may be spent. A row takes about a hundred."""
_MIN_VALUE_BYTES = 1_000_000
_SHARED_PAGE = "2nd reference to page"
_MAX_FAULTS = 100
"""SQLite stops a check after this many faults."""


def connect(path: Path) -> apsw.Connection:
    """A connection that cannot change the file, not even to recover it. Raises apsw.Error."""
    uri = path.absolute().as_uri()
    size = path.stat().st_size
    try:
        return connect_guarded(f"{uri}?mode=ro", size)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # SQLite cannot share a WAL database in a folder where it may not write. If the write-ahead
        # log is empty, the database file alone is complete. If not, no program has it open.
        log = path.with_name(f"{path.name}-wal")
        if not log.exists() or not log.stat().st_size:
            return connect_guarded(f"{uri}?mode=ro&immutable=1", size)
        if _WITHOUT_LOCKS not in apsw.vfs_names():
            raise
        return connect_guarded(f"{uri}?mode=ro&vfs={_WITHOUT_LOCKS}", size, alone=True)


def connect_guarded(uri: str, size: int, *, alone: bool = False) -> apsw.Connection:
    """With `alone`, the write-ahead log is read without the memory that programs share."""
    db = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        if alone:
            db.execute("pragma locking_mode = exclusive").fetchall()
        db.set_progress_handler(step_limit(size), _STEPS_BETWEEN_CHECKS)
        db.set_busy_timeout(_BUSY_MILLISECONDS)
        db.limit(
            apsw.SQLITE_LIMIT_LENGTH,
            min(LIMITS.message_characters, max(2 * size, _MIN_VALUE_BYTES)),
        )
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.execute(
            "pragma ignore_check_constraints = on; pragma query_only = on;"
            # The parser may not write files.
            " pragma cache_size = -16384; pragma temp_store = memory;"
            " select 1 from sqlite_schema limit 1"
        ).fetchall()
    except BaseException:  # nobody else would close the connection
        db.close()
        raise
    return db


def step_limit(size: int) -> Callable[[], bool]:
    """A progress handler that interrupts what takes too many steps for a file of this size."""
    remaining = (_MIN_STEPS + _STEPS_PER_BYTE * size) // _STEPS_BETWEEN_CHECKS

    def is_exceeded() -> bool:
        nonlocal remaining
        remaining -= 1
        return remaining < 0

    return is_exceeded


def has_shared_pages(db: apsw.Connection, table: str) -> bool:
    """Whether parts of a table are stored once but read many times. Takes linear time."""
    rows = db.execute(f"pragma quick_check({quote(table)})").fetchall()
    faults = [line for (text,) in rows for line in str(text).split("\n")]
    return len(faults) >= _MAX_FAULTS or any(_SHARED_PAGE in fault for fault in faults)


def why_unusual(db: apsw.Connection, tables: Collection[str]) -> str:
    """Why tables of these names cannot be read: one is a view, or has no row ids."""
    rows = db.execute(
        "select name, type, wr from pragma_table_list where schema = 'main' order by name"
    )
    for name, kind, is_without_rowid in rows:
        if str(name).lower() in tables and kind == "view":
            return f"{name!r} is a view, and only tables are read"
        if str(name).lower() in tables and is_without_rowid:
            return f"the table {name!r} was created WITHOUT ROWID"
    return ""


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def objects(db: apsw.Connection) -> frozenset[str]:
    """The names of tables, views and indexes, in lower case."""
    rows = db.execute("select name from sqlite_schema")
    return frozenset(str(name).lower() for (name,) in rows)


def columns(db: apsw.Connection, table: str) -> frozenset[str]:
    """The columns of a table, in lower case; empty for a view or a virtual table."""
    rows = db.execute(  # a virtual table has no root page
        "select c.name from sqlite_schema t, pragma_table_info(t.name) c"
        " where t.type = 'table' and t.rootpage > 0 and t.name = ? collate nocase",
        (table,),
    )
    return frozenset(str(name).lower() for (name,) in rows)
