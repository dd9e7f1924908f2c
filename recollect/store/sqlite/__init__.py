"""The SQLite store. It uses apsw, which exposes all of SQLite."""

from recollect.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
