"""A proxy between a client and a PostgreSQL server that cuts connections when a test says so.

It parses the traffic into messages. A test plans what happens to the next COMMIT; all other
messages are passed on unchanged.
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
"""Called in a thread of the proxy, with the connection and a COMMIT that was not passed on yet."""


class Proxy:
    def __init__(self, server: str, folder: Path) -> None:
        self._server = f"{server}/{NAME}"
        self._plan: Plan | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._links: list[Link] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / NAME))
        self._listener.listen(50)
        self.spawn(self._accept)

    def on_commit(self, plan: Plan) -> None:
        """Apply a plan to the next COMMIT. Later ones are passed on."""
        self._plan = plan

    def take_plan(self) -> Plan | None:
        with self._lock:
            plan, self._plan = self._plan, None
            return plan

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
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
                client, _ = self._listener.accept()
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
            self.spawn(link.forward_to_server)
            self.spawn(link.forward_to_client)


class Link:
    """A connection of a client, and the matching connection to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._commits: set[bytes] = set()  # prepared statements that are COMMIT
        self._swallow_answer = False
        self._keep_client = False

    # -- for plans ---

    def send(self, message: bytes) -> None:
        self._server.sendall(message)

    def swallow_the_answer(self) -> None:
        """Drop the server's answer to COMMIT, and cut the connection."""
        self._swallow_answer = True

    def keep_the_client(self) -> None:
        """Keep the client connected when the server disconnects."""
        self._keep_client = True

    def hang_up(self) -> None:
        """Disconnect the client. The server does not notice yet."""
        _shut(self._client)

    def cut(self) -> None:
        _shut(self._client)
        _shut(self._server)

    def close(self) -> None:
        self._client.close()
        self._server.close()

    # -- forwarding ---

    def forward_to_server(self) -> None:
        with suppress(OSError):
            for message in _messages(self._client, from_client=True):
                plan = None
                if self._is_commit(message):
                    plan = self._proxy.take_plan()
                if plan is None:
                    self.send(message)
                else:
                    plan(self, message)
        _shut(self._server)

    def forward_to_client(self) -> None:
        with suppress(OSError):
            for message in _messages(self._server):
                if self._swallow_answer and message[:1] == b"C" and message[5:] == b"COMMIT\0":
                    break
                self._client.sendall(message)
        if self._swallow_answer:
            self.cut()
        elif not self._keep_client:
            _shut(self._client)

    def _is_commit(self, message: bytes) -> bool:
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return body.endswith(b"commit\0")
        if kind == b"P":
            name, query = body.split(b"\0")[:2]
            if query == b"commit":
                self._commits.add(name)
            else:
                self._commits.discard(name)
        return kind == b"B" and body.split(b"\0")[1] in self._commits


def _messages(source: socket.socket, from_client: bool = False) -> Iterator[bytes]:
    """Whole messages from one side. The first message of a client has no type byte."""
    pending = b""
    type_bytes = 0 if from_client else 1
    while True:
        while len(pending) >= type_bytes + 4:
            end = type_bytes + struct.unpack_from("!I", pending, type_bytes)[0]
            if len(pending) < end:
                break
            yield pending[:end]
            pending = pending[end:]
            type_bytes = 1
        data = source.recv(65_536)
        if not data:
            return
        pending += data


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
