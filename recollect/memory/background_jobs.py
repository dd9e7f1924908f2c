"""The jobs of the background indexer of a library, and its budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from recollect.home_folder import OBSERVER_BUDGET
from recollect.index.background import Job, expiry_job, index_job, purge_job
from recollect.index.pausing import pausable
from recollect.memory.observe_job import observe_job
from recollect.models.stopping import Stop
from recollect.settings import home
from recollect.store.base import Store

if TYPE_CHECKING:
    from recollect.memory.observe.model import Budget
    from recollect.store.shared.database import SharedDatabase

_MANY_CONVERSATIONS = 100  # observing fewer takes seconds


def background_jobs(store: Store, budget: Callable[[], Budget]) -> list[Job]:
    """The jobs, in the order in which they run."""
    # Deleted text is removed from the files even while indexing is paused.
    return [
        pausable(store, _early_index_job(store)),
        pausable(store, observe_job(store, budget)),
        pausable(store, index_job(store)),
        expiry_job(store),
        purge_job(store),
    ]


def _early_index_job(store: Store) -> Job:
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


def observation_budget(open_shared: Callable[[], SharedDatabase] | None) -> Budget:
    """What may be sent to a model for observations, in a file or in the shared database."""
    from recollect.memory.observe.model import FileBudget, SharedBudget

    if open_shared is None:
        return FileBudget(home() / OBSERVER_BUDGET)
    return SharedBudget(open_shared)
