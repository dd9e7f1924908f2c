"""Event streams of MCP answers, stored for a while so that clients can resume them.

Used only from the event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from functools import cached_property

MAX_STREAMS = 1_000
MAX_BYTES = 16_000_000
MAX_NOTIFICATIONS = 256
"""Notifications stored per request; further progress is dropped."""


class Stream:
    """The messages that answer one request, in order. The last one is the answer itself."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.is_complete = False
        self._waiters: set[asyncio.Future[None]] = set()

    @cached_property
    def id(self) -> str:
        return secrets.token_hex(8)

    def add(self, message: bytes) -> None:
        """Add a notification."""
        if not self.is_complete and len(self.messages) < MAX_NOTIFICATIONS:
            self.messages.append(message)
            self._wake()

    def end(self, answer: bytes | None) -> None:
        """Add the answer, if one is due. Anything added later is dropped."""
        if not self.is_complete:
            self.is_complete = True
            if answer is not None:
                self.messages.append(answer)
            self._wake()

    async def wait(self, count: int, seconds: float) -> bool:
        """Wait until there are more than `count` messages or the stream is complete.

        Returns False after `seconds` without either.
        """
        if len(self.messages) <= count and not self.is_complete:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiters.add(waiter)
            timer = loop.call_later(seconds, _wake_up, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return len(self.messages) > count or self.is_complete

    @property
    def size(self) -> int:
        return sum(map(len, self.messages))

    def _wake(self) -> None:
        for waiter in self._waiters:
            _wake_up(waiter)


def parse_event_id(event_id: str) -> tuple[str, int | None]:
    """The id of the stream, and the number of the event in it; None if that is no event id."""
    stream_id, _, number = event_id.rpartition("-")
    if not (number.isascii() and number.isdecimal() and len(number) < 8):
        return stream_id, None
    return stream_id, int(number)


def _wake_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class StreamStore:
    """The latest streams of all sessions, bounded in number and bytes."""

    def __init__(self, max_streams: int = MAX_STREAMS, max_bytes: int = MAX_BYTES) -> None:
        self._max_streams = max_streams
        self._max_bytes = max_bytes
        self._streams: OrderedDict[tuple[str, str, str], Stream] = OrderedDict()
        self._sizes: dict[tuple[str, str, str], int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, user: str, session: str, stream: Stream) -> None:
        self._streams[user, session, stream.id] = stream
        if stream.is_complete:
            self.count_bytes(user, session, stream)
        self._make_room()

    def count_bytes(self, user: str, session: str, stream: Stream) -> None:
        """Count the bytes of a stream once it is complete."""
        key = (user, session, stream.id)
        if key in self._streams and key not in self._sizes:
            self._sizes[key] = stream.size
            self._bytes += stream.size
            self._make_room()

    def find(self, user: str, session: str, event_id: str) -> tuple[Stream, int] | None:
        """The stream an event belongs to, and how many of its messages the client has."""
        stream_id, count = parse_event_id(event_id)
        stream = self._streams.get((user, session, stream_id))
        if stream is None or count is None:
            return None
        return stream, count

    def remove_session(self, user: str, session: str) -> None:
        for key in [key for key in self._streams if key[:2] == (user, session)]:
            self._remove(key)

    def _make_room(self) -> None:
        while len(self._streams) > self._max_streams or self._bytes > self._max_bytes:
            self._remove(next(iter(self._streams)))

    def _remove(self, key: tuple[str, str, str]) -> None:
        del self._streams[key]
        self._bytes -= self._sizes.pop(key, 0)
