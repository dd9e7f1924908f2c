"""A copy of the text index in another layout, until it is complete and replaces the index.

The marker `index_copied` is the key up to which passages are in the copy. Newer passages are only
in the index, so appending a message writes the index alone. Whatever changes or removes a passage
has to write both.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.store.sql.database import IndexRow
from recollect.store.sql.markers import get_marker, set_marker
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.text.index_layout import (
    INDEX,
    create_index,
    drop_index,
    has_layout,
)

COPY = "passage_text_copy"
_MARKER = "index_copied"


def start_copy(db: Connection, positions: bool) -> int:
    """Create the copy unless it exists. Returns the key up to which passages are in it."""
    last = get_marker(db, _MARKER)
    if last is not None and has_layout(db, COPY, positions):
        return last
    drop_copy(db)
    create_index(db, COPY, positions)
    set_marker(db, _MARKER, 0)
    return 0


def advance_copy(db: Connection, last: int) -> None:
    """Note that all passages up to this key are in the copy."""
    set_marker(db, _MARKER, last)


def copied_rows(db: Connection, rows: Sequence[IndexRow]) -> list[IndexRow]:
    """The rows whose passages are in the copy."""
    last = get_marker(db, _MARKER)
    if last is None:
        return []
    return [row for row in rows if row[0] <= last]


def drop_copy(db: Connection) -> None:
    """Drop an unfinished copy, if there is one."""
    if get_marker(db, _MARKER) is not None:
        drop_index(db, COPY)
        set_marker(db, _MARKER, None)


def replace_index(db: Connection) -> None:
    """Put the complete copy in the place of the index."""
    drop_index(db, INDEX)
    # Without this, SQLite checks all triggers and views first, and one of them names the index.
    db.execute("pragma legacy_alter_table = on").fetchall()
    try:
        db.run(f"alter table {COPY} rename to {INDEX}")
    finally:
        db.execute("pragma legacy_alter_table = off").fetchall()
    set_marker(db, _MARKER, None)
