"""A background thread that runs jobs such as indexing, and ends when they have no work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from recollect.errors import RecollectError
from recollect.models.stopping import Stop
from recollect.priority import after_searches
from recollect.store.base import Store

log = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds between two passes. Work that arrives in between is done in one go."""
RETRY = 2.0
"""Seconds until the next attempt when another process holds the index lock, or indexing is
paused."""
PURGE_PATIENCE = 0.1
"""Seconds that a purge waits for readers. Nobody can write in the meantime."""
MAX_PURGE_PAUSE = 30.0
"""The longest time between two attempts, in seconds. It doubles with every attempt."""
CHECK_SECONDS = 0.5
"""How often a running job checks whether another process has paused it, in seconds."""
_MARKER = "indexing_paused"
EXPIRY_INTERVAL = 20.0
"""Seconds between two checks of what is kept for undo."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is done again and again, such as indexing what is new."""

    name: str
    """For the log, such as "Indexing"."""
    run: Callable[[Stop], bool]
    """Do the work. Returns False if it must run again later: another process holds the index lock
    and may not have seen all the work, or indexing is paused."""
    interval: float = 0.0
    """The shortest time between two runs, in seconds."""
    has_work_left: Callable[[], bool] = lambda: False
    """Whether the thread must stay because of work that is not due yet."""


def index_job(store: Store) -> Job:
    """The job that seals and embeds new messages."""

    def run(stop: Stop) -> bool:
        from recollect.index import refresh
        from recollect.models.embeddings import embedding_setting

        setting = embedding_setting()
        if not refresh.has_work(store, setting):
            refresh.skip_deleted(store, setting)
            return True
        return refresh.refresh(store, setting, stop=stop)

    return Job("Indexing", run)


def purge_job(store: Store) -> Job:
    """The job that removes deleted text from all files, once nobody reads an older snapshot."""
    retries = 0
    next_attempt = 0.0

    def run(stop: Stop) -> bool:
        nonlocal retries, next_attempt
        if time.monotonic() < next_attempt:
            return True
        purge = store.purge(PURGE_PATIENCE)
        if purge.reason:
            next_attempt = time.monotonic() + min(PAUSE * 2**retries, MAX_PURGE_PAUSE)
            retries = min(retries + 1, 10)
        else:
            retries = 0
        return True

    return Job("Purging", run, has_work_left=lambda: bool(store.purge(None).reason))


def expiry_job(store: Store) -> Job:
    """The job that deletes for good what was kept for undo, once its time is over."""
    has_entries = False

    def run(stop: Stop) -> bool:
        nonlocal has_entries
        store.clear_undo_log(expired=True)
        has_entries = bool(store.undo_log())
        return True

    return Job("Emptying the trash", run, EXPIRY_INTERVAL, lambda: has_entries)


class Indexer(Protocol):
    """What a library wakes after every change."""

    def wake(self) -> None:
        """Have the work done that there is now, without waiting for it."""

    def check(self) -> None:
        """Look for work that another process has left. Called by every search."""

    def close(self) -> None: ...

    @property
    def problem(self) -> str:
        """Why indexing failed when it ran last; empty if it did not."""


class BackgroundThread:
    """Runs jobs in order, as long as one of them has work. `wake` starts it again."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._was_woken = False
        self._closing = threading.Event()
        self._problem = ""

    def wake(self) -> None:
        with self._lock:
            self._was_woken = True
            if self._closing.is_set():
                return
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name="recollect-index", daemon=True)
            self._thread.start()

    def check(self) -> None:
        self.wake()

    def close(self) -> None:
        """Stop the jobs and wait for the thread to end."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    @property
    def problem(self) -> str:
        """Why a job failed when it ran last; empty if none did."""
        return self._problem

    def _run(self) -> None:
        schedules = [_Schedule(job) for job in self._jobs]
        stop = after_searches(self._closing.is_set)
        pause = 0.0
        has_work_left = False
        while not self._closing.wait(pause):
            with self._lock:
                was_woken = self._was_woken
                self._was_woken = False
                if not was_woken and not has_work_left:
                    self._thread = None
                    return
            for schedule in schedules:
                # What a job has done may be work for the next one.
                was_woken |= schedule.advance(stop, was_woken)
            has_work_left = any([schedule.has_work_left() for schedule in schedules])
            self._problem = next((each.problem for each in schedules if each.problem), "")
            pause = PAUSE
            if any(schedule.must_retry for schedule in schedules):
                pause = RETRY


class BackgroundPass:
    """Runs jobs once for each call. For those that have a queue instead of a thread."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._schedules = [_Schedule(job) for job in jobs]

    def run(self, stop: Stop) -> float | None:
        """Run the jobs that are due. Returns the seconds until the next of them is; None if they
        have no work left. Raises RecollectError if one failed and nothing else is left."""
        stop = after_searches(stop)
        for schedule in self._schedules:
            if not stop():
                schedule.advance(stop, was_woken=True)
        delays = [schedule.delay() for schedule in self._schedules]
        pending = [delay for delay in delays if delay is not None]
        if pending:
            return min(pending)
        for schedule in self._schedules:
            if schedule.problem:
                raise RecollectError(schedule.problem)
        return None


class _Schedule:
    """When one job runs. A job that fails does not run again until the thread is woken."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._next_run = float("-inf")
        self.problem = ""
        self._is_waiting = False
        self.must_retry = False

    def advance(self, stop: Stop, was_woken: bool) -> bool:
        """Run the job if it is due, and return whether it was."""
        if was_woken:
            self.problem = ""
            self._is_waiting = True
        if self.problem or time.monotonic() < self._next_run:
            return False
        if not self._is_waiting and not self.has_work_left():
            return False
        self._is_waiting = False
        self.must_retry = False
        try:
            self.must_retry = not self._job.run(stop)
        except (RecollectError, OSError) as error:
            self._fail(error)
        if not self.must_retry:
            self._next_run = time.monotonic() + self._job.interval
        return True

    def delay(self) -> float | None:
        """The seconds until the job must run again; None if it has no work left."""
        if self.problem or not (self._is_waiting or self.has_work_left()):
            return None
        if self.must_retry:
            return RETRY
        return max(PAUSE, self._next_run - time.monotonic())

    def has_work_left(self) -> bool:
        if self.problem:
            return False
        if self.must_retry:
            return True
        try:
            return self._job.has_work_left()
        except (RecollectError, OSError) as error:
            self._fail(error)
            return False

    def _fail(self, error: RecollectError | OSError) -> None:
        log.warning("%s in the background stopped: %s", self._job.name, error)
        self.problem = str(error)


# -- pausing: stored in the library, so it holds for every process that has it open ---


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
