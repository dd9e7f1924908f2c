"""The background job that observes new and changed conversations."""

from __future__ import annotations

from recollect.index.background import Job, Stop
from recollect.store.base import Store

_INTERVAL = 10.0
"""Seconds. Each run observes a whole conversation, so one that grows is not observed every time."""


def observe_job(store: Store) -> Job:
    """The job. The observer is imported when it runs, so that opening a library stays fast."""

    def run(stop: Stop) -> bool:
        from recollect.memory.backlog import catch_up

        catch_up(store, stop=stop)
        return True

    def has_work_left() -> bool:
        from recollect.memory.backlog import has_backlog

        return has_backlog(store)

    return Job("Observing", run, _INTERVAL, has_work_left)
