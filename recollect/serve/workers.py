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

from recollect.errors import RecollectError
from recollect.serve.http import logs
from recollect.settings import LIMITS
from recollect.stop_signal import StopSignal

Target = Callable[[int, socket.socket, Callable[[], None]], None]
"""Serves in a worker: its number, the socket, and what to call once it accepts requests."""

_RESTART_SECONDS = 1.0
_CONTEXT = multiprocessing.get_context("spawn")


class Supervisor:
    """Runs the workers until a signal arrives."""

    def __init__(
        self, target: Target, listener: socket.socket, count: int, on_started: Callable[[], None]
    ) -> None:
        self._target = target
        self._listener = listener
        self._on_started = on_started
        self._count = count
        self._workers: dict[int, BaseProcess] = {}
        self._starting: dict[int, Connection] = {}
        """Where the workers that are not yet ready say that they are."""
        self._is_announced = False

    def run(self) -> None:
        """Raises RecollectError if a worker cannot start."""
        # The first signal shuts the workers down, the second one ends them.
        self._stopping = StopSignal(self._terminate)
        try:
            for number in range(self._count):
                self._start(number)
            while not self._stopping.is_set():
                self._supervise()
        finally:
            if not self._stopping.is_set():  # because of an error
                self._stopping.set()
                self._terminate()
            deadline = time.monotonic() + 2 * LIMITS.drain_seconds + 10
            for process in self._workers.values():
                process.join(max(0.0, deadline - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()
            self._stopping.restore()

    def _start(self, number: int) -> None:
        self._starting[number], sender = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(
            target=run_worker,
            args=(self._target, number, self._listener, sender),
            name=f"recollect worker {number}",
        )
        process.start()
        self._workers[number] = process
        sender.close()

    def _supervise(self) -> None:
        """Wait until something happens to a worker, or a signal arrives."""
        ends = [process.sentinel for process in self._workers.values()]
        # A signal handler does not end `wait`, so it ends by itself from time to time.
        wait([*ends, *self._starting.values()], timeout=0.5)
        for number, process in list(self._workers.items()):
            messages = self._starting.get(number)
            if messages is not None and messages.poll():
                with suppress(EOFError):  # it is about to end
                    messages.recv()
                    messages.close()
                    del self._starting[number]
            if process.is_alive() or self._stopping.is_set():
                continue
            if not self._is_announced:
                raise RecollectError(
                    f"A server process could not start (exit code {process.exitcode}). "
                    "Its error is above."
                )
            logs.event(
                "worker died",
                logging.ERROR,
                worker=number,
                pid=process.pid,
                exit_code=process.exitcode,
            )
            if not self._stopping.wait(_RESTART_SECONDS):
                self._start(number)
        if not self._is_announced and not self._starting:
            self._is_announced = True
            self._on_started()

    def _terminate(self) -> None:
        for process in self._workers.values():
            if process.is_alive():
                process.terminate()


def run_worker(target: Target, number: int, listener: socket.socket, messages: Connection) -> None:
    """What runs in a worker."""
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
