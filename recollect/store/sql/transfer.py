"""Copy a library from one store to another, the same for both databases.

Rows are copied as they are, with their keys, because receipts refer to passages by key. So the
target must be a new library. Derived data is not copied but built again in the target. Tables are
copied in an order in which every row comes after the rows it refers to, and rows in the order of
their keys.

The first batch closes the target to everybody else. If it is incomplete, because a copy of it was
interrupted, it is emptied, and the copy begins again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from recollect.errors import InvalidInput, LibraryMoved, RecollectError
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import passages
from recollect.store.sql.database import Database, IndexRow, TextIndex, get_marker, set_marker
from recollect.store.sql.encoding import DOCUMENT_COLUMNS, HEADING
from recollect.store.values import Batch, Closure, Contents

MOVING = "moving"
"""The marker of a library that another one is being moved into."""

# A batch ends after this many rows, or this many characters of messages. It is one transaction of
# the target, and is in memory as a whole.
MAX_BATCH_ROWS = 10_000
_MAX_BATCH_CHARACTERS = 16_000_000
_ROWS_PER_QUERY = 200

Row = tuple[Any, ...]


class Table(NamedTuple):
    """The columns of a table that are copied. Those of its key come first."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    flags: tuple[str, ...] = ()
    """Columns that are numbers in SQLite and booleans in PostgreSQL."""

    def key_of(self, row: Row) -> tuple[int, ...]:
        return row[: len(self.key)]

    def rows(self, db: Database, after: tuple[int, ...], limit: int) -> list[Row]:
        """The rows after a key, in the order of their keys."""
        key = ", ".join(self.key)
        rows = db.rows(
            f"select {', '.join(self.columns)} from {self.name} "
            f"where {db.own()} and ({key}) > ({', '.join('?' * len(self.key))}) "
            f"order by {key} limit ?",
            (*after, limit),
        )
        flags = [self.columns.index(name) for name in self.flags]
        if not flags:
            return rows
        return [
            tuple(bool(value) if n in flags else value for n, value in enumerate(row))
            for row in rows
        ]


TABLES = {
    table.name: table
    for table in (
        Table(
            "receipt",
            ("id",),
            ("id", "path", "started_at", "finished_at", "undone_at", "files", "left_out", "job"),
        ),
        Table(
            "document",
            ("key",),
            ("key", *DOCUMENT_COLUMNS, "opening", "passages", "observed"),
            flags=("partial", "shared_ids"),
        ),
        Table(
            "passage",
            ("key",),
            passages.COLUMNS,
            flags=("shared", "canonical"),
        ),
        Table(
            "receipt_document",
            ("receipt", "document"),
            ("receipt", "document", "before"),
        ),
        Table("forgotten", ("high", "low"), ("high", "low")),
        Table(
            "undo",
            ("number",),
            ("number", "action", "document", "title", "changed_at", "expires_at", "state"),
        ),
    )
}
"""The copied tables, in the order in which they are copied."""
CARRIED_MARKERS = ("undo number", "observer", "observer_tried")
"""The markers that are copied. The others are about derived data."""
_KIND = TABLES["document"].columns.index("kind")


# -- export ---


def export_batches(db: Database, receive: Callable[[Batch], None] | None = None) -> Contents:
    """See Store.export_batches."""
    last_key: int = db.get(f"select passage from {db.own_rows('last_key')}")
    digest = blake2b(b"%d\n" % last_key, digest_size=16)
    counts = dict.fromkeys(TABLES, 0)
    conversations = 0
    for table in TABLES.values():
        digest.update(table.name.encode() + b"\n")
        after, is_last = (0,) * len(table.key), False
        while not is_last:
            batch = read_batch(db, table, after, last_key)
            for row in batch.rows:
                digest.update(
                    orjson.dumps(row, default=bytes.hex, option=orjson.OPT_APPEND_NEWLINE)
                )
            counts[table.name] += len(batch.rows)
            if table.name == "document":
                conversations += sum(row[_KIND] == CONVERSATION for row in batch.rows)
            if receive is not None:
                receive(batch)
            is_last = batch.is_last
            if batch.rows:
                after = table.key_of(batch.rows[-1])
    return Contents(
        conversations,
        counts["document"] - conversations,
        counts["passage"],
        counts["receipt"],
        digest.hexdigest(),
    )


