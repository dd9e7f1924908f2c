"""What is sent while one MCP request is answered, kept for a while: a client whose connection broke takes it up again.

Used from the event loop only.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict

MOST_KEPT = 1_000
MOST_BYTES = 16_000_000
MOST_WAITING = 256
"""Notifications of one request that are kept; with more, its progress is told less often."""


class Stream:
    """The messages that answer one request, in their order; the last of them is the answer itself."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        self.messages: list[bytes] = []
        self.done = False
        self._changed = asyncio.Event()

    def put(self, message: bytes) -> None:
        """Add a notification."""
        if not self.done and len(self.messages) < MOST_WAITING:
            self._add(message)

    def end(self, answer: bytes | None) -> None:
        """Add the answer, if one is due; what comes later is dropped."""
        if not self.done:
            self.done = True
            if answer is not None:
                self.messages.append(answer)
            self._changed.set()

    async def changed(self, known: int, seconds: float) -> bool:
        """Wait until there are more than `known` messages or the end; whether that came within the time."""
        while len(self.messages) <= known and not self.done:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return False
        return True

    @property
    def size(self) -> int:
        return sum(map(len, self.messages))

    def _add(self, message: bytes) -> None:
        self.messages.append(message)
        self._changed.set()


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
