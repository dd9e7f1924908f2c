"""The job that seals, embeds, observes and purges what is new in a library.

A write stores what must be indexed in its own transaction. The job is only the request to do it
soon, so it is queued afterwards, at most twice a second for each user.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from recollect.errors import RecollectError
from recollect.jobs.runner import Borrow, Handler, PutBack, Run
from recollect.store.shared.jobs import FAILED, Jobs, new_id
from recollect.store.shared.open_libraries import RENEWAL_SECONDS, OpenLibraries

log = logging.getLogger(__name__)

INDEX = "index"
_PAUSE_SECONDS = 0.5
_RETRY_SECONDS = 5.0
_CHECK_SECONDS = 60.0


class IndexHandler(Handler):
    kind = INDEX
    max_attempts = 5
    is_remembered = False

    def __init__(self, borrow: Borrow, jobs: Jobs, open_libraries: OpenLibraries) -> None:
        self._borrow = borrow
        self._jobs = jobs
        self._open_libraries = open_libraries

    def run(self, run: Run) -> Any:
        with self._borrow(run.job.user) as library:
            delay = library.run_background_jobs(run.stop.is_set)
        if delay is not None:
            raise PutBack(delay)
        if run.stop.is_set():
            raise PutBack

    def sweep(self) -> None:
        """Index the libraries that a server had open when it died."""
        for server, user in self._open_libraries.lost_users():
            self._jobs.add_once(INDEX, user, even_if_running=True)
            self._open_libraries.remove(server, user)
        self._open_libraries.forget_expired()


class IndexRequests:
    """Queues a job for every library that has changed, from a thread of its own."""

    def __init__(self, jobs: Jobs, open_libraries: OpenLibraries) -> None:
        self._jobs = jobs
        self._open_libraries = open_libraries
        self._server = new_id()
        self._users: set[str] = set()
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewed_at = 0.0

    def indexer(self, user: str) -> LibraryIndexer:
        """The indexer of a library that is being opened."""
        self._open_libraries.add(self._server, user)
        self._start()
        return LibraryIndexer(self, user)

    def add(self, user: str) -> None:
        """Ask for the library of a user to be indexed. Returns at once."""
        with self._lock:
            self._users.add(user)
        self._woken.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._work, name="recollect-index-requests", daemon=True
                )
                self._thread.start()

    def release(self, user: str) -> None:
        """The library of a user was closed."""
        if self._closing.is_set():
            return
        try:
            self.flush()
            self._open_libraries.remove(self._server, user)
        except RecollectError as error:
            log.warning("A library stays registered as open: %s", error)

    def problem(self, user: str) -> str:
        """Why the library of a user could not be indexed; empty if it could."""
        for job in self._jobs.list_for(INDEX, user, 1):
            if job.state == FAILED:
                return job.error
        return ""

    def close(self) -> None:
        """Queue what is left."""
        self._closing.set()
        self._woken.set()
        if self._thread is None:
            return
        self._thread.join()
        try:
            self.flush()
            self._open_libraries.end(self._server)
        except RecollectError as error:
            # The lease expires, and then another server queues what is left.
            log.warning("The last changes will be indexed later: %s", error)

    def _work(self) -> None:
        while not self._closing.is_set():
            self._woken.wait(RENEWAL_SECONDS)
            self._woken.clear()
            pause = _PAUSE_SECONDS
            try:
                self.flush()
                self._renew()
            except RecollectError as error:
                log.warning("Indexing waits for the database: %s", error)
                self._woken.set()
                pause = _RETRY_SECONDS
            self._closing.wait(pause)

    def flush(self) -> None:
        """Queue a job for every library that has changed. Waits for a flush in progress."""
        with self._flushing:
            while True:
                with self._lock:
                    if not self._users:
                        return
                    user = self._users.pop()
                try:
                    self._jobs.add_once(INDEX, user, even_if_running=True)
                except RecollectError:
                    self._users.add(user)
                    raise

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at > RENEWAL_SECONDS / 2:
            self._open_libraries.renew(self._server)
            self._renewed_at = time.monotonic()


class LibraryIndexer:
    """What the library of one user wakes."""

    def __init__(self, requests: IndexRequests, user: str) -> None:
        self._requests = requests
        self._user = user
        self._checked_at = float("-inf")

    def wake(self) -> None:
        self._requests.add(self._user)

    def check(self) -> None:
        """Servers that die leave a lease. Other programs do not, so ask once in a while."""
        if time.monotonic() - self._checked_at > _CHECK_SECONDS:
            self._checked_at = time.monotonic()
            self.wake()

    def close(self) -> None:
        self._requests.release(self._user)

    @property
    def problem(self) -> str:
        return self._requests.problem(self._user)
