"""The jobs of the background indexer of a library, and its budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from recollect.home_folder import OBSERVER_BUDGET
from recollect.index.background import Job, expiry_job, index_job, purge_job
from recollect.index.pausing import pausable
from recollect.memory.observe_job import observe_job
from recollect.settings import home
from recollect.store.base import Store

if TYPE_CHECKING:
    from recollect.memory.observe.model import Budget
    from recollect.store.shared.database import SharedDatabase


def background_jobs(store: Store, budget: Callable[[], Budget]) -> list[Job]:
    """The jobs, in the order in which they run."""
    # Deleted text is removed from the files even while indexing is paused.
    return [
        pausable(store, index_job(store)),
        # Observing takes longest, so messages get vectors before it, and observations after it.
        pausable(store, observe_job(store, budget)),
        pausable(store, index_job(store)),
        expiry_job(store),
        purge_job(store),
    ]


def observation_budget(open_shared: Callable[[], SharedDatabase] | None) -> Budget:
    """What may be sent to a model for observations, in a file or in the shared database."""
    from recollect.memory.observe.model import FileBudget, SharedBudget

    if open_shared is None:
        return FileBudget(home() / OBSERVER_BUDGET)
    return SharedBudget(open_shared)
