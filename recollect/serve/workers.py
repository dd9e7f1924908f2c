"""Several server processes on one port: `recollect serve --workers N`.

The parent binds the port and gives the socket to its workers, which accept connections from it. It
restarts a worker that dies, and passes signals on. If a worker cannot start, the server stops
with its error. Workers end when their parent does.

uvicorn has a supervisor as well. It needs an application that can be pickled, and if no worker can
start, it tries for ever.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from recollect.errors import RecollectError
from recollect.serve.http import logs
from recollect.settings import LIMITS
from recollect.stop_signal import StopSignal

Target = Callable[[int, socket.socket, Callable[[], None]], None]
"""Serves in a worker: its number, the socket, and what to call once it accepts requests."""

_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_STEADY_SECONDS = 60.0
"""A worker that has run this long no longer counts as one that keeps failing."""


class _Worker:
    """A process, and how often it had to be started."""

    process: BaseProcess
    messages: Connection | None
    """Where it says that it is ready; None once it has."""
    started_at: float

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_ready = False
        self.pause = _SHORTEST_PAUSE

    @property
    def handles(self) -> list[Any]:
        """What to wait for: the end of the process, and its message that it is ready."""
        handles: list[Any] = [self.process.sentinel]
        if self.messages is not None:
            handles.append(self.messages)
        return handles


class Supervisor:
    """Runs the workers until a signal arrives."""

    def __init__(
        self, target: Target, listener: socket.socket, count: int, on_started: Callable[[], None]
    ) -> None:
        self._target = target
        self._listener = listener
        self._on_started = on_started
        self._count = count
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("spawn")
        self._is_announced = False

    def run(self) -> None:
        """Raises RecollectError if a worker cannot start."""
        # The first signal shuts the workers down, the second one ends them.
        self._stopping = StopSignal(self._terminate)
        try:
            for number in range(self._count):
                worker = _Worker(number)
                self._start(worker)
                self._workers.append(worker)
            while not self._stopping.is_set():
                self._supervise()
        finally:
            self._stop()
            self._stopping.restore()

    def _start(self, worker: _Worker) -> None:
        worker.messages, sender = self._context.Pipe(duplex=False)
        worker.process = self._context.Process(
            target=run_worker,
            args=(self._target, worker.number, self._listener, sender),
            name=f"recollect worker {worker.number}",
        )
        worker.process.start()
        sender.close()
        worker.is_ready = False
        worker.started_at = time.monotonic()

    def _supervise(self) -> None:
        """Wait until something happens to a worker, or a signal arrives."""
        handles = [handle for worker in self._workers for handle in worker.handles]
        # A signal handler does not end `wait`, so it ends by itself from time to time.
        wait(handles, timeout=0.5)
        for worker in self._workers:
            if worker.messages is not None and worker.messages.poll():
                with suppress(EOFError):
                    worker.is_ready = worker.messages.recv() == "ready"
                worker.messages.close()
                worker.messages = None
            if not worker.process.is_alive() and not self._stopping.is_set():
                self._replace(worker)
        if not self._is_announced and all(worker.is_ready for worker in self._workers):
            self._is_announced = True
            self._on_started()

    def _replace(self, worker: _Worker) -> None:
        """Restart a worker that died."""
        code = worker.process.exitcode
        if not self._is_announced:
            raise RecollectError(
                f"A server process could not start (exit code {code}). Its error is above."
            )
        seconds = time.monotonic() - worker.started_at
        logs.event(
            "worker died",
            logging.ERROR,
            worker=worker.number,
            pid=worker.process.pid,
            exit_code=code,
            seconds=round(seconds, 1),
        )
        worker.pause = min(worker.pause * 2, _LONGEST_PAUSE)
        if seconds > _STEADY_SECONDS:
            worker.pause = _SHORTEST_PAUSE
        self._stopping.wait(worker.pause)
        if not self._stopping.is_set():
            self._start(worker)

    def _terminate(self) -> None:
        for worker in self._workers:
            if worker.process.is_alive():
                worker.process.terminate()

    def _stop(self) -> None:
        if not self._stopping.is_set():  # because of an error
            self._stopping.set()
            self._terminate()
        deadline = time.monotonic() + 2 * LIMITS.drain_seconds + 10
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


# -- in a worker ---


def run_worker(target: Target, number: int, listener: socket.socket, messages: Connection) -> None:
    # A terminal sends it to all processes. The parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, name="recollect-parent", daemon=True).start()

    def report() -> None:
        with suppress(OSError):
            messages.send("ready")
            messages.close()

    try:
        target(number, listener, report)
    except RecollectError as error:
        logs.event("cannot start", logging.ERROR, worker=number, reason=str(error))
        raise SystemExit(1) from None


def end_with_parent() -> None:
    """Shut down if the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
