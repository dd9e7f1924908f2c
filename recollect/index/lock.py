"""The lock that lets only one process, and one thread in it, index a library at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recollect.store.base import Store

OnWait = Callable[[], None]
"""Called once if the lock is not free, before waiting for it."""

# Seconds between two attempts. Waiting on the database server would block the locks of other users.
_POLL_INTERVAL = 0.2


@contextmanager
def index_lock(store: Store, on_wait: OnWait | None = None) -> Iterator[bool]:
    """Hold the lock for the block, and yield whether it is held.

    If the lock is not free, wait for it if `on_wait` is given; otherwise yield False.
    """
    has_waited = False
    while True:
        with store.indexing_lock() as is_held:
            if is_held or on_wait is None:
                yield is_held
                return
        if not has_waited:
            on_wait()
        has_waited = True
        time.sleep(_POLL_INTERVAL)
