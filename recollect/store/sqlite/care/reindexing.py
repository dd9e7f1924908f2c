"""Build the text index again when the library needs another layout.

That is when it has become large, or was encrypted or decrypted, or is of version 0.1, which had the
title first. The new index is built beside the old one, a batch per transaction, and replaces it in
the last one. If the work is interrupted, it is continued.
"""

from __future__ import annotations

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


def is_complete(db: Connection, is_encrypted: bool) -> bool:
    return has_layout(db, INDEX, needs_positions(db, is_encrypted))


def copy_batch(db: Connection, is_encrypted: bool) -> bool:
    """Copy some passages into the new index. False if it has replaced the old one."""
    last = start_copy(db, needs_positions(db, is_encrypted))
    rows = db.rows(
        f"select p.key, {INDEXED_TITLE}, p.body from passage p "
        "join document d on d.key = p.document where p.key > ? order by p.key limit ?",
        (last, _BATCH),
    )
    contents = db.codec.contents([body for _, _, body in rows])
    texts = [(row[0], row[1], content) for row, content in zip(rows, contents, strict=True)]
    insert_rows(db, COPY, prepare_rows(texts))
    if len(rows) == _BATCH:
        advance_copy(db, rows[-1][0])
        return True
    replace_index(db)
    compaction.request_merge(db)
    return False


def reindex(connections: Connections, is_encrypted: bool, stop: Stop) -> None:
    """Build the index again if it has another layout."""
    with connections.read() as db:
        if is_complete(db, is_encrypted):
            return
    while stop is None or not stop():
        if not connections.write(lambda db: copy_batch(db, is_encrypted)):
            return
