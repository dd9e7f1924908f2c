"""The jobs of the background indexer of a library, and its budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from recollect.home_folder import OBSERVER_BUDGET
from recollect.index.background import Job, expiry_job, index_job, pausable, purge_job
from recollect.models.stopping import Stop
from recollect.settings import home
from recollect.store.base import Store

if TYPE_CHECKING:
    from recollect.memory.observe.model import Budget
    from recollect.store.shared.database import SharedDatabase

_MANY_CONVERSATIONS = 100  # observing fewer takes seconds
_INTERVAL = 10.0
"""Seconds. Each run observes a whole conversation, so one that grows is not observed every time."""
_MAX_CPU_SHARE = 0.1
"""A conversation of thousands of messages takes seconds, and while somebody writes to it, every run
observes it again. So a long run is followed by a pause."""
_SHORT_RUN = 0.5
"""CPU seconds. Runs up to this need no pause."""
_LONGEST_PAUSE = 120
_NEXT_RUN_MARKER = "observer_next_run"


def background_jobs(store: Store, budget: Callable[[], Budget]) -> list[Job]:
    """The jobs, in the order in which they run."""
    # Deleted text is removed from the files even while indexing is paused.
    return [
        pausable(store, early_index_job(store)),
        pausable(store, observe_job(store, budget)),
        pausable(store, index_job(store)),
        expiry_job(store),
        purge_job(store),
    ]


def early_index_job(store: Store) -> Job:
    """The job that gives the messages of an import vectors before they are observed.

    With the built-in model, that takes a sixth of the time, and until then nothing is found by its
    meaning. Other models are slower than the observer. A few messages are indexed together with
    their observations.
    """
    job = index_job(store)

    def run(stop: Stop) -> bool:
        from recollect.models.embeddings import STATIC, embedding_setting

        _, backlog = store.unobserved(1)
        if backlog < _MANY_CONVERSATIONS or embedding_setting() != STATIC:
            return True
        return job.run(stop)

    return replace(job, run=run)


def observe_job(store: Store, budget: Callable[[], Budget] | None = None) -> Job:
    """The job that observes new and changed conversations.

    The observer is imported when it runs, so that opening a library stays fast.
    """

    def run(stop: Stop) -> bool:
        from recollect.memory.backlog import catch_up

        pause = (store.get_marker(_NEXT_RUN_MARKER) or 0) - time.time()
        if 0 < pause <= _LONGEST_PAUSE:  # it is longer if the clock was set back
            return True
        start = time.thread_time()
        catch_up(store, stop=stop, budget=None if budget is None else budget())
        cpu_seconds = time.thread_time() - start
        if cpu_seconds > _SHORT_RUN:
            pause = min(cpu_seconds / _MAX_CPU_SHARE, _LONGEST_PAUSE)
            store.set_marker(_NEXT_RUN_MARKER, int(time.time() + pause))
        return True

    def has_work_left() -> bool:
        from recollect.memory.backlog import has_backlog

        return has_backlog(store)

    return Job("Observing", run, _INTERVAL, has_work_left)


def observation_budget(open_shared: Callable[[], SharedDatabase] | None) -> Budget:
    """What may be sent to a model for observations, in a file or in the shared database."""
    from recollect.memory.observe.model import FileBudget, SharedBudget

    if open_shared is None:
        return FileBudget(home() / OBSERVER_BUDGET)
    return SharedBudget(open_shared)
