"""The background job that observes new and changed conversations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from recollect.index.background import Job
from recollect.models.stopping import Stop
from recollect.store.base import Store

if TYPE_CHECKING:
    from recollect.memory.observe.model import Budget

_INTERVAL = 10.0
"""Seconds. Each run observes a whole conversation, so one that grows is not observed every time."""
_MAX_CPU_SHARE = 0.1
"""A conversation of thousands of messages takes seconds, and while somebody writes to it, every run
observes it again. So a long run is followed by a pause."""
_SHORT_RUN = 0.5
"""CPU seconds. Runs up to this need no pause."""
_LONGEST_PAUSE = 120
_NEXT_RUN_MARKER = "observer_next_run"


def observe_job(store: Store, budget: Callable[[], Budget] | None = None) -> Job:
    """The job. The observer is imported when it runs, so that opening a library stays fast."""

    def run(stop: Stop) -> bool:
        from recollect.memory.backlog import catch_up

        if _is_pausing(store):
            return True
        start = time.thread_time()
        catch_up(store, stop=stop, budget=None if budget is None else budget())
        _pause(store, time.thread_time() - start)
        return True

    def has_work_left() -> bool:
        from recollect.memory.backlog import has_backlog

        return has_backlog(store)

    return Job("Observing", run, _INTERVAL, has_work_left)


def _is_pausing(store: Store) -> bool:
    """Whether this or another process has observed for so long that it is not due again."""
    pause = (store.get_marker(_NEXT_RUN_MARKER) or 0) - time.time()
    # The clock may have been set back.
    return 0 < pause <= _LONGEST_PAUSE


def _pause(store: Store, cpu_seconds: float) -> None:
    if cpu_seconds > _SHORT_RUN:
        pause = min(cpu_seconds / _MAX_CPU_SHARE, _LONGEST_PAUSE)
        store.set_marker(_NEXT_RUN_MARKER, int(time.time() + pause))
