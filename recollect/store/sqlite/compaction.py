"""Compress the messages of a library that was written by an older version.

The marker `uncompressed` is the key up to which passages may not be compressed. Each batch starts
there and moves it down in the same transaction, so the work can be interrupted at any time.
"""

from __future__ import annotations

from recollect.errors import DamagedLibrary
from recollect.store.sql.transfer import get_marker, set_marker
from recollect.store.sqlite.connection import Connection

# Passages compressed in one transaction. Others can write in between.
_BATCH = 1_000
_MARKER = "uncompressed"


def is_complete(db: Connection) -> bool:
    return get_marker(db, _MARKER) is None


def compress_batch(db: Connection) -> bool:
    """Compress some passages. False if there is nothing left to compress."""
    last = get_marker(db, _MARKER)
    if last is None:
        return False
    rows = db.rows(
        "select key, body, details from passage "
        "where key <= ? and typeof(body) = 'text' order by key desc limit ?",
        (last, _BATCH),
    )
    changes = []
    for key, content, metadata in rows:
        body, details = db.codec.compress(content, metadata)
        if isinstance(body, bytes):
            changes.append((body, details, key))
    db.run_many("update passage set body = ?, details = ? where key = ?", changes)
    if len(rows) < _BATCH:
        set_marker(db, _MARKER, None)
    else:
        set_marker(db, _MARKER, rows[-1][0] - 1)
    return True


def unreadable_passages(db: Connection) -> list[str]:
    """A description of each message whose text cannot be decompressed."""
    findings = []
    rows = db.execute("select key, id, body from passage where typeof(body) = 'blob'")
    for key, id_, body in rows:
        try:
            db.codec.content(body)
        except DamagedLibrary:
            findings.append(f"the text of message {id_!r} (row {key}) cannot be decompressed")
    return findings
