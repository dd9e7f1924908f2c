"""Open SQLite databases of other programs safely.

They may be in use, and they may be malicious. They are opened read-only, and nothing in their
schema is trusted: no views, triggers or functions.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from recollect.settings import LIMITS

_BUSY_MILLISECONDS = 5_000


def connect(path: Path) -> apsw.Connection:
    """A connection that cannot change the file, not even to recover it. Raises apsw.Error."""
    uri = path.absolute().as_uri()
    try:
        return _connect_guarded(f"{uri}?mode=ro")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # SQLite cannot share a WAL database in a read-only folder. If the write-ahead log is
        # empty, the database file alone is complete.
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _connect_guarded(f"{uri}?mode=ro&immutable=1")


def _connect_guarded(uri: str) -> apsw.Connection:
    db = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.set_busy_timeout(_BUSY_MILLISECONDS)
        db.limit(apsw.SQLITE_LIMIT_LENGTH, LIMITS.message_characters)
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.execute(
            "pragma query_only = on; pragma cache_size = -16384; select 1 from sqlite_schema"
        ).fetchall()
    except BaseException:
        db.close()
        raise
    return db
