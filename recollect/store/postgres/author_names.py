"""The names of a library's authors, which many searches ask for."""

from __future__ import annotations

from typing import NamedTuple

from recollect.store.postgres.connections.connection import Connection
from recollect.store.sql.reading.selection import authors


class _Answer(NamedTuple):
    limit: int
    version: int
    """The token of the last commit when the names were read."""
    names: list[str]


class AuthorNames:
    """Remembers the names until somebody writes to the library."""

    def __init__(self) -> None:
        self._last: _Answer | None = None

    def get(self, db: Connection, limit: int) -> list[str]:
        """See Store.authors."""
        if db.facts is None or db.facts.version is None:
            return authors(db, limit)
        last = self._last
        if last is None or (last.limit, last.version) != (limit, db.facts.version):
            last = self._last = _Answer(limit, db.facts.version, authors(db, limit))
        return last.names
