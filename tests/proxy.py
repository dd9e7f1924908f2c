"""Stands between a client and a PostgreSQL server, to cut a connection at the moment a test chooses.

What passes is read message by message. A test plans what happens to the next
COMMIT; everything else goes through as it came.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

NAME = ".s.PGSQL.5432"
Plan = Callable[["Link", bytes], None]
"""Called, in a thread of the proxy, with the connection and the COMMIT that has not reached the server yet."""


class Proxy:
    def __init__(self, server: str, folder: Path) -> None:
        self._server = f"{server}/{NAME}"
        self._plan: Plan | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._links: list[Link] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / NAME))
        self._listening.listen(50)
        self.spawn(self._accept)

    def on_commit(self, plan: Plan) -> None:
        """What to do with the next COMMIT; the one after it passes."""
        self._plan = plan

    def taken(self) -> Plan | None:
        with self._lock:
            plan, self._plan = self._plan, None
            return plan

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for link in self._links:
            link.cut()
        for thread in self._threads:
            thread.join()
        for link in self._links:
            link.close()

    def spawn(self, target: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=target, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                server.close()
                client.close()
                continue
            link = Link(self, client, server)
            self._links.append(link)
            self.spawn(link.upwards)
            self.spawn(link.downwards)


class Link:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._commits: set[bytes] = set()  # the names under which this client prepared COMMIT
        self._swallows = False
        self._keeps = False

    # -- what a plan can do ---

    def send(self, message: bytes) -> None:
        self._server.sendall(message)

    def swallow_the_answer(self) -> None:
        """The server's answer to COMMIT comes as far as here, and then the connection ends."""
        self._swallows = True

    def keep_the_client(self) -> None:
        """The client does not learn that the server is gone."""
        self._keeps = True

    def hang_up(self) -> None:
        """The client sees the connection end; the server sees nothing yet."""
        _shut(self._client)

    def cut(self) -> None:
        _shut(self._client)
        _shut(self._server)

    def close(self) -> None:
        self._client.close()
        self._server.close()

    # -- passing on ---

    def upwards(self) -> None:
        with suppress(OSError):
            for message in _messages(self._client, starts=True):
                plan = self._proxy.taken() if self._commits_with(message) else None
                if plan is None:
                    self.send(message)
                else:
                    plan(self, message)
        _shut(self._server)

    def downwards(self) -> None:
        with suppress(OSError):
            for message in _messages(self._server):
                if self._swallows and message[:1] == b"C" and message[5:] == b"COMMIT\0":
                    break
                self._client.sendall(message)
        if self._swallows:
            self.cut()
        elif not self._keeps:
            _shut(self._client)

    def _commits_with(self, message: bytes) -> bool:
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return body.endswith(b"commit\0")
        if kind == b"P":
            name, query = body.split(b"\0")[:2]
            (self._commits.add if query == b"commit" else self._commits.discard)(name)
        return kind == b"B" and body.split(b"\0")[1] in self._commits


def _messages(source: socket.socket, starts: bool = False) -> Iterator[bytes]:
    """What comes from one side, whole message by whole message. The client's first has no type."""
    waiting = b""
    head = 0 if starts else 1
    while True:
        while len(waiting) >= head + 4 and len(waiting) >= (
            end := head + struct.unpack_from("!I", waiting, head)[0]
        ):
            yield waiting[:end]
            waiting, head = waiting[end:], 1
        received = source.recv(65_536)
        if not received:
            return
        waiting += received


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
