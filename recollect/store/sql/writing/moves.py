"""A log of the changes that move documents in lists.

A list by date is ordered by a property that changes: a conversation that gets a message moves to
the front. A reader who continues a list after a position would miss it. The log has the place of
each document before each change, so a list can be continued in the order that it had when it began.
Writing transactions take turns, so whoever reads a number of the log sees all changes up to it.
"""

from __future__ import annotations

from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.store.sql.database import Database

# Older changes are deleted, some at a time.
_MAX_MOVES = 100_000
_MOVES_PER_CLEANUP = 1_000


class Place(NamedTuple):
    """What the place of a document in a list depends on."""

    time: int | None
    pinned: int | None


def last_move(db: Database) -> int:
    """See Store.last_move."""
    number: int | None = db.get(f"select max(number) from {db.own_rows('list_move')}")
    return number or 0


def is_cleanup_due(number: int) -> bool:
    """Whether old changes are deleted when the change with this number is recorded."""
    return number % _MOVES_PER_CLEANUP == 0


def record_move(db: Database, document: int) -> None:
    """Record the place of a document that is about to be changed."""
    ((time, pinned),) = db.rows(
        "select coalesce(updated_at, created_at), pinned from document "
        f"where {db.own()} and key = ?",
        (document,),
    )
    number = last_move(db) + 1
    db.insert(
        "list_move", ("number", "document", "time", "pinned"), [(number, document, time, pinned)]
    )
    if is_cleanup_due(number):
        db.run(f"delete from list_move where {db.own()} and number <= ?", (number - _MAX_MOVES,))


def places_at(db: Database, start: int) -> dict[int, Place]:
    """The places that documents had at a number of the log, of those that have moved since.

    Raises InvalidInput if the log does not go back that far.
    """
    rows = db.rows(
        f"select number, document, time, pinned from list_move where {db.own()} and number > ? "
        "order by number desc",
        (start,),
    )
    if rows and rows[-1][0] != start + 1:
        raise InvalidInput(
            "cursor: too much has changed since this list began. Begin again without a cursor."
        )
    return {document: Place(time, pinned) for _, document, time, pinned in rows}
