"""Runs the jobs of a queue in threads of this process.

One thread claims jobs, renews their leases and stores their progress; others run them. A shutdown
stops the running jobs and puts them back into the queue. If another process has claimed a job
because this one was too slow to renew its lease, the job is stopped here and nothing is recorded.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from recollect.errors import ImportStopped, RecollectError
from recollect.library import Library
from recollect.store.shared.changes import ChangeSignals
from recollect.store.shared.jobs import TABLES, Job, Jobs

log = logging.getLogger(__name__)

HOST = socket.gethostname()
"""The name of this machine, for jobs that only it can run."""
POLL_SECONDS = 1.0
"""How often to look for jobs that other processes have added, and to store progress."""
SIGNALLED_POLL_SECONDS = 5.0
"""How often to look for jobs while other processes signal those that they add."""
CLEAN_UP_SECONDS = 60.0
_RETRY_SECONDS = 5.0
_MAX_ATTEMPTS = 3

Borrow = Callable[[str], AbstractContextManager[Library]]
"""Opens the library of a user for a block."""


class PutBack(Exception):
    """Raised by a job that must run again later."""

    def __init__(self, delay_seconds: float = 0.0) -> None:
        super().__init__(delay_seconds)
        self.delay_seconds = delay_seconds


class Run:
    """A job that runs in this process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.stop = threading.Event()
        """Set when the job must stop: on shutdown, or when its lease was lost."""
        self.progress = self.stored_progress = job.progress
        self.renewed_at = time.monotonic()

    def report(self, step: str, count: int, total: int) -> None:
        """Set the progress. Raises PutBack if the job must stop."""
        if self.stop.is_set():
            raise PutBack
        self.progress = {"step": step, "count": count, "total": total}


class Handler(ABC):
    """How jobs of one kind are run."""

    kind: str
    max_attempts = _MAX_ATTEMPTS
    """How often a job may end with the process that runs it before it is given up."""
    is_remembered = True
    """Whether the state of finished jobs can be asked for."""

    @abstractmethod
    def run(self, run: Run) -> Any:
        """Do the work, and return the result as a JSON value.

        It may run more than once, so it must not apply anything twice. Raises PutBack.
        """

    def give_up(self, run: Run) -> Any:
        """Called instead of `run` when a job has ended with its process too often."""
        raise RecollectError(
            f"This was given up: the server stopped unexpectedly during each of "
            f"{run.job.attempts - 1} attempts."
        )

    def describe_error(self, job: Job, error: Exception) -> str:
        return str(error)

    def clean_up(self, job: Job) -> None:  # noqa: B027 - most have nothing to clean up
        """Called after a job has ended for good."""

    def sweep(self) -> None:  # noqa: B027
        """Called about once a minute, by every process that runs jobs of this kind."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Handlers that share threads, so that slow jobs of one kind delay no other kind."""

    name: str
    handlers: Sequence[Handler]
    concurrency: int

    @property
    def kinds(self) -> list[str]:
        return [handler.kind for handler in self.handlers]


