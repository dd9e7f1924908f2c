"""The lock that lets one process, and one thread in it, index a library at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recollect.store.base import Store

OnWait = Callable[[], None]
"""Called once when the lock is not free, before waiting for it."""

_POLL = 0.2  # seconds: waiting for a lock on the server would hold up the locks of other users


@contextmanager
def index_lock(store: Store, on_wait: OnWait | None = None) -> Iterator[bool]:
    """Hold the lock for the block. Yields False if it is not free, unless there is an `on_wait`: then
    the lock is waited for."""
    waited = False
    while True:
        with store.indexing_lock() as alone:
            if alone or on_wait is None:
                yield alone
                return
        if not waited:
            on_wait()
        waited = True
        time.sleep(_POLL)
