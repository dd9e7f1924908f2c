"""Telling open pages that something was saved, by whichever process.

Each library that somebody listens to has one watcher, which asks for the
library's version twice a second and tells all listeners when it is another.
A listener only needs to know *that* something changed, so its queue has room
for one word and nothing can pile up. Streams end when the server shuts down,
and after a while anyway: the browser comes back, and its key is checked again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from recollect.errors import RecollectError
from recollect.settings import LIMITS

if TYPE_CHECKING:
    from recollect.serve.http.service import Service

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
LIFE_SECONDS = 600.0
_AT_FULL_SPEED = 32  # libraries; the more are watched, the slower
_PAUSE_SECONDS = 5.0
_RETRY = b"retry: 1000\nevent: ready\ndata: \n\n"
_CHANGED = b"event: changed\ndata: \n\n"
_ALIVE = b": still here\n\n"

Gone = Callable[[], Awaitable[bool]]


class TooManyStreams(RecollectError):
    """So many pages listen already that one more is not taken on."""


class _Watcher:
    """One library, and whoever listens to it."""

    def __init__(self) -> None:
        self.listeners: set[asyncio.Event] = set()
        self.task: asyncio.Task[None] | None = None
        self.started = asyncio.Event()
        """Set once the version is known from which changes count."""


class Events:
    """The live streams of one server. Used from the event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._watchers: dict[str, _Watcher] = {}

    def __len__(self) -> int:
        return sum(len(watcher.listeners) for watcher in self._watchers.values())

    def stream(self, user: str, gone: Gone) -> AsyncIterator[bytes]:
        """What a page receives, as server-sent events. Raises TooManyStreams at once, not on the first read."""
        watcher = self._watchers.get(user)
        mine = 0 if watcher is None else len(watcher.listeners)
        if len(self) >= LIMITS.streams or mine >= LIMITS.streams_each_user:
            raise TooManyStreams(
                "Too many pages are open at once; close some, and this one will be live again."
            )
        return self._stream(user, gone)

    async def _stream(self, user: str, gone: Gone) -> AsyncIterator[bytes]:
        changed = asyncio.Event()
        watcher = self._watchers.setdefault(user, _Watcher())
        watcher.listeners.add(changed)
        if watcher.task is None:
            watcher.task = asyncio.create_task(self._watch(user, watcher), name="recollect-events")
        ends = time.monotonic() + LIFE_SECONDS
        quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
        try:
            await watcher.started.wait()
            yield _RETRY
            while (
                not self._service.draining.is_set() and time.monotonic() < ends and not await gone()
            ):
                try:
                    await asyncio.wait_for(changed.wait(), POLL_SECONDS)
                except TimeoutError:
                    if time.monotonic() < quiet_until:
                        continue
                    yield _ALIVE
                else:
                    changed.clear()
                    yield _CHANGED
                quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
        finally:
            watcher.listeners.discard(changed)
            if not watcher.listeners:
                if self._watchers.get(user) is watcher:
                    del self._watchers[user]
                if watcher.task is not None:
                    watcher.task.cancel()

    async def _watch(self, user: str, watcher: _Watcher) -> None:
        known: object = None
        while watcher.listeners and not self._service.draining.is_set():
            pause = POLL_SECONDS * max(1.0, len(self._watchers) / _AT_FULL_SPEED)
            try:
                version = await run_in_threadpool(self._version, user)
            except (RecollectError, OSError) as error:
                log.warning("A library cannot be watched for the moment: %s", type(error).__name__)
                pause = _PAUSE_SECONDS
            else:
                if watcher.started.is_set() and version != known:
                    for listener in watcher.listeners:
                        listener.set()
                known = version
            watcher.started.set()
            await asyncio.sleep(pause)
        watcher.started.set()

    def _version(self, user: str) -> object:
        with self._service.libraries.borrow(user) as library:
            return library.version()
