"""What saving and taking back documents needs of a database, whichever it is.

The statements beside this module are in the SQL that SQLite and PostgreSQL
share, with `?` for values; where the two differ, a method stands here. A
connection to PostgreSQL sees the rows of one user only, so no statement has to
say whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from recollect.model.search import Filter

IndexRow = tuple[int, str, str]
"""What is indexed of a passage: key, title (of the opening passage), content."""


class Database(Protocol):
    """A connection inside a transaction."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None where there is none."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> None: ...

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None: ...

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...

    def among(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        """What stands behind `in` for any number of values, and the one value it takes."""

    def outdated(self, passages: Sequence[int]) -> None:
        """What these passages or the title they carry say has changed: their vectors are no longer true."""

    def forgotten(self, passages: Sequence[int]) -> None:
        """These passages are no more, and nothing made of them may be."""

    def derived(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that this database adds to those of a document, to find it by them."""

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        """What a filter says of document d, and a text that its title or id must contain."""


class TextIndex(Protocol):
    """The words of passages, kept in step by whoever changes passages."""

    def add(self, rows: Iterable[IndexRow]) -> None: ...

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        """Take out passages, given as they went in; and words that no other passage has.
        `count` says how many there are at most."""
