"""The store on SQLite, through apsw."""

from recollect.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
