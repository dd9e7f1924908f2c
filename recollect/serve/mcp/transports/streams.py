"""What is sent while one MCP request is answered, kept for a while: a client whose connection broke takes it up again.

Used from the event loop only.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from functools import cached_property

MOST_KEPT = 1_000
MOST_BYTES = 16_000_000
MOST_WAITING = 256
"""Notifications of one request that are kept; with more, its progress is told less often."""


class Stream:
    """The messages that answer one request, in their order; the last of them is the answer itself."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.done = False
        self._waiting: set[asyncio.Future[None]] = set()

    @cached_property
    def id(self) -> str:
        return secrets.token_hex(8)

    def put(self, message: bytes) -> None:
        """Add a notification."""
        if not self.done and len(self.messages) < MOST_WAITING:
            self.messages.append(message)
            self._wake()

    def end(self, answer: bytes | None) -> None:
        """Add the answer, if one is due; what comes later is dropped."""
        if not self.done:
            self.done = True
            if answer is not None:
                self.messages.append(answer)
            self._wake()

    async def changed(self, known: int, seconds: float) -> bool:
        """Wait for news: whether there are more than `known` messages, or the end, by then or after the time."""
        if len(self.messages) <= known and not self.done:
            loop = asyncio.get_running_loop()
            waiting = loop.create_future()
            self._waiting.add(waiting)
            timer = loop.call_later(seconds, _settle, waiting)
            try:
                await waiting
            finally:
                timer.cancel()
                self._waiting.discard(waiting)
        return len(self.messages) > known or self.done

    @property
    def size(self) -> int:
        return sum(map(len, self.messages))

    def _wake(self) -> None:
        for waiting in self._waiting:
            _settle(waiting)


def _settle(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class KeptStreams:
    """The latest streams of all sessions, bounded in number and bytes."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._streams: OrderedDict[tuple[str, str, str], Stream] = OrderedDict()
        self._sizes: dict[tuple[str, str, str], int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, user: str, session: str, stream: Stream) -> None:
        self._streams[user, session, stream.id] = stream
        if stream.done:
            self.ended(user, session, stream)
        self._make_room()

    def ended(self, user: str, session: str, stream: Stream) -> None:
        """Count what a stream holds, now that nothing is added any more."""
        key = (user, session, stream.id)
        if key in self._streams and key not in self._sizes:
            self._sizes[key] = stream.size
            self._bytes += stream.size
            self._make_room()

    def find(self, user: str, session: str, event: str) -> tuple[Stream, int] | None:
        """The stream that an event was of, and how many of its messages the client has."""
        name, _, number = event.rpartition("-")
        stream = self._streams.get((user, session, name))
        if stream is None or not (number.isascii() and number.isdecimal() and len(number) < 8):
            return None
        return stream, int(number)

    def forget(self, user: str, session: str) -> None:
        for key in [key for key in self._streams if key[:2] == (user, session)]:
            self._drop(key)

    def _make_room(self) -> None:
        while len(self._streams) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._streams)))

    def _drop(self, key: tuple[str, str, str]) -> None:
        del self._streams[key]
        self._bytes -= self._sizes.pop(key, 0)
