"""Tasks that take minutes, such as a backup: one of a name at a time for each user.

They are jobs, so every server of the installation knows their state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect.store.shared.jobs import QUEUED, RUNNING, Jobs


@dataclass(frozen=True, slots=True)
class Task:
    """The state of one task."""

    state: str
    step: str
    count: int
    total: int
    result: Any
    error: str
    finished_at: datetime | None

    @property
    def is_running(self) -> bool:
        return self.state in (QUEUED, RUNNING)

    @property
    def percent(self) -> int:
        if not self.total:
            return 0
        return min(100, 100 * self.count // self.total)


class Tasks:
    """The tasks of an installation. Thread-safe."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def start(self, user: str, name: str, host: str = "") -> None:
        """Start a task, unless it is running. Only the `host` may run it, if there is one."""
        self._jobs.add_once(name, user, host=host)

    def get(self, user: str, name: str) -> Task | None:
        """The task that was started last under this name."""
        for job in self._jobs.list_for(name, user, 1):
            return Task(
                job.state,
                job.progress.get("step", ""),
                job.progress.get("count", 0),
                job.progress.get("total", 0),
                job.result,
                job.error,
                job.finished_at,
            )
        return None
