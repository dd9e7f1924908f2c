"""Pause and resume the background indexing of a library.

The fact is stored in the library, so it holds for every process that has the library open, and
until somebody resumes indexing. Only what runs in the background pauses: `recollect index` works.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from recollect.index.background import Job
from recollect.models.stopping import Stop
from recollect.store.base import Store

CHECK_SECONDS = 0.5
"""How often a running job checks whether another process has paused it, in seconds."""
_MARKER = "indexing_paused"


def pause(store: Store) -> None:
    if store.get_marker(_MARKER) is None:
        store.set_marker(_MARKER, int(time.time()))


def resume(store: Store) -> None:
    if store.get_marker(_MARKER) is not None:
        store.set_marker(_MARKER, None)


def paused_since(store: Store) -> datetime | None:
    """When indexing was paused; None if it is not."""
    seconds = store.get_marker(_MARKER)
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def pausable(store: Store, job: Job, clock: Callable[[], float] = time.monotonic) -> Job:
    """The job, except that it stops when indexing is paused and runs again when it is resumed."""

    def run(stop: Stop) -> bool:
        is_paused = False
        next_check = 0.0

        def should_stop() -> bool:
            nonlocal is_paused, next_check
            if not is_paused and clock() >= next_check:
                is_paused = paused_since(store) is not None
                next_check = clock() + CHECK_SECONDS
            return is_paused or stop()

        if should_stop():
            return not is_paused
        is_finished = job.run(should_stop)
        return is_finished and not is_paused

    return replace(job, run=run)
