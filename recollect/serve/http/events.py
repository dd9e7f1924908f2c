"""Change notifications: tell open pages that something in a library was saved.

Each library with listeners has one watcher. It reads the library's version twice a second, so it
also notices what other processes save. If the database signals changes, it reads the version when
there is a signal, and otherwise rarely. A listener only needs to know *that* something changed, so
notifications never pile up. Streams end when the server shuts down, and after ten minutes in any
case: the browser reconnects and its key is checked again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

from recollect.errors import RecollectError
from recollect.serve.http.libraries import Libraries
from recollect.settings import LIMITS
from recollect.store.shared.changes import OFTEN_SECONDS, RARELY_SECONDS, ChangeSignals

log = logging.getLogger(__name__)

POLL_SECONDS = OFTEN_SECONDS
KEEP_ALIVE_SECONDS = 15.0
MAX_SECONDS = 600.0
_WATCHERS_AT_FULL_SPEED = 32  # with more watched libraries, each is polled less often
_RETRY_SECONDS = 5.0
_READY = b"retry: 1000\nevent: ready\ndata: \n\n"
_CHANGED = b"event: changed\ndata: \n\n"
_KEEP_ALIVE = b": keep-alive\n\n"

IsDisconnected = Callable[[], Awaitable[bool]]


class TooManyStreams(RecollectError):
    """The limit on open streams is reached."""


class _Watcher:
    """One watched library and its listeners."""

    def __init__(self) -> None:
        self.listeners: set[asyncio.Event] = set()
        self.task: asyncio.Task[None] | None = None
        self.started = asyncio.Event()
        """Set once the first version is known. Changes count from there."""


class Events:
    """The event streams of one server. Use it only from the event loop."""

    def __init__(
        self, libraries: Libraries, signals: ChangeSignals, draining: threading.Event
    ) -> None:
        self._libraries = libraries
        self._signals = signals
        self._draining = draining
        self._watchers: dict[str, _Watcher] = {}

    def __len__(self) -> int:
        return sum(len(watcher.listeners) for watcher in self._watchers.values())

    def stream(self, user: str, is_disconnected: IsDisconnected) -> AsyncIterator[bytes]:
        """A stream of server-sent events. Raises TooManyStreams at once, not on first read."""
        own_streams = len(self._watchers[user].listeners) if user in self._watchers else 0
        if len(self) >= LIMITS.streams or own_streams >= LIMITS.streams_each_user:
            raise TooManyStreams("Too many pages are open. Close some to get live updates again.")
        return self._stream(user, is_disconnected)

    async def _stream(self, user: str, is_disconnected: IsDisconnected) -> AsyncIterator[bytes]:
        changed = asyncio.Event()
        watcher = self._watchers.setdefault(user, _Watcher())
        watcher.listeners.add(changed)
        if watcher.task is None:
            watcher.task = asyncio.create_task(self._watch(user, watcher), name="recollect-events")
        ends_at = time.monotonic() + MAX_SECONDS
        keep_alive_at = time.monotonic() + KEEP_ALIVE_SECONDS
        try:
            await watcher.started.wait()
            yield _READY
            while not self._draining.is_set() and time.monotonic() < ends_at:
                if await is_disconnected():
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), POLL_SECONDS)
                if changed.is_set():
                    changed.clear()
                    yield _CHANGED
                elif time.monotonic() >= keep_alive_at:
                    yield _KEEP_ALIVE
                else:
                    continue
                keep_alive_at = time.monotonic() + KEEP_ALIVE_SECONDS
        finally:
            watcher.listeners.discard(changed)
            if not watcher.listeners:
                if self._watchers.get(user) is watcher:
                    del self._watchers[user]
                watcher.task.cancel()

    async def _watch(self, user: str, watcher: _Watcher) -> None:
        signal = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(signal.set)

        unsubscribe = self._signals.subscribe(user, wake)
        last_version: object = None
        try:
            while watcher.listeners and not self._draining.is_set():
                signal.clear()
                pause = POLL_SECONDS * max(1.0, len(self._watchers) / _WATCHERS_AT_FULL_SPEED)
                if self._signals.are_live:
                    pause = RARELY_SECONDS
                try:
                    version = await run_in_threadpool(self._version, user)
                except (RecollectError, OSError) as error:
                    log.warning("Cannot watch a library; retrying: %s", type(error).__name__)
                    pause = _RETRY_SECONDS
                else:
                    if watcher.started.is_set() and version != last_version:
                        for listener in watcher.listeners:
                            listener.set()
                    last_version = version
                watcher.started.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(signal.wait(), pause)
        finally:
            unsubscribe()
            watcher.started.set()

    def _version(self, user: str) -> object:
        with self._libraries.borrow(user) as library:
            return library.version()
