"""Copy a library from one store to another, the same for both databases.

Rows are copied as they are, with their keys, because receipts refer to passages by key. So the
target must be a new library. Derived data is not copied but built again in the target.

Tables are copied in an order in which every row comes after the rows it refers to, and rows in the
order of their keys. Every batch is compared with the target, so an interrupted move is resumed by
copying everything again. Rows that only the target has are never deleted, because they may be the
only copy of something a person wrote; they are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from recollect.errors import InvalidInput, RecollectError
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import passages
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import DOCUMENT_COLUMNS, HEADING
from recollect.store.sql.markers import get_marker, set_marker
from recollect.store.values import Batch, Contents

MOVING = "moving"
"""The marker of a library that another one is being moved into."""
ARRIVING = 1
ARRIVED = 2
"""The copy is complete and verified. The original is about to be removed, or already is."""

# A batch ends after so many rows, or so many characters of messages. It is one transaction of the
# target, and is in memory as a whole.
MAX_BATCH_ROWS = 10_000
_MAX_BATCH_CHARACTERS = 16_000_000
_ROWS_PER_QUERY = 200

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table that are copied. Those of its key come first."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    """Columns that never change in a row."""
    flags: tuple[str, ...] = ()
    """Columns that are numbers in SQLite and booleans in PostgreSQL."""

    @property
    def start(self) -> tuple[int, ...]:
        """A key before all others."""
        return (0,) * len(self.key)

    def key_of(self, row: Row) -> tuple[int, ...]:
        return row[: len(self.key)]

    def identity(self, row: Row) -> Row:
        return tuple(row[self.columns.index(name)] for name in (*self.key, *self.fixed))

    def rows(self, db: Database, after: tuple[int, ...], limit: int) -> list[Row]:
        """The rows after a key, in the order of their keys."""
        key = ", ".join(self.key)
        placeholders = ", ".join("?" * len(self.key))
        rows = db.rows(
            f"select {', '.join(self.columns)} from {self.name} "
            f"where {db.own()} and ({key}) > ({placeholders}) order by {key} limit ?",
            (*after, limit),
        )
        if not self.flags:
            return rows
        indexes = [self.columns.index(name) for name in self.flags]
        return [_with_flags(row, indexes) for row in rows]


def _with_flags(row: Row, indexes: list[int]) -> Row:
    values = list(row)
    for n in indexes:
        values[n] = bool(values[n])
    return tuple(values)


TABLES = {
    table.name: table
    for table in (
        Table(
            "receipt",
            ("id",),
            ("id", "path", "started_at", "finished_at", "undone_at", "files", "left_out"),
        ),
        Table(
            "document",
            ("key",),
            ("key", *DOCUMENT_COLUMNS, "opening", "passages"),
            fixed=("id", "source", "source_id", "kind"),
            flags=("partial", "shared_ids"),
        ),
        Table(
            "passage",
            ("key",),
            passages.COLUMNS,
            fixed=("document", "id"),
            flags=("shared", "canonical"),
        ),
        Table(
            "receipt_document",
            ("receipt", "document"),
            ("receipt", "document", "runs", "before"),
        ),
        Table("receipt_revision", ("receipt", "passage"), ("receipt", "passage", "before")),
        Table("forgotten", ("high", "low"), ("high", "low")),
    )
}
"""The copied tables, in the order in which they are copied."""
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
        after, is_last = table.start, False
        while not is_last:
            batch = _read_batch(db, table, after, last_key)
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


def _read_batch(db: Database, table: Table, after: tuple[int, ...], last_key: int) -> Batch:
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


def require_contents(db: Database, expected: Contents | None, path: Path | str) -> None:
    """Raise an error if a library no longer has the expected contents."""
    if expected is not None and export_batches(db) != expected:
        raise RecollectError(
            f"{path} was written to after it was copied, so it was not removed. "
            "Run the same command again to copy what is new."
        )


# -- import ---


def import_batch(db: Database, batch: Batch, index: TextIndex) -> str | None:
    """See Store.import_batch."""
    _mark_moving(db)
    table = TABLES[batch.table]
    stored_rows = table.rows(db, batch.after, len(batch.rows) + 1)
    stored = {table.key_of(row): row for row in stored_rows}
    new: list[Row] = []
    correction = None
    for row in batch.rows:
        stored_row = stored.pop(table.key_of(row), None)
        if stored_row is None:
            new.append(row)
        elif stored_row != row:
            if table.identity(stored_row) != table.identity(row):
                raise _unexpected_row(db, table, stored_row)
            correction = correction or _describe(db, table, row)
            _replace(db, table, row, index)
    for key, row in stored.items():
        if batch.is_last or key <= table.key_of(batch.rows[-1]):
            raise _unexpected_row(db, table, row)
    if new:
        _add(db, table, new, index)
    if batch.highest_key:
        db.run(
            f"update last_key set passage = ? where {db.own()} and passage < ?",
            (batch.highest_key, batch.highest_key),
        )
    return correction


def _mark_moving(db: Database) -> None:
    """Mark a new library as one that another is being moved into."""
    state = get_marker(db, MOVING)
    if state is None:
        if db.get(f"select exists (select 1 from {db.own_rows('document')})"):
            raise InvalidInput(
                "The library to move into has conversations already. Move into a new one "
                "(--to-user), or merge the two: `recollect export` here and `recollect import` "
                "there."
            )
        if db.get(
            f"select exists (select 1 from {db.own_rows('receipt')}) "
            f"or exists (select 1 from last_key where {db.own()} and passage > 0)"
        ):
            raise InvalidInput(
                "The library to move into is not new: it has no conversations, but it had some "
                "before. Delete what is left of it with `recollect move FROM TO --abort`."
            )
    if state != ARRIVING:
        set_marker(db, MOVING, ARRIVING)


def _unexpected_row(db: Database, table: Table, row: Row) -> InvalidInput:
    return InvalidInput(
        "The unfinished library contains something that the original does not "
        f"({_describe(db, table, row)}): one of the two was changed in the meantime. Delete the "
        "unfinished library with `recollect move FROM TO --abort`, then move again."
    )


def _describe(db: Database, table: Table, row: Row) -> str:
    """A name for a row in messages."""
    values = dict(zip(table.columns, row, strict=True))
    match table.name:
        case "receipt":
            return f"import {values['id']}"
        case "forgotten":
            return "a record of what was forgotten"
        case "document":
            document = values["key"]
        case "receipt_revision":
            document = db.get(
                f"select document from passage where {db.own()} and key = ?", (values["passage"],)
            )
        case _:
            document = values["document"]
    id_ = db.get(f"select id from document where {db.own()} and key = ?", (document,))
    return f"conversation {id_!r}"


def _add(db: Database, table: Table, rows: list[Row], index: TextIndex) -> None:
    match table.name:
        case "document":
            documents = [_with_derived_columns(db, table, row) for row in rows]
            values = [tuple(document.values()) for document in documents]
            db.insert("document", tuple(documents[0]), values)
        case "passage":
            passages.insert_passages(db, rows)
            index.add(_index_rows(db, rows))
        case _:
            db.insert(table.name, table.columns, rows)


def _with_derived_columns(db: Database, table: Table, row: Row) -> dict[str, Any]:
    values = dict(zip(table.columns, row, strict=True))
    return values | db.derived_columns(values)


def _index_rows(db: Database, rows: list[Row]) -> list[IndexRow]:
    members, value = db.in_list(sorted({row[1] for row in rows}))
    titles: Mapping[int, str] = dict(
        db.rows(
            f"select d.opening, {HEADING} from document d "
            f"where {db.own('d')} and d.opening is not null and d.key in ({members})",
            (value,),
        )
    )
    return [(row[0], titles.get(row[0], ""), row[-1]) for row in rows]


def _replace(db: Database, table: Table, row: Row, index: TextIndex) -> None:
    match table.name:
        case "document":
            _replace_document(db, _with_derived_columns(db, table, row), index)
        case "passage":
            key, _, receipt, shared, *rest = row
            passages.replace_passage(db, key, tuple(rest), index)
            db.run(
                f"update passage set receipt = ?, shared = ? where {db.own()} and key = ?",
                (receipt, shared, key),
            )
        case _:
            _update(db, table, dict(zip(table.columns, row, strict=True)))


def _replace_document(db: Database, values: dict[str, Any], index: TextIndex) -> None:
    """Update a document, and the index: its title is indexed with its opening passage."""
    opening = db.get(f"select opening from document where {db.own()} and key = ?", (values["key"],))
    openings = [key for key in {opening, values["opening"]} if key is not None]
    before = list(passages.index_rows(db, openings))
    _update(db, TABLES["document"], values)
    after = list(passages.index_rows(db, openings))
    if before != after:
        index.replace(before, after)
        db.mark_outdated([key for key, _, _ in after])


def _update(db: Database, table: Table, values: dict[str, Any]) -> None:
    changes = {name: value for name, value in values.items() if name not in table.key}
    assignments = ", ".join(f"{name} = ?" for name in changes)
    conditions = " and ".join(f"{name} = ?" for name in table.key)
    db.run(
        f"update {table.name} set {assignments} where {db.own()} and {conditions}",
        (*changes.values(), *(values[name] for name in table.key)),
    )
