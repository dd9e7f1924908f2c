"""Make a library smaller: compress old messages, merge the text index, rewrite the file.

Messages of older versions are compressed. The marker `uncompressed` is the key up to which the
texts of passages may not be compressed, and ids not packed. Each batch starts there and moves it
down in the same transaction, so the work can be interrupted at any time.

The text index consists of segments that repeat words. As it grows, FTS5 merges only some of them.
When the library has twice as many messages as at the last time (the marker `merged`), all of them
are merged into one, which makes the index an eighth smaller.

Both leave holes and free pages. The marker `holes` stays until the file has been rewritten without
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw

from recollect.store.sql.markers import get_marker, set_marker
from recollect.store.sqlite.connections.connection import Connection, connect
from recollect.store.sqlite.connections.transactions import Connections
from recollect.store.sqlite.files.encryption import is_encrypted
from recollect.store.sqlite.passages.compression import UNCOMPRESSED, pack_id

Stop = Callable[[], bool] | None
"""Tells whether to stop before the next transaction."""

# Passages compressed in one transaction. Others can write in between.
_BATCH = 1_000
_MERGED = "merged"
_HOLES = "holes"
_MIN_PASSAGES_TO_MERGE = 10_000
# Pages of the index merged in one transaction, which takes about 20 ms.
_PAGES_PER_MERGE = 200
# Rewriting a file blocks other writers, about ten seconds per gigabyte. They wait for thirty. A
# library of 1,000,000 messages that version 0.1 wrote has 1.7 GB.
_MAX_REWRITTEN_BYTES = 2 << 30


def is_complete(db: Connection) -> bool:
    return get_marker(db, UNCOMPRESSED) is None and get_marker(db, _HOLES) is None


def compress_batch(db: Connection) -> bool:
    """Compress some passages. False if there is nothing left to compress."""
    last = get_marker(db, UNCOMPRESSED)
    if last is None:
        return False
    rows = db.rows(
        "select key, body, details, packed_id, parent_id from passage where key <= ? and "
        "(typeof(body) = 'text' or typeof(packed_id) = 'text' and length(packed_id) = 36 "
        "or typeof(parent_id) = 'text' and length(parent_id) = 36) "
        "order by key desc limit ?",
        (last, _BATCH),
    )
    changes = []
    for key, *columns in rows:
        body, details, id_, parent = columns
        packed_id, parent_id = pack_id(id_), pack_id(parent)
        if isinstance(body, str):
            body, details = db.codec.compress(body, details, parent_id)
        packed_columns = [body, details, packed_id, parent_id]
        if packed_columns != columns:
            changes.append((*packed_columns, key))
    db.run_many(
        "update passage set body = ?, details = ?, packed_id = ?, parent_id = ? where key = ?",
        changes,
    )
    if len(rows) < _BATCH:
        set_marker(db, UNCOMPRESSED, None)
        set_marker(db, _HOLES, 1)
    else:
        set_marker(db, UNCOMPRESSED, rows[-1][0] - 1)
    return True


def compress_older(connections: Connections, stop: Stop) -> None:
    """Compress what an older version stored, a batch per transaction."""
    with connections.read() as db:
        if is_complete(db):
            return
    while stop is None or not stop():
        if not connections.write(compress_batch):
            return


def needs_merge(db: Connection) -> bool:
    """Whether the library has twice as many passages as when its text index was last merged."""
    last_key: int = db.get("select passage from last_key")
    return last_key >= max(_MIN_PASSAGES_TO_MERGE, 2 * (get_marker(db, _MERGED) or 0))


def request_merge(db: Connection) -> None:
    """Have the text index merged, and the file rewritten, although the library has not grown."""
    set_marker(db, _MERGED, None)
    set_marker(db, _HOLES, 1)


def merge_segments(db: Connection, *, is_first: bool) -> bool:
    """Merge some of the text index. False if it is merged completely.

    The first call selects the segments. If the work is interrupted, it can start again.
    """
    pages = _PAGES_PER_MERGE
    if is_first:
        pages = -pages
    before = db.total_changes()
    db.run("insert into passage_text (passage_text, rank) values ('merge', ?)", (pages,))
    if db.total_changes() - before >= 2:  # with nothing to merge, FTS5 makes one change
        return True
    set_marker(db, _MERGED, db.get("select passage from last_key"))
    set_marker(db, _HOLES, 1)
    return False


def merge_text_index(connections: Connections, stop: Stop) -> None:
    """Merge the text index if the library has grown a lot, a part per transaction."""
    with connections.read() as db:
        if not needs_merge(db):
            return
    is_first = True
    while stop is None or not stop():
        if not connections.write(partial(merge_segments, is_first=is_first)):
            return
        is_first = False


def fill_holes(connections: Connections, stop: Stop) -> None:
    """Rewrite the file after old messages were compressed or the text index was merged."""
    with connections.read() as db:
        if is_complete(db):
            return
    if stop is not None and stop():
        return
    _rewrite_file(connections.path)
    connections.truncate_log()
    connections.write(lambda db: set_marker(db, _HOLES, None))


def _rewrite_file(path: Path) -> None:
    """Rewrite the database without holes, unless it is too large or the disk is too full."""
    if path.stat().st_size > _MAX_REWRITTEN_BYTES:
        return
    db = connect(path)
    try:
        if not is_encrypted(path):  # a temporary file would contain plain text
            db.execute("pragma temp_store = file")
        db.execute("vacuum")
    except (apsw.FullError, apsw.BusyError, apsw.IOError):
        pass  # the file is as it was
    finally:
        db.close()
