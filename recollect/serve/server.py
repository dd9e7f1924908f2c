"""The server process: listen, serve, shut down gracefully.

On a signal the server stops accepting connections, ends streams, answers the requests in progress
and finishes the imports that run. A second signal ends it at once. Saved data is safe either way.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import uvicorn

from recollect import __version__
from recollect.backup.schedule import BackupSchedule
from recollect.errors import InvalidInput, LockedLibrary, RecollectError
from recollect.places import keys
from recollect.serve.app import make_app
from recollect.serve.http import logs
from recollect.serve.http.client_connections import (
    ConnectionConfig,
    HttpProtocol,
    OpenConnections,
    WebSocketProtocol,
)
from recollect.serve.http.hosts import is_loopback
from recollect.serve.http.service import Service, ServiceConfig
from recollect.settings import (
    CONVERSATION_DB,
    LIMITS,
    MAX_WORKERS,
    ORIGIN_CONVERSATION_DB,
    PASSPHRASE_FILE,
)
from recollect.stop_signal import StopSignal
from recollect.store.api_keys import ApiKeys
from recollect.store.sqlite.encryption import configured_passphrase, is_encrypted

KEEP_ALIVE_SECONDS = 15
BACKLOG = 1024
RESERVED_FILES = 256
"""Open files that are no connections: databases, uploads, indexes."""

# glibc gives every few threads a heap of their own and keeps what they free. With fifty agents the
# objects stay at 75 MiB, but the heaps would grow by 10 MiB a minute.
_M_ARENA_MAX = -8
_TICKS_BETWEEN_TRIMS = 150
"""Every 15 seconds. It takes a few milliseconds, in a thread."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CREATE_KEY = "Create a key first: recollect keys add NAME --user USER"
# Addresses to listen on, and the address to show for them.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - shown, not bound


@dataclass(frozen=True, slots=True)
class ServeOptions:
    log_format: str = "json"
    workers: int = 1
    """The number of processes."""

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InvalidInput(f"The number of workers must be from 1 to {MAX_WORKERS}.")


def serve(
    place: Path | str,
    config: ServiceConfig,
    options: ServeOptions | None = None,
    *,
    announce: Callable[[str], None],
) -> int:
    """Serve until a signal arrives. `announce` gets the URL once the server accepts requests."""
    if options is None:
        options = ServeOptions()
    with closing(keys(place)) as api_keys:
        require_keys(config, api_keys)
    listener = listen(config.host, config.port)
    try:
        config = replace(config, port=listener.getsockname()[1])
        log_format = options.log_format

        def on_started() -> None:
            announce(server_url(config))

        if options.workers == 1:
            serve_on(place, config, log_format, 0, listener, on_started)
        else:
            require_configured_passphrase(place)
            logs.start_logging(log_format)
            target = partial(serve_on, place, config, log_format)
            Supervisor(target, listener, options.workers, on_started).run()
    finally:
        listener.close()
    return 0


def serve_on(
    place: Path | str,
    config: ServiceConfig,
    log_format: str,
    number: int,
    listener: socket.socket,
    on_started: Callable[[], None],
) -> None:
    """Serve in this process, which is one of several if its number is not 0."""
    config = replace(config, worker=number)
    call_libc("mallopt", _M_ARENA_MAX, 2)
    logs.start_logging(log_format)
    service = Service(place, config)
    try:
        service.upstream  # noqa: B018 - report bad settings now, not with the first request
        if config.is_first and (config.jwt or service.keys.has_any()):
            warn_of_unused_settings()
        with closing(BackupSchedule(place)) as schedule:
            if config.is_first:
                schedule.start()
            _Server(service, on_started).run([listener])
    finally:
        service.close()


def require_configured_passphrase(place: Path | str) -> None:
    """Workers have no terminal to ask for a passphrase."""
    if isinstance(place, Path) and is_encrypted(place) and configured_passphrase() is None:
        raise LockedLibrary(
            f"{place} is encrypted. For several workers, put its passphrase into a file that only "
            f"you can read, and set {PASSPHRASE_FILE.name} to the name of that file."
        )


def require_keys(config: ServiceConfig, api_keys: ApiKeys) -> None:
    """Refuse to serve other computers without authentication."""
    if config.jwt or api_keys.has_any():
        return
    if not is_loopback(config.host):
        raise RecollectError(
            f"There is no API key, so everyone who can reach {config.host} could read everything. "
            f"{_CREATE_KEY}\nOr listen on this computer only: --host 127.0.0.1"
        )
    for name in config.public_hosts:
        if not is_loopback(name.partition(":")[0]):
            raise RecollectError(
                f"There is no API key, so everyone who can reach {name} could read everything. "
                f"{_CREATE_KEY}"
            )


def warn_of_unused_settings() -> None:
    """Log which settings do not apply to users with API keys or tokens."""
    for setting in (CONVERSATION_DB, ORIGIN_CONVERSATION_DB):
        if setting.get():
            logs.event(
                "setting not used",
                logging.WARNING,
                setting=setting.name,
                reason=(
                    "The database belongs to no user, so conversation_search searches each "
                    "user's library. Import the database with `recollect import FILE --user "
                    "NAME`, or search it with `recollect mcp`."
                ),
            )


def raise_file_limit() -> int:
    """Raise the limit on open files, as far as this process may. Returns the limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return LIMITS.open_files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= LIMITS.open_files:
        return LIMITS.open_files
    target = LIMITS.open_files
    if hard != resource.RLIM_INFINITY:
        target = min(target, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def call_libc(name: str, *arguments: int) -> None:
    """Call a function of glibc. Elsewhere, do nothing."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            getattr(ctypes.CDLL("libc.so.6"), name)(*arguments)


