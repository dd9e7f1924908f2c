"""The jobs of the background indexer of a library."""

from __future__ import annotations

import time

from recollect.index.background import Job, expiry_job, index_job, pausable, purge_job
from recollect.models.stopping import Stop
from recollect.store.base import Store

_INTERVAL = 10.0
"""Seconds. Each run observes a whole conversation, so one that grows is not observed every time."""
_MAX_CPU_SHARE = 0.1
"""A conversation of thousands of messages takes seconds, and while somebody writes to it, every run
observes it again. So a long run is followed by a pause."""
_SHORT_RUN = 0.5
"""CPU seconds. Runs up to this need no pause."""
_LONGEST_PAUSE = 120
_NEXT_RUN_MARKER = "observer_next_run"


def background_jobs(store: Store) -> list[Job]:
    """The jobs, in the order in which they run."""
    # New messages get vectors first, which is quicker than observing them, and then what was
    # observed gets its own. Deleted text is removed from the files even while indexing is paused.
    return [
        pausable(store, index_job(store)),
        pausable(store, observe_job(store)),
        pausable(store, index_job(store)),
        expiry_job(store),
        purge_job(store),
    ]


def observe_job(store: Store) -> Job:
    """The job that observes new and changed conversations.

    The observer is imported when it runs, so that opening a library stays fast.
    """

    def run(stop: Stop) -> bool:
        from recollect.memory.backlog import catch_up

        pause = (store.get_marker(_NEXT_RUN_MARKER) or 0) - time.time()
        if 0 < pause <= _LONGEST_PAUSE:  # it is longer if the clock was set back
            return True
        start = time.thread_time()
        catch_up(store, stop=stop)
        cpu_seconds = time.thread_time() - start
        if cpu_seconds > _SHORT_RUN:
            pause = min(cpu_seconds / _MAX_CPU_SHARE, _LONGEST_PAUSE)
            store.set_marker(_NEXT_RUN_MARKER, int(time.time() + pause))
        return True

    def has_work_left() -> bool:
        from recollect.memory.backlog import has_backlog

        return has_backlog(store)

    return Job("Observing", run, _INTERVAL, has_work_left)
