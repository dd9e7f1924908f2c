"""Make a library smaller: merge the text index, and rewrite the file.

The text index consists of segments that repeat words. As it grows, FTS5 merges only some of them.
When the library has twice as many messages as at the last time (the marker `merged`), all of them
are merged into one, which makes the index an eighth smaller.

That leaves free pages. The marker `holes` stays until the file has been rewritten without them.
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

Stop = Callable[[], bool] | None
"""Tells whether to stop before the next transaction."""

_MERGED = "merged"
_HOLES = "holes"
_MIN_PASSAGES_TO_MERGE = 10_000
# Pages of the index merged in one transaction, which takes about 20 ms.
_PAGES_PER_MERGE = 200
# Rewriting a file blocks other writers, about ten seconds per gigabyte. They wait for thirty.
_MAX_REWRITTEN_BYTES = 2 << 30


def is_complete(db: Connection) -> bool:
    return get_marker(db, _HOLES) is None


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
    """Rewrite the file after the text index was merged."""
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
