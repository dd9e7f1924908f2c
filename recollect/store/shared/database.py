"""The database that the servers of one installation share.

In a home folder it is the file `server.db`, in PostgreSQL the schema `recollect_server`. Each
module of this package has one concept, such as sessions or jobs, with its own `Tables`. They are
created when they are first used.

The statements use the SQL that SQLite and PostgreSQL have in common, with `?` for values. Where the
two differ, `Transaction` has an attribute. Times are in microseconds, and by the clock of the
database: the servers may run on machines whose clocks differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

Rows = list[tuple[Any, ...]]

CONCEPTS = "create table if not exists concept (name text primary key)"
"""The concepts whose tables a database has."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one concept."""

    name: str
    statements: tuple[str, ...]
    """They create the tables and indexes.

    Numbers and times are `bigint`, flags are `bigint` 0 or 1, texts are `text`. `{bytes}` is the
    type of binary values, and `{identity}` a primary key that counts up.
    """
    is_durable: bool = True
    """Whether a commit waits for the disk. Without that, a power cut may undo the last commits."""


class Transaction(Protocol):
    """A connection in a transaction."""

    now: str
    """The time as an SQL expression, in microseconds since 1970."""
    for_update: str
    """The end of a `select` that locks its rows until the end of the transaction.

    In SQLite it is empty: only one transaction runs at a time.
    """
    skip_locked: str
    """The same, but it skips rows that another transaction has locked."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Rows: ...

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None if there is no row."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> None: ...

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None: ...

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        """The right side of `in (…)` for any number of values, and the one value to bind."""


class SharedDatabase(ABC):
    """The database of one installation. Thread-safe. Creates nothing before its first use.

    Its errors are those of a store: StoreBusy, StoreUnavailable, StorageFull, ReadOnlyLibrary.
    """

    engine: str
    """`sqlite` or `postgresql`."""
    now: str
    """The time as an SQL expression, in microseconds since 1970."""

    @abstractmethod
    def transaction(self, tables: Tables) -> AbstractContextManager[Transaction]:
        """Begin a transaction that can write, and commit it at the end of the block.

        An exception rolls it back. Others wait for it, so it must be short.
        """

    @abstractmethod
    def execute(self, tables: Tables, sql: str, values: Sequence[Any] = ()) -> Rows:
        """Run one statement in a transaction of its own. Faster than `transaction`."""

    def announce(self, tables: Tables) -> None:
        """Signal other processes that the tables of a concept have changed.

        Call it after the commit. SQLite has no signals, so this does nothing there.
        """
        return

    def stop_waiting(self) -> None:
        """Let everybody fail soon who waits for a server that is away. For the end of a process."""
        return

    @abstractmethod
    def close(self) -> None: ...
