"""The interface between the shared SQL and a database.

The statements in this package use the SQL that SQLite and PostgreSQL have in common, with `?` for
values. Where the two differ, there is a method here.

In PostgreSQL, every table has a column `owner`, and every statement names the owner of every table
that it uses (`own`). Policies would hide the rows of other users anyway, but only a statement that
names the owner is sent to one partition, or to one machine of a cluster. An SQLite file has one
owner and no such column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from recollect.model.search import Filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IndexRow = tuple[int, str, str]
"""A passage in the text index: its key, its title if it opens a document, and its content."""


class Database(Protocol):
    """A connection in a transaction."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def rows_once(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The same. In a transaction that only reads, a server is asked only once."""

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None if there is no row."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> None: ...

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None: ...

    def own(self, *aliases: str) -> str:
        """The condition that the rows of these tables belong to the user of the library.

        Without an alias, the statement has one table. An outer join needs it in its `on` clause.
        """

    def own_rows(self, table: str) -> str:
        """A table of which all rows of the user are read, as in `select count(*) from {…}`."""

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        keep_existing: bool = False,
    ) -> None:
        """Insert rows of the user. With `keep_existing`, skip those whose key is in the table."""

    def insert_passages(
        self,
        rows: Sequence[tuple[Any, ...]],
        may_be_human_only: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        """Insert passages, given as rows of `passages.COLUMNS`.

        `may_be_human_only` are those of the rows that may be; without it, all of them may.
        """

    def update_passage(self, key: int, row: tuple[Any, ...]) -> None:
        """Replace the columns of a passage (PASSAGE_COLUMNS)."""

    def by_key(self, table: str, alias: str, key: str) -> str:
        """Joins the row of a table that has a key, which is another column of the statement."""

    def human_only(self, keys: Sequence[int] | None) -> dict[int, str]:
        """See Store.human_only."""

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        """The right side of `in (…)` for any number of values, and the one value to bind."""

    def array_of(self, column: str) -> str:
        """An aggregate of a column of numbers, for `parse_array`."""

    def parse_array(self, value: Any) -> NDArray[np.int64]:
        """The numbers that an aggregate returned."""

    def has_id(self, id: str) -> tuple[str, tuple[Any, ...]]:
        """The condition that a passage has an id, with its values."""

    def has_id_in(self, ids: Sequence[str], alias: str = "passage") -> tuple[str, Any]:
        """The condition that a passage has one of these ids, and the one value to bind."""

    def passage_ids_with_prefix(self, document: int, prefix: str, limit: int) -> list[str]:
        """The first ids of passages in a document that begin with a prefix, in order."""

    def starts_with(self, column: str, prefix: str) -> tuple[str, list[str]]:
        """A condition that a text begins with a prefix, with its values."""

    def new_space_number(self) -> int:
        """A number that no vector space had before, not even one that was dropped."""

    def queue_passages(self, space: int, passages: Sequence[int]) -> None:
        """Queue passages to be embedded in a space. They must not be in the queue."""

    def mark_outdated(self, passages: Sequence[int]) -> None:
        """Discard the vectors of passages whose text, title or metadata changed."""

    def mark_reindexed(self, passages: Sequence[int]) -> None:
        """Discard the vectors of passages that did not change, but whose words in the index did."""

    def delete_derived(self, passages: Sequence[int]) -> None:
        """Delete everything that was derived from deleted passages."""

    def add_counts(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add to the stored counts, which are given by name and value."""

    def derived_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Columns that this database adds to a document row, for filters and the text index."""

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        """A filter as an SQL condition on document `d`, with its values.

        `search` is a substring of the title or id.
        """


class TextIndex(Protocol):
    """The text index. Code that changes passages must update it in the same transaction."""

    def add(self, rows: Iterable[IndexRow]) -> None: ...

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        """Remove passages, given as they were added, and words that no other passage has.

        `count` is the largest number of rows.
        """

    def replace(self, before: Sequence[IndexRow], after: Sequence[IndexRow]) -> None:
        """Replace passages, given as they were added and as they are now."""


# -- markers: numbers that a library stores under a name ---


def get_marker(db: Database, name: str) -> int | None:
    number: int | None = db.get(
        f"select version from derived where {db.own()} and name = ?", (name,)
    )
    return number


def set_marker(db: Database, name: str, number: int | None) -> None:
    db.run(f"delete from derived where {db.own()} and name = ?", (name,))
    if number is not None:
        db.insert("derived", ("name", "version"), [(name, number)])
