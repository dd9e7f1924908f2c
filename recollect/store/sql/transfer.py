"""A library on its way from one store into another, the same in every database.

Rows go as they are, and keys with them, for receipts name passages by their
keys: so the library that takes them in must be a new one. What is derived is
left out and made again there.

Tables come in an order in which what a row refers to is there before it, and
rows in the order of their keys, which so only grow there too. Each batch is
compared with what is there already: whatever was broken off is gone on with by
handing over everything once more. What the other library does not have is
never removed, since it may be the only copy of what somebody wrote; it is an
error.
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
from recollect.store.sql import documents, passages
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import PASSAGE_COLUMNS
from recollect.store.values import Batch, Contents

MOVING = "moving"
"""Noted in a library that another one is being moved into, until it is whole."""
ARRIVING = 1
ARRIVED = 2
"""It is all there and verified, and the other library is about to be removed or is so already."""

BATCH = 10_000  # rows
_ENOUGH = 16_000_000  # characters of messages from which a batch has no more rows
_SLICE = 200  # rows read at once

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What is handed over of a table. The key comes first among the columns."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    """What never changes in a row."""
    flags: tuple[str, ...] = ()
    """What is a number in one database and a truth value in the other."""

    def key_of(self, row: Row) -> tuple[int, ...]:
        return row[: len(self.key)]

    def identity(self, row: Row) -> Row:
        return tuple(row[self.columns.index(name)] for name in (*self.key, *self.fixed))

    def rows(self, db: Database, after: tuple[int, ...], limit: int) -> list[Row]:
        key = ", ".join(self.key)
        found = db.rows(
            f"select {', '.join(self.columns)} from {self.table} where ({key}) > ({', '.join('?' * len(self.key))}) "
            f"order by {key} limit ?",
            (*after, limit),
        )
        places = [self.columns.index(name) for name in self.flags]
        return [_with_flags(row, places) for row in found] if places else found


def _with_flags(row: Row, places: list[int]) -> Row:
    values = list(row)
    for at in places:
        values[at] = bool(values[at])
    return tuple(values)


PARTS = (
    Part(
        "receipt",
        ("id",),
        ("id", "path", "started_at", "finished_at", "undone_at", "files", "left_out"),
    ),
    Part(
        "document",
        ("key",),
        ("key", *documents.DOCUMENT_COLUMNS, "opening", "passages"),
        fixed=("id", "source", "source_id", "kind"),
        flags=("partial", "shared_ids"),
    ),
    Part(
        "passage",
        ("key",),
        ("key", "document", "receipt", "shared", *PASSAGE_COLUMNS),
        fixed=("document", "id"),
        flags=("shared", "canonical"),
    ),
    Part("receipt_document", ("receipt", "document"), ("receipt", "document", "runs", "before")),
    Part("receipt_revision", ("receipt", "passage"), ("receipt", "passage", "before")),
)
_BY_TABLE = {part.table: part for part in PARTS}
_KIND = _BY_TABLE["document"].columns.index("kind")


# -- notes ---------------------------------------------------------------------


def get_marker(db: Database, name: str) -> int | None:
    number: int | None = db.get("select version from derived where name = ?", (name,))
    return number


def set_marker(db: Database, name: str, number: int | None) -> None:
    db.run("delete from derived where name = ?", (name,))
    if number is not None:
        db.run("insert into derived (name, version) values (?, ?)", (name, number))


# -- handing over --------------------------------------------------------------


def export_batches(db: Database, receive: Callable[[Batch], None] | None = None) -> Contents:
    """See Store.export_batches."""
    last_key: int = db.get("select passage from last_key")
    seen = blake2b(b"%d\n" % last_key, digest_size=16)
    counts = dict.fromkeys(_BY_TABLE, 0)
    conversations = 0
    for part in PARTS:
        seen.update(part.table.encode() + b"\n")
        batch = None
        while batch is None or not batch.is_last:
            batch = _batch(
                db, part, part.key_of(batch.rows[-1]) if batch else (0,) * len(part.key), last_key
            )
            for row in batch.rows:
                seen.update(orjson.dumps(row, default=bytes.hex, option=orjson.OPT_APPEND_NEWLINE))
            counts[part.table] += len(batch.rows)
            if part.table == "document":
                conversations += sum(row[_KIND] == CONVERSATION for row in batch.rows)
            if receive is not None:
                receive(batch)
    return Contents(
        conversations,
        counts["document"] - conversations,
        counts["passage"],
        counts["receipt"],
        seen.hexdigest(),
    )


def _batch(db: Database, part: Part, after: tuple[int, ...], last_key: int) -> Batch:
    rows: list[Row] = []
    size = 0
    while len(rows) < BATCH and size < _ENOUGH:
        limit = min(_SLICE, BATCH - len(rows))
        some = part.rows(db, part.key_of(rows[-1]) if rows else after, limit)
        rows += some
        if len(some) < limit:
            return Batch(part.table, after, rows, True, last_key if part.table == "passage" else 0)
        if part.table == "passage":
            size += sum(len(row[-1]) for row in some)
    return Batch(part.table, after, rows, False, rows[-1][0] if part.table == "passage" else 0)


def expect(db: Database, known: Contents | None, path: Path | str) -> None:
    """Raise where a library is no longer what it was."""
    if known is not None and export_batches(db) != known:
        raise RecollectError(
            f"{path} was written to after it was copied, so it was not removed. Run the same command again to copy "
            "what is new."
        )


# -- taking in -----------------------------------------------------------------


def import_batch(db: Database, batch: Batch, index: TextIndex) -> str | None:
    """See Store.import_batch."""
    _claim(db)
    part = _BY_TABLE[batch.table]
    there = {part.key_of(row): row for row in part.rows(db, batch.after, len(batch.rows) + 1)}
    new: list[Row] = []
    corrected = None
    for row in batch.rows:
        mine = there.pop(part.key_of(row), None)
        if mine is None:
            new.append(row)
        elif mine != row:
            if part.identity(mine) != part.identity(row):
                raise _strange(db, part, mine)
            corrected = corrected or _name(db, part, row)
            _replace(db, part, row, index)
    for key, mine in there.items():
        if batch.is_last or key <= part.key_of(batch.rows[-1]):
            raise _strange(db, part, mine)
    if new:
        _add(db, part, new, index)
    if batch.highest_key:
        db.run(
            "update last_key set passage = ? where passage < ?",
            (batch.highest_key, batch.highest_key),
        )
    return corrected


def _claim(db: Database) -> None:
    """Make a new library one that another is being moved into."""
    state = get_marker(db, MOVING)
    if state is None:
        if db.get("select exists (select 1 from document)"):
            raise InvalidInput(
                "The library to move into has conversations already. Move into a new one (--to-user), or merge the "
                "two: `recollect export` here and `recollect import` there."
            )
        if db.get(
            "select exists (select 1 from receipt) or exists (select 1 from last_key where passage > 0)"
        ):
            raise InvalidInput(
                "The library to move into is not a new one: it has no conversations, but had some. Take away what is "
                "left of it with `recollect move FROM TO --abort`."
            )
    if state != ARRIVING:
        set_marker(db, MOVING, ARRIVING)


def _strange(db: Database, part: Part, row: Row) -> InvalidInput:
    return InvalidInput(
        f"The unfinished library has what the one that is moved into it has not ({_name(db, part, row)}): the one was "
        "written to, or something was removed from the other. Take the unfinished one away with `recollect move FROM "
        "TO --abort`, and move again."
    )


def _name(db: Database, part: Part, row: Row) -> str:
    """What a row is called in an error."""
    value = dict(zip(part.columns, row, strict=True))
    document = value["key"] if part.table == "document" else value.get("document")
    if part.table == "receipt_revision":
        document = db.get("select document from passage where key = ?", (value["passage"],))
    if document is None:
        return f"import {value['id']}"
    return f"conversation {db.get('select id from document where key = ?', (document,))!r}"


def _add(db: Database, part: Part, rows: list[Row], index: TextIndex) -> None:
    match part.table:
        case "receipt":
            _add_receipts(db, part, rows)
        case "document":
            made = [_complete(db, part, row) for row in rows]
            db.insert("document", tuple(made[0]), [tuple(row.values()) for row in made])
        case "passage":
            db.insert("passage", part.columns, rows)
            index.add(_to_index(db, rows))
        case _:
            db.insert(part.table, part.columns, rows)


def _add_receipts(db: Database, part: Part, rows: list[Row]) -> None:
    for row in rows:
        number = db.get(
            f"insert into receipt ({', '.join(part.columns)}) values ({', '.join('?' * len(row))}) returning id",
            row,
        )
        if number != row[0]:  # a database may number them itself
            db.run("update receipt set id = ? where id = ?", (row[0], number))


def _complete(db: Database, part: Part, row: Row) -> dict[str, Any]:
    """A document with the columns that its database adds."""
    values = dict(zip(part.columns, row, strict=True))
    return values | db.derived(values)


def _to_index(db: Database, rows: list[Row]) -> list[IndexRow]:
    listed, value = db.among(sorted({row[1] for row in rows}))
    titles: Mapping[int, str] = dict(
        db.rows(
            f"select opening, title from document where opening is not null and key in ({listed})",
            (value,),
        )
    )
    return [(row[0], titles.get(row[0], ""), row[-1]) for row in rows]


def _replace(db: Database, part: Part, row: Row, index: TextIndex) -> None:
    match part.table:
        case "document":
            _replace_document(db, _complete(db, part, row), index)
        case "passage":
            key, _, receipt, shared, *rest = row
            passages.replace_passage(db, key, tuple(rest), index)
            db.run(
                "update passage set receipt = ?, shared = ? where key = ?", (receipt, shared, key)
            )
        case _:
            _update(db, part, dict(zip(part.columns, row, strict=True)))


def _replace_document(db: Database, values: dict[str, Any], index: TextIndex) -> None:
    """Titles are indexed with the passages that open their documents, so these may have to change too."""
    opening = db.get("select opening from document where key = ?", (values["key"],))
    openings = [key for key in {opening, values["opening"]} if key is not None]
    before = list(passages.in_index(db, openings))
    _update(db, _BY_TABLE["document"], values)
    after = list(passages.in_index(db, openings))
    if before != after:
        index.remove(before)
        index.add(after)
        db.outdated([key for key, _, _ in after])


def _update(db: Database, part: Part, values: dict[str, Any]) -> None:
    changed = {name: value for name, value in values.items() if name not in part.key}
    db.run(
        f"update {part.table} set {', '.join(f'{name} = ?' for name in changed)} "
        f"where {' and '.join(f'{name} = ?' for name in part.key)}",
        (*changed.values(), *(values[name] for name in part.key)),
    )
