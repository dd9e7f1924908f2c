"""Patterns of projects that nobody may import, for all servers and programs of a database.

In a home folder they are lines of `exclude.txt`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from recollect.store.shared.database import SharedDatabase, Tables

TABLES = Tables(
    "exclusion",
    ("create table exclusion (pattern text primary key, created_at bigint not null)",),
)


class SharedExclusions:
    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    def patterns(self) -> list[str]:
        """The patterns in the order in which they were added."""
        rows = self._database.execute(
            TABLES, "select pattern from exclusion order by created_at, pattern"
        )
        return [pattern for (pattern,) in rows]

    def add(self, pattern: str) -> None:
        self._database.execute(
            TABLES,
            "insert into exclusion (pattern, created_at) "
            f"values (?, {self._database.now}) on conflict do nothing",
            (pattern,),
        )

    def remove(self, pattern: str) -> None:
        self._database.execute(TABLES, "delete from exclusion where pattern = ?", (pattern,))


def shared_patterns(open_database: Callable[[], SharedDatabase] | None) -> list[str]:
    """The patterns of the database that servers share; none if there is no such database."""
    if open_database is None:
        return []
    with closing(open_database()) as database:
        return SharedExclusions(database).patterns()
