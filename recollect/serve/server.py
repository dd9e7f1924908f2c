"""The server's process: it listens, answers, and ends in good order.

On a signal it stops accepting, lets streams end, answers what it has begun and
finishes what it promised; a second signal ends it at once. What was saved is
safe either way.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from recollect import __version__
from recollect.errors import RecollectError
from recollect.places import keys
from recollect.serve.app import make_app
from recollect.serve.http import logs
from recollect.serve.http.hosts import is_loopback
from recollect.serve.http.service import Service, ServiceConfig
from recollect.settings import LIMITS
from recollect.store.api_keys import ApiKeys

KEEP_ALIVE_SECONDS = 15
MOST_FRAGMENTS = 10_000  # frames of one message of a WebSocket

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    place: Path | str,
    config: ServiceConfig,
    *,
    log_format: str = "json",
    announce: Callable[[str], None],
) -> int:
    """Serve until a signal comes. `announce` is told the address once it can be used."""
    with closing(keys(place)) as kept:
        demand_keys(config, kept)
    listener = _listen(config.host, config.port)
    try:
        config = replace(config, port=listener.getsockname()[1])
        service = Service(place, config)
        try:
            logs.start_logging(log_format)
            service.upstream  # noqa: B018 - a setting that cannot be used is told now, not to the first who chats
            _Server(service, lambda: announce(address(config))).run([listener])
        finally:
            service.close()
    finally:
        listener.close()
    return 0


def demand_keys(config: ServiceConfig, kept: ApiKeys) -> None:
    """Refuse to serve others than this computer's user while everybody would be let in."""
    if config.jwt or kept.has_any():
        return
    make_one = "Make a key first: recollect keys add NAME --user USER"
    if not is_loopback(config.host):
        raise RecollectError(
            f"Everybody who can reach {config.host} could read everything: there is no key yet. {make_one}\n"
            "Or listen for this computer alone: --host 127.0.0.1"
        )
    if others := [name for name in config.public_hosts if not is_loopback(name.partition(":")[0])]:
        raise RecollectError(
            f"Everybody who asks for {others[0]} could read everything: there is no key yet. {make_one}"
        )


def address(config: ServiceConfig) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)  # noqa: S104 - it is shown, not bound
    return config.base_url or f"http://{f'[{host}]' if ':' in host else host}:{config.port}"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[
            0
        ]
    except OSError as error:
        raise RecollectError(
            f"{host!r} is no address of this computer ({error.strerror})."
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise RecollectError(
            f"Port {port} of {host} cannot be used ({error.strerror}). Another server may be there; say --port."
        ) from error
    listener.set_inheritable(False)
    return listener


class _Server(uvicorn.Server):
    def __init__(self, service: Service, listening: Callable[[], None]) -> None:
        self._service = service
        self._listening = listening
        super().__init__(
            uvicorn.Config(
                make_app(service),
                http=_Protocol,
                ws=_Socket,
                ws_max_size=LIMITS.mcp_line_bytes,
                ws_per_message_deflate=False,  # a small frame must not unfold to a large one
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=int(LIMITS.drain_seconds),
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        logs.event("started", version=__version__, engine=self._service.engine, pid=os.getpid())
        self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.draining.set()
        logs.event("stopping")
        await super().shutdown(sockets)
        logs.event("stopped")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn, do not die of the signal afterwards: ending as asked is success."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(1)
        self._service.draining.set()
        self.should_exit = True


class _Socket(WebSocketsSansIOProtocol):
    """A WebSocket that cannot be held open without a handshake, or filled with what is never read."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if (
            not self.handshake_initiated
        ):  # what uvicorn passes on first is the whole head: it cannot be used
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MOST_FRAGMENTS:
            self.frames = []
            self.transport.abort()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # else uvicorn takes every refusal for a fault of ours

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # whoever does not read gets no answers to pings


class _Protocol(HttpToolsProtocol):
    """A connection that cannot be held open by saying nothing, or filled with headers."""

    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > LIMITS.connections:
            self._refuse(503, "Retry-After: 1")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._in_head
        super().data_received(data)
        if before and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > LIMITS.header_bytes:
                self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        """`GET http://elsewhere/` names the server twice; the header Host is the one that is checked."""
        super().on_url(url)
        if not self.url.startswith((b"/", b"*")):
            raise ValueError("a proxy's request")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        if (
            sum(len(name) + len(value) for name, value in self.headers) + len(self.url)
            > LIMITS.header_bytes
        ):
            self._refuse(431)
            raise ValueError("too long a head")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _await_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._stop_timer()
        self._head_timer = self.loop.call_later(LIMITS.header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: int, *headers: str) -> None:
        if not self.transport.is_closing():
            head = "".join(
                f"{line}\r\n"
                for line in (
                    f"HTTP/1.1 {status} Refused",
                    *headers,
                    "Content-Length: 0",
                    "Connection: close",
                    "",
                )
            )
            self.transport.write(head.encode("ascii"))
            self.transport.close()
