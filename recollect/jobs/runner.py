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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
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
        self.progress: Mapping[str, Any] = job.progress

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


@dataclass(slots=True)
class Lane:
    """Handlers that share threads, so that slow jobs of one kind delay no other kind."""

    name: str
    handlers: Sequence[Handler]
    concurrency: int
    running: int = 0
    kinds: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = [handler.kind for handler in self.handlers]


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
        self._renewed: dict[str, tuple[float, Mapping[str, Any]]] = {}
        """When each lease was renewed, and with which progress."""
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
        """Run jobs until none is due, in this thread only. Returns how many there were."""
        self._is_manual = True
        count = 0
        for lane in self._lanes:
            while not self._closing.is_set():
                job = self._jobs.claim(lane.kinds, self._hosts)
                if job is None:
                    break
                run = self._register(lane, job)
                renewer = threading.Thread(target=self._renew_until_end, args=[job], daemon=True)
                renewer.start()
                self._run(lane, run)
                renewer.join()
                count += 1
        return count

    def _renew_until_end(self, job: Job) -> None:
        while job.id in self._runs:
            self._renew_leases()
            self._woken.wait(POLL_SECONDS)

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
        if delay is None:
            return pause
        return min(pause, max(POLL_SECONDS, delay))

    def _fill(self, lane: Lane) -> None:
        while lane.running < lane.concurrency and not self._closing.is_set():
            job = self._jobs.claim(lane.kinds, self._hosts)
            if job is None:
                return
            run = self._register(lane, job)
            try:
                self._pools[lane.name].submit(self._run, lane, run)
            except RuntimeError:  # shutting down
                self._release(lane, job)
                self._jobs.put_back(job)

    def _register(self, lane: Lane, job: Job) -> Run:
        run = Run(job)
        with self._lock:
            if self._closing.is_set():
                run.stop.set()
            self._runs[job.id] = run
            self._renewed[job.id] = (time.monotonic(), job.progress)
            lane.running += 1
        return run

    def _release(self, lane: Lane, job: Job) -> None:
        with self._lock:
            del self._runs[job.id]
            self._renewed.pop(job.id, None)
            lane.running -= 1

    def _renew_leases(self) -> None:
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            renewed_at, progress = self._renewed.get(run.job.id, (0.0, {}))
            is_due = time.monotonic() - renewed_at > self._jobs.lease_seconds / 3
            if not is_due and run.progress is progress:
                continue
            new_progress = run.progress
            if self._jobs.renew(run.job, new_progress):
                self._renewed[run.job.id] = (time.monotonic(), new_progress)
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

    def _run(self, lane: Lane, run: Run) -> None:
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
            self._release(lane, job)
            self._woken.set()

    def _run_handler(self, handler: Handler, run: Run) -> None:
        job = run.job
        result: Any = None
        message = ""
        try:
            if run.stop.is_set():
                raise PutBack
            if job.attempts > handler.max_attempts:
                log.error("Gave up %s job %s after %d attempts", job.kind, job.id, job.attempts - 1)
                result = handler.give_up(run)
            else:
                result = handler.run(run)
        except ImportStopped:
            self._put_back(job, 0.0)
            return
        except PutBack as request:
            self._put_back(job, request.delay_seconds)
            return
        except (RecollectError, OSError) as error:
            if run.stop.is_set():  # perhaps that is why it failed
                self._put_back(job, 0.0)
                return
            message = handler.describe_error(job, error) or type(error).__name__
        except Exception:  # a bug must not stop the jobs of others
            log.exception("A %s job failed", job.kind)
            message = "This failed unexpectedly. The server log has the details."
        self._finish(handler, run, result, message)

    def _put_back(self, job: Job, delay_seconds: float) -> None:
        if self._jobs.put_back(job, delay_seconds):
            log.info("Put %s job %s back into the queue", job.kind, job.id)

    def _finish(self, handler: Handler, run: Run, result: Any, message: str) -> None:
        job = run.job
        if message or handler.is_remembered:
            is_recorded = self._jobs.finish(job, result, message, run.progress)
        else:
            is_recorded = self._jobs.remove(job)
        if is_recorded:
            log.info("%s job %s %s", job.kind.capitalize(), job.id, "failed" if message else "done")
            with suppress(RecollectError, OSError):  # `sweep` tries again
                handler.clean_up(job)