def server_url(config: ServiceConfig) -> str:
    if config.base_url:
        return config.base_url
    host = _WILDCARDS.get(config.host, config.host)
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{config.port}"


def listen(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise RecollectError(
            f"{host!r} is not an address of this computer ({error.strerror}). "
            "Use --host with an address it has, for example 127.0.0.1."
        ) from error
    family, kind, protocol, _, address = addresses[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise RecollectError(
            f"Cannot listen on port {port} of {host} ({error.strerror}). Another program may use "
            "it. Choose another one with --port."
        ) from error
    listener.set_inheritable(False)
    return listener


class _Server(uvicorn.Server):
    def __init__(self, service: Service, on_started: Callable[[], None]) -> None:
        self._service = service
        self._on_started = on_started
        self._requests_at_trim = 0
        config = ConnectionConfig(
            make_app(service),
            http=HttpProtocol,
            ws=WebSocketProtocol,
            ws_max_size=LIMITS.mcp_line_bytes,
            ws_per_message_deflate=False,  # a small frame must not expand to a large one
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=int(LIMITS.drain_seconds),
        )
        limit = min(LIMITS.connections, raise_file_limit() - RESERVED_FILES)
        config.connections = OpenConnections(service.config.trusted_proxies, limit)
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        logs.event("started", version=__version__, engine=self._service.engine, pid=os.getpid())
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.draining.set()
        logs.event("stopping")
        await super().shutdown(sockets)
        logs.event("stopped")

    async def on_tick(self, counter: int) -> bool:
        requests = self.server_state.total_requests
        if counter % _TICKS_BETWEEN_TRIMS == 0 and requests != self._requests_at_trim:
            self._requests_at_trim = requests
            await asyncio.to_thread(call_libc, "malloc_trim", 0)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals. Unlike uvicorn, exit normally afterwards instead of with the signal."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # A worker ignores SIGINT: its parent handles it.
        numbers = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        previous = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(1)
        self._service.draining.set()
        self.should_exit = True


# -- several processes on one port ---

Target = Callable[[int, socket.socket, Callable[[], None]], None]
"""Serves in a worker: its number, the socket, and what to call once it accepts requests."""

_RESTART_SECONDS = 1.0
_CONTEXT = multiprocessing.get_context("spawn")


class Supervisor:
    """Runs `recollect serve --workers N` until a signal arrives.

    The parent binds the port and gives the socket to its workers, which accept connections from it.
    It restarts a worker that dies, and passes signals on. If a worker cannot start, the server
    stops with its error. Workers end when their parent does.

    uvicorn has a supervisor as well. It needs an application that can be pickled, and if no worker
    can start, it tries for ever.
    """

    def __init__(
        self, target: Target, listener: socket.socket, count: int, on_started: Callable[[], None]
    ) -> None:
        self._target = target
        self._listener = listener
        self._on_started = on_started
        self._count = count
        self._workers: dict[int, BaseProcess] = {}
        self._starting: dict[int, Connection] = {}
        """Where the workers that are not yet ready say that they are."""
        self._is_announced = False

    def run(self) -> None:
        """Raises RecollectError if a worker cannot start."""
        # The first signal shuts the workers down, the second one ends them.
        self._stopping = StopSignal(self._terminate)
        try:
            for number in range(self._count):
                self._start(number)
            while not self._stopping.is_set():
                self._supervise()
        finally:
            if not self._stopping.is_set():  # because of an error
                self._stopping.set()
                self._terminate()
            deadline = time.monotonic() + 2 * LIMITS.drain_seconds + 10
            for process in self._workers.values():
                process.join(max(0.0, deadline - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()
            self._stopping.restore()

    def _start(self, number: int) -> None:
        self._starting[number], sender = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(
            target=run_worker,
            args=(self._target, number, self._listener, sender),
            name=f"recollect worker {number}",
        )
        process.start()
        self._workers[number] = process
        sender.close()

    def _supervise(self) -> None:
        """Wait until something happens to a worker, or a signal arrives."""
        ends = [process.sentinel for process in self._workers.values()]
        # A signal handler does not end `wait`, so it ends by itself from time to time.
        wait([*ends, *self._starting.values()], timeout=0.5)
        for number, process in list(self._workers.items()):
            messages = self._starting.get(number)
            if messages is not None and messages.poll():
                with suppress(EOFError):  # it is about to end
                    messages.recv()
                    messages.close()
                    del self._starting[number]
            if process.is_alive() or self._stopping.is_set():
                continue
            if not self._is_announced:
                raise RecollectError(
                    f"A server process could not start (exit code {process.exitcode}). "
                    "Its error is above."
                )
            logs.event(
                "worker died",
                logging.ERROR,
                worker=number,
                pid=process.pid,
                exit_code=process.exitcode,
            )
            if not self._stopping.wait(_RESTART_SECONDS):
                self._start(number)
        if not self._is_announced and not self._starting:
            self._is_announced = True
            self._on_started()

    def _terminate(self) -> None:
        for process in self._workers.values():
            if process.is_alive():
                process.terminate()


def run_worker(target: Target, number: int, listener: socket.socket, messages: Connection) -> None:
    """What runs in a worker."""
    # A terminal sends it to all processes. The parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, name="recollect-parent", daemon=True).start()

    def report() -> None:
        with suppress(OSError):
            messages.send("ready")
            messages.close()

    try:
        target(number, listener, report)
    except RecollectError as error:
        logs.event("cannot start", logging.ERROR, worker=number, reason=str(error))
        raise SystemExit(1) from None


def end_with_parent() -> None:
    """Shut down if the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
