"""Copy a library from one store to another, the same for both databases.

Rows are copied as they are, with their keys, because receipts refer to passages by key. So the
target must be a new library. Derived data is not copied but built again in the target.

Tables are copied in an order in which every row comes after the rows it refers to, and rows in the
order of their keys. Every batch is compared with the target, so an interrupted move is resumed by
copying everything again.

The first batch closes the target to everybody else (see handover.py). So a row that only the target
has was copied earlier, and has been deleted in the source since: it is deleted in the target too.
If the target is not closed, such a row may be the only copy of something that a person wrote. Then
it is an error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from recollect.errors import InvalidInput, LibraryMoved, RecollectError, StoreBusy
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import passages, statistics
from recollect.store.sql.database import Database, IndexRow, TextIndex, get_marker, set_marker
from recollect.store.sql.encoding import DOCUMENT_COLUMNS, HEADING
from recollect.store.values import Batch, Block, Closure, Contents, Fingerprints

MOVING = "moving"
"""The marker of a library that another one is being moved into."""
ARRIVING = 1
ARRIVED = 2
"""The copy is complete and verified. The original is about to be removed, or already is."""

# A batch ends after this many rows, or this many characters of messages. It is one transaction of
# the target, and is in memory as a whole.
MAX_BATCH_ROWS = 10_000
_MAX_BATCH_CHARACTERS = 16_000_000
_ROWS_PER_QUERY = 200
_KEYS_PER_QUERY = 10_000

Row = tuple[Any, ...]


class Table(NamedTuple):
    """The columns of a table that are copied. Those of its key come first."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    """Columns that never change in a row."""
    flags: tuple[str, ...] = ()
    """Columns that are numbers in SQLite and booleans in PostgreSQL."""
    digested: tuple[str, ...] = ()
    """Columns that differ if anything in a row does; empty if that takes all columns."""
    block_size: int = 256
    """Rows are compared in blocks: ranges of this many values of the first key column."""

    @property
    def start(self) -> tuple[int, ...]:
        """A key before all others."""
        return (0,) * len(self.key)

    def key_of(self, row: Row) -> tuple[int, ...]:
        return row[: len(self.key)]

    def block_of(self, row: Row) -> int:
        number: int = row[0] // self.block_size
        return number

    def identity(self, row: Row) -> Row:
        return tuple(row[self.columns.index(name)] for name in (*self.key, *self.fixed))

    def rows(
        self,
        db: Database,
        after: tuple[int, ...],
        limit: int,
        until: tuple[int, ...] | None = None,
        columns: tuple[str, ...] = (),
    ) -> list[Row]:
        """The rows after a key and up to another one, in the order of their keys."""
        columns = columns or self.columns
        key = ", ".join(self.key)
        placeholders = ", ".join("?" * len(self.key))
        condition = f"({key}) > ({placeholders})"
        values = list(after)
        if until is not None:
            condition += f" and ({key}) <= ({placeholders})"
            values += until
        rows = db.rows(
            f"select {', '.join(columns)} from {self.name} "
            f"where {db.own()} and {condition} order by {key} limit ?",
            (*values, limit),
        )
        indexes = [columns.index(name) for name in self.flags if name in columns]
        if not indexes:
            return rows
        return [with_flags(row, indexes) for row in rows]


def with_flags(row: Row, indexes: list[int]) -> Row:
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
            ("id", "path", "started_at", "finished_at", "undone_at", "files", "left_out", "job"),
        ),
        Table(
            "document",
            ("key",),
            ("key", *DOCUMENT_COLUMNS, "opening", "passages", "observed"),
            fixed=("id", "source", "source_id", "kind"),
            flags=("partial", "shared_ids"),
        ),
        Table(
            "passage",
            ("key",),
            passages.COLUMNS,
            fixed=("document", "id"),
            flags=("shared", "canonical"),
            # The digest covers everything else.
            digested=("key", "document", "receipt", "shared", "digest", "position", "canonical"),
        ),
        Table(
            "receipt_document",
            ("receipt", "document"),
            ("receipt", "document", "before"),
        ),
        Table("receipt_revision", ("receipt", "passage"), ("receipt", "passage", "before")),
        Table("forgotten", ("high", "low"), ("high", "low"), block_size=1 << 56),
        Table(
            "undo",
            ("number",),
            ("number", "action", "document", "title", "changed_at", "expires_at", "state"),
        ),
        Table("list_move", ("number",), ("number", "document", "time", "pinned")),
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
        after, is_last = table.start, False
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


class Import(NamedTuple):
    """The outcome of importing a batch."""

    correction: str | None
    """A name for a row that differed."""
    has_removed: bool
    """Whether text was deleted or replaced."""


def import_batch(db: Database, batch: Batch, index: TextIndex) -> Import:
    """See Store.import_batch."""
    mark_moving(db)
    table = TABLES[batch.table]
    has_removed = delete_unexpected(db, table, batch, index)
    end = batch.end(len(table.key))
    stored = {
        table.key_of(row): row for row in table.rows(db, batch.after, len(batch.rows) + 1, end)
    }
    new: list[Row] = []
    correction = None
    for row in batch.rows:
        stored_row = stored.get(table.key_of(row))
        if stored_row is None:
            new.append(row)
        elif stored_row != row:
            has_removed = True
            if table.identity(stored_row) != table.identity(row):
                delete(db, table, [table.key_of(row)], index)
                new.append(row)
                continue
            correction = correction or describe(db, table, row)
            replace(db, table, row, index)
    if new:
        if table.name == "document":
            has_removed |= delete_namesakes(db, new, index)
        add(db, table, new, index)
    if batch.highest_key:
        db.run(
            f"update last_key set passage = ? where {db.own()} and passage < ?",
            (batch.highest_key, batch.highest_key),
        )
    return Import(correction, has_removed)


def delete_unexpected(db: Database, table: Table, batch: Batch, index: TextIndex) -> bool:
    """Delete the rows in the range of a batch that it does not contain."""
    keys = {table.key_of(row) for row in batch.rows}
    end = batch.end(len(table.key))
    after, has_deleted = batch.after, False
    while True:
        stored = table.rows(db, after, _KEYS_PER_QUERY, end, table.key)
        unexpected = [key for key in stored if key not in keys]
        if unexpected:
            delete(db, table, unexpected, index)
            has_deleted = True
        if len(stored) < _KEYS_PER_QUERY:
            return has_deleted
        after = stored[-1]


def delete_namesakes(db: Database, rows: list[Row], index: TextIndex) -> bool:
    """Delete documents that have the names of new ones, and another key: they are outdated."""
    columns = TABLES["document"].columns
    names = [columns.index(name) for name in ("id", "source", "source_id")]
    ids, source_ids = set(), set()
    for row in rows:
        id_, source, source_id = (row[n] for n in names)
        ids.add(id_)
        source_ids.add((source, source_id))
    members, value = db.in_list(sorted(ids))
    others, other_value = db.in_list(sorted({source_id for _, source_id in source_ids}))
    stored = db.rows(
        f"select key, id, source, source_id from document where {db.own()} "
        f"and (id in ({members}) or source_id in ({others}))",
        (value, other_value),
    )
    keys = [
        (key,)
        for key, id_, source, source_id in stored
        if id_ in ids or (source, source_id) in source_ids
    ]
    if keys:
        delete(db, TABLES["document"], keys, index)
    return bool(keys)


def delete(db: Database, table: Table, keys: Sequence[Row], index: TextIndex) -> None:
    """Delete rows by their keys, with everything derived from them."""
    if table.name == "document":
        members, value = db.in_list([key for (key,) in keys])
        rows = db.rows(
            f"select key from passage where {db.own()} and document in ({members})", (value,)
        )
        passages.delete_rows(db, [key for (key,) in rows], index)
    if table.name == "passage":
        passages.delete_rows(db, [key for (key,) in keys], index)
        return
    conditions = " and ".join(f"{name} = ?" for name in table.key)
    db.run_many(f"delete from {table.name} where {db.own()} and {conditions}", keys)


def mark_moving(db: Database) -> None:
    """Mark a new library as one that another is being moved into, and close it to others."""
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
        close(db, Closure())
    if state != ARRIVING:
        set_marker(db, MOVING, ARRIVING)


def describe(db: Database, table: Table, row: Row) -> str:
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


def add(db: Database, table: Table, rows: list[Row], index: TextIndex) -> None:
    match table.name:
        case "document":
            documents = [with_derived_columns(db, table, row) for row in rows]
            values = [tuple(document.values()) for document in documents]
            db.insert("document", tuple(documents[0]), values)
        case "passage":
            passages.insert_passages(db, rows)
            index.add(index_rows(db, rows))
        case _:
            db.insert(table.name, table.columns, rows)


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


def replace(db: Database, table: Table, row: Row, index: TextIndex) -> None:
    match table.name:
        case "document":
            replace_document(db, with_derived_columns(db, table, row), index)
        case "passage":
            key, _, receipt, shared, *rest = row
            passages.replace_passage(db, key, tuple(rest), index)
            db.run(
                f"update passage set receipt = ?, shared = ? where {db.own()} and key = ?",
                (receipt, shared, key),
            )
        case _:
            update(db, table, dict(zip(table.columns, row, strict=True)))


def replace_document(db: Database, values: dict[str, Any], index: TextIndex) -> None:
    """Update a document, and the index: its title is indexed with its opening passage."""
    opening = db.get(f"select opening from document where {db.own()} and key = ?", (values["key"],))
    openings = [key for key in {opening, values["opening"]} if key is not None]
    project = db.get(f"select project from document where {db.own()} and key = ?", (values["key"],))
    before = list(passages.index_rows(db, openings))
    update(db, TABLES["document"], values)
    if values["project"] != project:
        statistics.move_messages(db, values["key"], project, values["project"])
    after = list(passages.index_rows(db, openings))
    if before != after:
        index.replace(before, after)
        db.mark_outdated([key for key, _, _ in after])


def update(db: Database, table: Table, values: dict[str, Any]) -> None:
    changes = {name: value for name, value in values.items() if name not in table.key}
    assignments = ", ".join(f"{name} = ?" for name in changes)
    conditions = " and ".join(f"{name} = ?" for name in table.key)
    db.run(
        f"update {table.name} set {assignments} where {db.own()} and {conditions}",
        (*changes.values(), *(values[name] for name in table.key)),
    )


# -- closed libraries: nobody may write to them, except whoever moves them ---


def closure(db: Database) -> Closure | None:
    """Why nobody may write to the library, or None."""
    return parse_closure(db.get(f"select closed from {db.own_rows('last_key')}"))


def parse_closure(text: str | None) -> Closure | None:
    if text is None:
        return None
    return Closure(**json.loads(text))


def close(db: Database, reason: Closure | None) -> None:
    """Close a library, or open it again."""
    text = None
    if reason is not None:
        text = json.dumps(reason._asdict())
    db.run(f"update last_key set closed = ? where {db.own()}", (text,))


def closed_error(path: Path | str, reason: Closure) -> LibraryMoved:
    if reason.moved_to:
        return LibraryMoved(
            f"The library at {path} was moved to {reason.moved_to}. Nothing was written here; "
            "use the library at its new place."
        )
    return LibraryMoved(
        f"A library is being moved into {path}, so nothing was written. Try again when the move is "
        "complete."
    )


# -- bringing a copy up to date while people write to the original, and handing over ---

_ROWS_PER_QUERY = 5_000
# Larger than any part of a key.
_LAST = (1 << 63) - 1


def fingerprints(db: Database, deadline: float | None = None) -> dict[Block, bytes]:
    """A hash of each block. Raises StoreBusy at the deadline, a time of the monotonic clock."""
    hashes: dict[Block, bytes] = {}
    for table in TABLES.values():
        blocks = groupby(scan(db, table, deadline), table.block_of)
        for number, rows in blocks:
            data = orjson.dumps(list(rows), default=bytes.hex)
            hashes[table.name, number] = blake2b(data, digest_size=16).digest()
    return hashes


def scan(db: Database, table: Table, deadline: float | None) -> Iterator[Row]:
    """The rows of a table, with the columns that tell whether they differ."""
    after, is_last = table.start, False
    while not is_last:
        require_time(deadline)
        rows = table.rows(db, after, _ROWS_PER_QUERY, None, table.digested)
        yield from rows
        is_last = len(rows) < _ROWS_PER_QUERY
        if rows:
            after = table.key_of(rows[-1])


def state_hash(hashes: Fingerprints) -> str:
    """A hash of a whole library."""
    digest = blake2b(digest_size=16)
    for (table, number), value in sorted(hashes.items()):
        digest.update(b"%s %d " % (table.encode(), number) + value)
    return digest.hexdigest()


def require_time(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise StoreBusy("Writes were held for too long.")


def export_changes(
    db: Database,
    copy: Fingerprints,
    receive: Callable[[Batch], None],
    deadline: float | None = None,
) -> tuple[int, str]:
    """See Store.export_changes. Also returns a hash of the library."""
    hashes = fingerprints(db, deadline)
    differing = {
        block for block in hashes.keys() | copy.keys() if hashes.get(block) != copy.get(block)
    }
    for table in TABLES.values():
        for number in sorted(number for name, number in differing if name == table.name):
            require_time(deadline)
            receive(_block(db, table, number))
    last_key: int = db.get(f"select passage from {db.own_rows('last_key')}")
    receive(Batch("passage", (last_key,), [], True, last_key))
    return len(differing), state_hash(hashes)


def _block(db: Database, table: Table, number: int) -> Batch:
    others = (_LAST,) * (len(table.key) - 1)
    after = (number * table.block_size - 1, *others)
    until = ((number + 1) * table.block_size - 1, *others)
    rows: list[Row] = []
    position, is_last = after, False
    while not is_last:
        some = table.rows(db, position, _ROWS_PER_QUERY, until)
        rows += some
        is_last = len(some) < _ROWS_PER_QUERY
        if some:
            position = table.key_of(some[-1])
    return Batch(table.name, after, rows, False, 0, until)


def rows_in_range(db: Database, batch: Batch) -> list[Row]:
    """See Store.rows_in_range."""
    table = TABLES[batch.table]
    return table.rows(db, batch.after, len(batch.rows) + 1, batch.end(len(table.key)))


def require_contents(db: Database, expected: Contents | str | None, path: Path | str) -> None:
    """Raise an error if a library no longer has the expected contents."""
    if expected is None:
        return
    contents: Contents | str
    if isinstance(expected, str):
        contents = state_hash(fingerprints(db))
    else:
        contents = export_batches(db)
    if contents != expected:
        raise RecollectError(
            f"{path} was written to after it was copied, so it was not removed. "
            "Run the same command again to copy what is new."
        )
