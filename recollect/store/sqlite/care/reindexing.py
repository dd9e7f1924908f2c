"""Build the text index again when the library needs another layout.

That is when it has become large, or was encrypted or decrypted, or is of version 0.1, which had the
title first. The new index is built beside the old one, a batch per transaction, and replaces it in
the last one. If the work is interrupted, it is continued.
"""

from __future__ import annotations

import sys

from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sqlite.care import compaction
from recollect.store.sqlite.care.compaction import Stop
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.connections.transactions import Connections
from recollect.store.sqlite.text.index_copy import COPY, advance_copy, replace_index, start_copy
from recollect.store.sqlite.text.index_layout import INDEX, has_layout, needs_positions
from recollect.store.sqlite.text.text_index import insert_rows, prepare_rows

# Passages copied in one transaction, which takes about 50 ms. Others can write in between.
_BATCH = 1_000
# Their texts, compressed.
_MAX_BYTES = 4_000_000


def is_complete(db: Connection, is_encrypted: bool) -> bool:
    return has_layout(db, INDEX, needs_positions(db, is_encrypted))


def copy_batch(db: Connection, is_encrypted: bool) -> bool:
    """Copy some passages into the new index. False if it has replaced the old one."""
    last = start_copy(db, needs_positions(db, is_encrypted))
    end = _end_of_batch(db, last)
    rows = db.rows(
        f"select p.key, {INDEXED_TITLE}, p.content from passage p "
        "join document d on d.key = p.document where p.key between ? and ?",
        (last + 1, end or sys.maxsize),
    )
    insert_rows(db, COPY, prepare_rows(rows))
    if end is not None:
        advance_copy(db, end)
        return True
    replace_index(db)
    compaction.request_merge(db)
    return False


def _end_of_batch(db: Connection, last: int) -> int | None:
    """The last passage of the next batch; None if the batch has all that are left."""
    total = 0
    rows = db.rows(
        "select key, length(body) from passage where key > ? order by key limit ?", (last, _BATCH)
    )
    for key, size in rows:
        total += size
        if total > _MAX_BYTES:
            return int(key)
    if len(rows) < _BATCH:
        return None
    return int(rows[-1][0])


def reindex(connections: Connections, is_encrypted: bool, stop: Stop) -> None:
    """Build the index again if it has another layout."""
    with connections.read() as db:
        if is_complete(db, is_encrypted):
            return
    while stop is None or not stop():
        if not connections.write(lambda db: copy_batch(db, is_encrypted)):
            return
