"""Tasks of the server that take minutes, such as a backup: one of a name at a time for each user.

The state of a task is in memory. It can be asked for until the server ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from recollect.errors import RecollectError, StoreBusy

log = logging.getLogger(__name__)

RUNNING, DONE, FAILED = "running", "done", "failed"
_WORKERS = 2

Report = Callable[[str, int, int], None]
"""Called with the step, how much of it is finished, and how much there is."""


@dataclass(slots=True)
class Task:
    """The state of one task."""

    state: str = RUNNING
    step: str = ""
    count: int = 0
    total: int = 0
    result: Any = None
    error: str = ""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None

    @property
    def is_running(self) -> bool:
        return self.state == RUNNING

    @property
    def percent(self) -> int:
        if not self.total:
            return 0
        return min(100, 100 * self.count // self.total)


class Tasks:
    """The tasks of one server. Thread-safe."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], Task] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="recollect-task")

    def start(self, user: str, name: str, work: Callable[[Report], Any]) -> Task:
        """Start a task, unless it is running. `work` gets a function that reports its progress."""
        with self._lock:
            task = self._tasks.get((user, name))
            if task is not None and task.is_running:
                return task
            task = Task()
            self._tasks[user, name] = task
            self._pool.submit(self._run, task, work)
        return task

    def get(self, user: str, name: str) -> Task | None:
        """The task that was started last under this name."""
        return self._tasks.get((user, name))

    def drain(self) -> None:
        """Stop the running tasks at their next report."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, task: Task, work: Callable[[Report], Any]) -> None:
        def report(step: str, count: int, total: int) -> None:
            if self._stop.is_set():
                raise StoreBusy("The server is shutting down.")
            task.step, task.count, task.total = step, count, total

        state = FAILED
        try:
            task.result = work(report)
            state = DONE
        except (RecollectError, OSError) as error:
            task.error = str(error)
        except Exception:  # a bug must not leave the task running for ever
            log.exception("A task failed")
            task.error = "This failed unexpectedly. The server log has the details."
        task.finished_at = datetime.now(UTC)
        task.state = state