class Runner:
    """Runs jobs until it is closed. Starts no thread before `start`, or before a job is added."""

    def __init__(
        self,
        jobs: Jobs,
        lanes: Sequence[Lane],
        hosts: Sequence[str] = ("", HOST),
        idle_seconds: float = POLL_SECONDS,
        signals: ChangeSignals | None = None,
    ) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._hosts = hosts
        self._idle_seconds = idle_seconds
        """How often to look for jobs of other processes while none runs here."""
        self._signals = signals or ChangeSignals()
        self._kinds = [kind for lane in lanes for kind in lane.kinds]
        self._handlers = {handler.kind: handler for lane in lanes for handler in lane.handlers}
        self._pools = {
            lane.name: ThreadPoolExecutor(
                lane.concurrency, thread_name_prefix=f"recollect-{lane.name}"
            )
            for lane in lanes
        }
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._next_sweep = 0.0
        self._is_manual = False
        """Whether jobs run only in the thread that calls `run_due`."""
        jobs.listen(self.wake)

    def start(self) -> None:
        """Begin to look for jobs."""
        with self._lock:
            if self._closing.is_set() or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="recollect-jobs", daemon=True)
            self._thread.start()
        self._signals.subscribe_to_tables(TABLES, self._woken.set)

    def wake(self) -> None:
        """Look for jobs now."""
        if not self._is_manual:
            self.start()
        self._woken.set()

    def close(self) -> None:
        """Stop the running jobs, and put them back into the queue."""
        with self._lock:
            self._closing.set()
            for run in self._runs.values():
                run.stop.set()
        self._woken.set()
        for pool in self._pools.values():
            pool.shutdown(wait=True)
        if self._thread is not None:
            self._thread.join()

    def run_due(self) -> int:
        """Run jobs until none is due, one after the other. Returns how many there were."""
        self._is_manual = True
        count = 0
        for lane in self._lanes:
            while (run := self._claim(lane)) is not None:
                thread = threading.Thread(target=self._run, args=[run], daemon=True)
                thread.start()
                while thread.is_alive():
                    self._renew_leases()
                    thread.join(POLL_SECONDS)
                count += 1
        return count

    # -- claiming ---

    def _work(self) -> None:
        pause = 0.0
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            if self._closing.is_set():
                return
            try:
                self._renew_leases()
                if self._jobs.seconds_until_due(self._kinds, self._hosts) == 0:
                    for lane in self._lanes:
                        self._fill(lane)
                self._sweep()
                pause = self._pause()
            except RecollectError as error:
                log.warning("Jobs wait for the database: %s", error)
                pause = _RETRY_SECONDS
            except Exception:  # a bug must not end the queue
                log.exception("Jobs could not be claimed")
                pause = _RETRY_SECONDS

    def _pause(self) -> float:
        """How long to wait for jobs, unless something wakes the thread."""
        pause = self._idle_seconds
        if self._signals.are_live:
            pause = SIGNALLED_POLL_SECONDS
        if self._runs or pause <= POLL_SECONDS:
            return POLL_SECONDS
        delay = self._jobs.seconds_until_due(self._kinds, self._hosts)
        return pause if delay is None else min(pause, max(POLL_SECONDS, delay))

    def _fill(self, lane: Lane) -> None:
        def has_room() -> bool:
            with self._lock:
                running = sum(run.job.kind in lane.kinds for run in self._runs.values())
            return running < lane.concurrency

        while has_room() and (run := self._claim(lane)) is not None:
            try:
                self._pools[lane.name].submit(self._run, run)
            except RuntimeError:  # shutting down
                del self._runs[run.job.id]
                self._jobs.put_back(run.job)

    def _claim(self, lane: Lane) -> Run | None:
        job = None if self._closing.is_set() else self._jobs.claim(lane.kinds, self._hosts)
        if job is None:
            return None
        run = Run(job)
        with self._lock:
            if self._closing.is_set():
                run.stop.set()
            self._runs[job.id] = run
        return run

    def _renew_leases(self) -> None:
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            is_due = time.monotonic() - run.renewed_at > self._jobs.lease_seconds / 3
            progress = run.progress
            if not is_due and progress is run.stored_progress:
                continue
            if self._jobs.renew(run.job, progress):
                run.renewed_at, run.stored_progress = time.monotonic(), progress
            elif run.job.id in self._runs and not run.stop.is_set():
                log.warning("Another process has claimed %s job %s", run.job.kind, run.job.id)
                run.stop.set()

    def _sweep(self) -> None:
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + CLEAN_UP_SECONDS
        self._jobs.clean_up()
        for handler in self._handlers.values():
            handler.sweep()

    # -- running ---

    def _run(self, run: Run) -> None:
        job = run.job
        log.info("Running %s job %s, attempt %d", job.kind, job.id, job.attempts)
        try:
            self._run_handler(self._handlers[job.kind], run)
        except RecollectError as error:
            # The lease expires, and then this or another process runs the job again.
            log.warning("The end of %s job %s was not recorded: %s", job.kind, job.id, error)
        except Exception:  # a bug must not end the thread that runs jobs
            log.exception("A job failed")
        finally:
            with self._lock:
                del self._runs[job.id]
            self._woken.set()

    def _run_handler(self, handler: Handler, run: Run) -> None:
        job = run.job
        result: Any = None
        message = ""
        delay: float | None = None  # until the job is run again
        try:
            if run.stop.is_set():
                delay = 0.0
            elif job.attempts > handler.max_attempts:
                log.error("Gave up %s job %s after %d attempts", job.kind, job.id, job.attempts - 1)
                result = handler.give_up(run)
            else:
                result = handler.run(run)
        except ImportStopped:
            delay = 0.0
        except PutBack as request:
            delay = request.delay_seconds
        except (RecollectError, OSError) as error:
            if run.stop.is_set():  # perhaps that is why it failed
                delay = 0.0
            message = handler.describe_error(job, error) or type(error).__name__
        except Exception:  # a bug must not stop the jobs of others
            log.exception("A %s job failed", job.kind)
            message = "This failed unexpectedly. The server log has the details."
        if delay is not None:
            if self._jobs.put_back(job, delay):
                log.info("Put %s job %s back into the queue", job.kind, job.id)
            return
        if message or handler.is_remembered:
            is_recorded = self._jobs.finish(job, result, message, run.progress)
        else:
            is_recorded = self._jobs.remove(job)
        if is_recorded:
            log.info("%s job %s %s", job.kind.capitalize(), job.id, "failed" if message else "done")
            with suppress(RecollectError, OSError):  # `sweep` tries again
                handler.clean_up(job)
