"""Bring the copy of a library up to date while people write to the original, and hand over to it.

Rows are compared in blocks: the rows of a table in a range of keys have one hash. Only blocks that
differ are copied. A passage has a digest of its own, so comparing a library reads no texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import groupby
from pathlib import Path

import orjson

from recollect.errors import RecollectError, StoreBusy
from recollect.store.sql.copying.transfer import TABLES, Row, Table, export_batches
from recollect.store.sql.database import Database
from recollect.store.values import Batch, Block, Contents, Fingerprints

_ROWS_PER_QUERY = 5_000
# Larger than any part of a key.
_LAST = (1 << 63) - 1


def fingerprints(db: Database, deadline: float | None = None) -> dict[Block, bytes]:
    """A hash of each block. Raises StoreBusy at the deadline, a time of the monotonic clock."""
    hashes: dict[Block, bytes] = {}
    for table in TABLES.values():
        blocks = groupby(_scan(db, table, deadline), table.block_of)
        for number, rows in blocks:
            data = orjson.dumps(list(rows), default=bytes.hex)
            hashes[table.name, number] = blake2b(data, digest_size=16).digest()
    return hashes


def _scan(db: Database, table: Table, deadline: float | None) -> Iterator[Row]:
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
