"""The connections of clients: HTTP and WebSocket protocols that no client can use to block others.

They extend those of uvicorn. A client that sends nothing, endless headers or a slow body is closed
when others need its place (see `limits.WaitingRoom`).
"""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from recollect.serve.http.hosts import client_network, is_in_networks
from recollect.serve.http.limits import WaitingRoom
from recollect.settings import LIMITS

MAX_FRAGMENTS = 10_000  # frames of one WebSocket message


class ConnectionConfig(uvicorn.Config):
    connections: OpenConnections


def _connections(config: uvicorn.Config) -> OpenConnections:
    assert isinstance(config, ConnectionConfig)
    return config.connections


class OpenConnections:
    """The open connections of the server, and which of them give way if there are too many."""

    def __init__(self, trusted_proxies: tuple[str, ...], limit: int) -> None:
        self._trusted_proxies = trusted_proxies
        self._limit = limit
        self.open = 0
        self._unproven: WaitingRoom[HttpProtocol] = WaitingRoom()
        """Waiting for a client that has not yet sent a request with a valid credential."""
        self._idle: WaitingRoom[HttpProtocol] = WaitingRoom()
        """Waiting for the next request of a client that has."""

    def wait(self, connection: HttpProtocol) -> None:
        """A connection waits for its client to send a request."""
        room = self._idle if connection.is_proven else self._unproven
        room.enter(connection, connection.network)

    def stop_waiting(self, connection: HttpProtocol) -> None:
        self._unproven.leave(connection)
        self._idle.leave(connection)

    def make_room(self, newcomer: HttpProtocol) -> bool:
        """Close a connection for a new one if there are too many. Returns False if none may be."""
        network, victim = newcomer.network, None
        # All clients of a proxy have its address.
        is_shared = is_in_networks(newcomer.peer, self._trusted_proxies)
        share = LIMITS.waiting_connections_each_address
        if self._unproven.count(network) > share and not is_shared:
            victim = self._unproven.longest_waiting(network, LIMITS.waiting_seconds)
        if victim is None and self.open > self._limit:
            victim = self._unproven.longest_waiting(self._unproven.greediest())
            if victim in (None, newcomer):
                victim = self._idle.longest_waiting(self._idle.greediest())
        if victim is None:
            return self.open <= self._limit
        self.stop_waiting(victim)
        victim.transport.abort()
        return True


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that clients cannot keep open without a handshake or use to exhaust memory."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _connections(self.config).open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        _connections(self.config).open -= 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # uvicorn passes on the whole head first. If that starts no handshake, nothing will.
        if not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MAX_FRAGMENTS:
            self.frames = []
            self.transport.abort()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # otherwise uvicorn reports a refusal as our failure

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # a client that reads nothing gets no pongs


class HttpProtocol(HttpToolsProtocol):
    """A connection that a slow client cannot keep while others need its place."""

    is_proven = False
    """Whether a request with a valid credential has come over this connection."""
    peer = ""
    network = ""
    _is_in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:
            self.peer = self.client[0]
        self.network = client_network(self.peer)
        self._connections = _connections(self.config)
        self._connections.open += 1
        self._connections.wait(self)
        self._begin_head()
        if not self._connections.make_room(self):
            self._refuse(503, "Retry-After: 1")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._connections.stop_waiting(self)
        self._connections.open -= 1
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        # This protocol never learns that the connection was lost. The next one counts it.
        self._stop_timer()
        self._connections.stop_waiting(self)
        self._connections.open -= 1
        super().handle_websocket_upgrade()

    def prove(self) -> None:
        """A request with a valid credential came over this connection."""
        self.is_proven = True
        self._connections.stop_waiting(self)

    def data_received(self, data: bytes) -> None:
        was_in_head = self._is_in_head
        super().data_received(data)
        if was_in_head and self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > LIMITS.header_bytes:
                self._refuse(431)
        elif not self._is_in_head and self._is_forgotten():
            self._begin_head()

    def _is_forgotten(self) -> bool:
        """Whether no timer would close this connection.

        Empty lines between requests stop uvicorn's timer but begin no request.
        """
        is_idle = self.cycle is not None and self.cycle.response_complete
        return is_idle and self.timeout_keep_alive_task is None and not self.transport.is_closing()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["connection"] = self
        if not self._is_in_head:
            self._begin_head()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._connections.stop_waiting(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self._connections.wait(self)

    def on_url(self, url: bytes) -> None:
        """Reject proxy requests such as `GET http://elsewhere/`: we check the Host header only."""
        super().on_url(url)
        if not self.url.startswith((b"/", b"*")):
            raise ValueError("a proxy request")

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > LIMITS.header_bytes:
            self._refuse(431)
            raise ValueError("the head is too long")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _begin_head(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        self._stop_timer()
        self._head_timer = self.loop.call_later(LIMITS.header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: int, *headers: str) -> None:
        if self.transport.is_closing():
            return
        lines = [f"HTTP/1.1 {status} Refused", *headers, "Content-Length: 0", "Connection: close"]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        self.transport.close()