def read_batch(db: Database, table: Table, after: tuple[int, ...], last_key: int) -> Batch:
    """The next rows of a table. `last_key` is the highest key that a passage ever had."""
    rows: list[Row] = []
    characters = 0
    position = after
    is_last = False
    while not is_last and len(rows) < MAX_BATCH_ROWS and characters < _MAX_BATCH_CHARACTERS:
        limit = min(_ROWS_PER_QUERY, MAX_BATCH_ROWS - len(rows))
        some = table.rows(db, position, limit)
        rows += some
        is_last = len(some) < limit
        if rows:
            position = table.key_of(rows[-1])
        if table.name == "passage":
            characters += sum(len(row[-1]) for row in some)
    highest_key = 0
    if table.name == "passage" and is_last:
        highest_key = last_key
    elif table.name == "passage":
        highest_key = rows[-1][0]
    return Batch(table.name, after, rows, is_last, highest_key)


# -- import ---


def import_batch(db: Database, batch: Batch, index: TextIndex) -> bool:
    """See Store.import_batch. Returns whether the rest of an earlier copy was deleted."""
    table = TABLES[batch.table]
    has_removed = False
    if batch.table == next(iter(TABLES)) and not any(batch.after):
        has_removed = begin(db, index)
    rows = list(batch.rows)
    if rows and table.name == "document":
        documents = [with_derived_columns(db, table, row) for row in rows]
        values = [tuple(document.values()) for document in documents]
        db.insert("document", tuple(documents[0]), values)
    elif rows and table.name == "passage":
        passages.insert_passages(db, rows)
        index.add(index_rows(db, rows))
    elif rows:
        db.insert(table.name, table.columns, rows)
    if batch.highest_key:
        db.run(
            f"update last_key set passage = ? where {db.own()} and passage < ?",
            (batch.highest_key, batch.highest_key),
        )
    return has_removed


def begin(db: Database, index: TextIndex) -> bool:
    """Close a new library to others, to move another one into it. True if it had to be emptied."""
    if get_marker(db, MOVING) is not None:
        keys = [key for (key,) in db.rows(f"select key from {db.own_rows('passage')}")]
        passages.delete_rows(db, keys, index)
        for name in reversed(TABLES):
            db.run(f"delete from {db.own_rows(name)}")
        db.run(f"update last_key set passage = 0 where {db.own()}")
        return True
    if db.get(f"select exists (select 1 from {db.own_rows('document')})"):
        raise InvalidInput(
            "The library to move into has conversations already. Move into a new one "
            "(--to-user), or merge the two: `recollect export` here and `recollect import` there."
        )
    if db.get(
        f"select exists (select 1 from {db.own_rows('receipt')}) "
        f"or exists (select 1 from last_key where {db.own()} and passage > 0)"
    ):
        raise InvalidInput(
            "The library to move into is not new: it has no conversations, but it had some "
            "before. Delete what is left of it with `recollect move FROM TO --abort`."
        )
    set_closure(db, Closure())
    set_marker(db, MOVING, 1)
    return False


def with_derived_columns(db: Database, table: Table, row: Row) -> dict[str, Any]:
    values = dict(zip(table.columns, row, strict=True))
    return values | db.derived_columns(values)


def index_rows(db: Database, rows: list[Row]) -> list[IndexRow]:
    members, value = db.in_list(sorted({row[1] for row in rows}))
    titles: Mapping[int, str] = dict(
        db.rows(
            f"select d.opening, {HEADING} from document d "
            f"where {db.own('d')} and d.opening is not null and d.key in ({members})",
            (value,),
        )
    )
    return [(row[0], titles.get(row[0], ""), row[-1]) for row in rows]


# -- closed libraries: nobody may write to them, except whoever moves them ---


def closure(db: Database) -> Closure | None:
    """Why nobody may write to the library, or None."""
    return parse_closure(db.get(f"select closed from {db.own_rows('last_key')}"))


def parse_closure(text: str | None) -> Closure | None:
    if text is None:
        return None
    return Closure(**json.loads(text))


def set_closure(db: Database, reason: Closure | None) -> None:
    """Close a library, or open it again."""
    text = None
    if reason is not None:
        text = json.dumps(reason._asdict())
    db.run(f"update last_key set closed = ? where {db.own()}", (text,))


def closed_error(path: Path | str, reason: Closure) -> LibraryMoved:
    if reason.moved_to:
        return LibraryMoved(
            f"The library at {path} was moved to {reason.moved_to}, or is being moved there. "
            "Nothing was written here. Use the library at its new place when the move is complete. "
            "If it was interrupted, run it again, or accept writes here with `recollect move FROM "
            "TO --reopen`."
        )
    return LibraryMoved(
        f"A library is being moved into {path}, so nothing was written. Try again when the move is "
        "complete."
    )


def require_closure(db: Database, expected: Closure | None, path: Path | str) -> None:
    """Raise an error if a library has been opened since it was closed to copy it."""
    if expected is not None and closure(db) != expected:
        raise RecollectError(
            f"{path} accepts writes again since it was copied, so it was not removed. "
            "Run the same command again to copy what is new."
        )
