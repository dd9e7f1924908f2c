"""Remove deleted text from the files of a library.

SQLite overwrites deleted rows with zeros, but copies of them may be in unused space
(`free_space.py`), the database file changes only at a checkpoint, and the write-ahead log has
the earlier pages until it is truncated. All of this fails while another program reads an older
snapshot. Index files are wiped and removed, which fails while another process writes
them. So a purge never waits long: if it fails, the library stays marked, and the background thread
of any process that has the library open tries again.

The marker is set in the transaction that deletes the text. It is a number that grows with every
deletion, so that a purge does not remove the marker of a later one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from recollect.errors import RecollectError
from recollect.store.sql.database import get_marker, set_marker
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.encryption import is_encrypted
from recollect.store.sqlite.transactions import Connections
from recollect.store.values import Purge

_MARKER = "purge"
# Files up to this size are cleared at once, which takes half a second per gigabyte. An encrypted
# file is rewritten, which takes fifty times as long.
_MAX_BYTES = 256 << 20
_MAX_ENCRYPTED_BYTES = 8 << 20
_INDEX_IN_USE = (
    "the index files are being written, and unfinished ones may still contain deleted text"
)
_LOG_IN_USE = (
    "another program has {name} open for reading, so {name}-wal still contains deleted text"
)
_FILE_IS_LARGE = "the free space of a large file is cleared in the background"
_NOT_TRIED = "it has not been tried since the library was opened"


def request_purge(db: Connection) -> None:
    """Mark the library in a transaction that deletes text."""
    last = get_marker(db, _MARKER) or 0
    set_marker(db, _MARKER, max(last + 1, time.time_ns() // 1_000))


class Purging:
    def __init__(self, connections: Connections, purge_index: Callable[[], bool]) -> None:
        """`purge_index` removes deleted text from index files. False if they are in use."""
        self._connections = connections
        self._purge_index = purge_index
        self._lock = threading.Lock()
        self._reason = _NOT_TRIED
        self._cleared_mark = 0
        """What was deleted before this mark is no longer in free space."""

    def attempt(self, patience: float) -> Purge:
        """Purge the library if it is marked. Waits for readers for at most `patience` seconds.

        Without patience, a large file has to wait.
        """
        with self._lock:
            mark = self._mark()
            if mark is None:
                return Purge()
            try:
                self._reason = self._obstacle(mark, patience)
                if not self._reason:
                    self._connections.write(lambda db: remove_marker(db, mark))
            except (RecollectError, OSError) as error:
                # The deletion itself is committed, so it must not look as if it had failed.
                self._reason = str(error)
            if self._reason:
                return Purge(self._reason)
            return self.status()

    def status(self) -> Purge:
        if self._mark() is None:
            return Purge()
        return Purge(self._reason or _NOT_TRIED)

    def _mark(self) -> int | None:
        with self._connections.read() as db:
            return get_marker(db, _MARKER)

    def _obstacle(self, mark: int, patience: float) -> str:
        """Remove what can be removed, and return what prevents the rest."""
        path = self._connections.path
        if not self._purge_index():
            return _INDEX_IN_USE
        # The mark is in memory only: if the process is killed before the log is truncated, the next
        # one copies the log into the file again.
        if self._cleared_mark != mark:
            limit = _MAX_ENCRYPTED_BYTES if is_encrypted(path) else _MAX_BYTES
            if not patience and path.stat().st_size > limit:
                return _FILE_IS_LARGE
            if not self._connections.clear_free_space(touch_marker, patience):
                return _LOG_IN_USE.format(name=path.name)
            self._cleared_mark = mark
        if not self._connections.truncate_log(patience):
            return _LOG_IN_USE.format(name=path.name)
        return ""


def touch_marker(db: Connection) -> None:
    set_marker(db, _MARKER, get_marker(db, _MARKER))


def remove_marker(db: Connection, mark: int) -> None:
    if get_marker(db, _MARKER) == mark:
        set_marker(db, _MARKER, None)
