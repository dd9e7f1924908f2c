"""MCP over standard input and output: one JSON message a line.

Every agent session starts this process, so it must cost little: nothing but
the protocol is imported before the first tool call. One thread reads, and
answers what is quick; tool calls run in a few worker threads, so that they can
be cancelled and hold up nothing else. The main thread only waits for the end:
no more input, a signal, or a client that stopped reading.

Only answers are written to standard output. Whatever else prints goes to
standard error, as the log does.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.protocol import INVALID_REQUEST, TOO_BUSY, Dispatcher, RpcError, decode, encode, failure, is_id

WORKERS = 4
MOST_CALLS = 64
DRAIN_SECONDS = 3.0
CHUNK = 65_536

EXAMPLES = """\
examples:
  claude mcp add recollect -- recollect mcp
  recollect mcp --rename conversation_search=history_search
  CONVERSATION_DB=~/canonical-export.db recollect mcp
"""

# -- the command -----------------------------------------------------------


class Options(NamedTuple):
    home: str | None = None
    user: str | None = None
    rename: tuple[tuple[str, str], ...] = ()
    prefix: str = ""


def main(argv: list[str]) -> int:
    """`recollect mcp`: serve until the client leaves."""
    options = _options(argv)
    try:
        catalog = Catalog(options.home, options.user, rename=dict(options.rename), prefix=options.prefix)
    except ValueError as error:
        sys.stderr.write(f"recollect mcp: {error}\n")
        return 2
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("Waiting for an MCP client on standard input; `recollect mcp --help` shows how to add one.\n")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.stdout = sys.stderr
    if not serve(catalog):
        os._exit(0)  # a search that nobody waits for must not keep the process
    catalog.close()
    return 0


def _options(argv: list[str]) -> Options:
    if not argv:
        return Options()
    import argparse

    parser = argparse.ArgumentParser(
        prog="recollect mcp",
        description="Serve the library to an AI agent over MCP, on standard input and output.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--home", metavar="PATH", help="where the libraries are: a folder, or postgresql://…")
    parser.add_argument("--user", metavar="NAME", help="whose library to serve")
    parser.add_argument(
        "--rename", metavar="TOOL=NAME", action="append", default=[], help="list a tool by another name"
    )
    parser.add_argument("--tool-prefix", metavar="PREFIX", default="", help="put PREFIX before every tool's name")
    given = parser.parse_args(argv)
    pairs = [tuple(pair.split("=", 1)) for pair in given.rename]
    if any(len(pair) != 2 for pair in pairs):
        parser.error("--rename takes TOOL=NAME, for example conversation_search=history_search")
    return Options(given.home, given.user, tuple(pairs), given.tool_prefix)


def serve(catalog: Catalog, source: int = 0, sink: int = 1) -> bool:
    """Answer until the client leaves; whether no call was left running."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    connection = Connection(Dispatcher(catalog), _sender(sink, ended))
    threading.Thread(target=_read, args=(connection, source, ended), daemon=True).start()
    ended.wait()
    return connection.drain(DRAIN_SECONDS)


# -- the connection --------------------------------------------------------


class Connection:
    """One client: its lines go into `receive`, its answers out through `send`."""

    def __init__(self, dispatcher: Dispatcher, send: Callable[[Any], None]) -> None:
        self._dispatcher = dispatcher
        self._send = send
        self._waiting: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._calls: dict[Any, _Call] = {}  # accepted, and neither answered nor cancelled
        self._running = 0
        self._workers = 0
        self._changed = threading.Condition()

    def receive(self, line: bytes | None) -> None:
        """Take a line; None is one that was too long to keep."""
        try:
            message = _long_line() if line is None else decode(line)
            if _takes_long(message):
                self._start(_Call(message))
            elif isinstance(message, dict) and message.get("method") == "notifications/cancelled":
                self._cancel(message.get("params"))
            elif (answer := self._dispatcher.handle(message)) is not None:
                self._send(answer)
        except RpcError as error:
            self._send(failure(error.request_id, error))

    def drain(self, seconds: float) -> bool:
        """Wait until every call is answered or cancelled; whether no worker is busy any more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, seconds)
            return not self._running

    def _start(self, call: _Call) -> None:
        with self._changed:
            if len(self._calls) >= MOST_CALLS:
                raise RpcError(TOO_BUSY, "Too many calls at once: wait for an answer first", request_id=call.id)
            if call.key in self._calls:
                raise RpcError(INVALID_REQUEST, "Invalid request: this 'id' is in use", request_id=call.id)
            self._calls[call.key] = call
        self._waiting.put(call)
        if self._workers < WORKERS:
            self._workers += 1
            threading.Thread(target=self._work, daemon=True).start()

    def _cancel(self, params: Any) -> None:
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if is_id(request_id):
            with self._changed:
                self._calls.pop(request_id, None)
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            call = self._waiting.get()
            with self._changed:
                if not self._is_wanted(call):
                    continue
                self._running += 1
            answer = self._dispatcher.handle(call.message)
            if answer is not None and self._is_wanted(call):
                self._send(answer)
            with self._changed:
                self._running -= 1
                if self._is_wanted(call):
                    del self._calls[call.key]
                self._changed.notify_all()

    def _is_wanted(self, call: _Call) -> bool:
        return self._calls.get(call.key) is call


class _Call:
    """A message for a worker. Its key is its id; a batch, which has none, is its own key."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.id = message["id"] if isinstance(message, dict) else None
        self.key = self if self.id is None else self.id


def _takes_long(message: Any) -> bool:
    if isinstance(message, dict):
        return message.get("method") == "tools/call" and is_id(message.get("id"))
    return isinstance(message, list)


# -- the pipes -------------------------------------------------------------


def lines(read: Callable[[int], bytes]) -> Iterator[bytes | None]:
    """The lines of a stream without their ends; None in place of one that is too long."""
    kept = bytearray()
    too_long = False
    while chunk := read(CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            kept += end
            if too_long or _over_limit(kept):
                yield None
            elif kept.strip():
                yield bytes(kept)
            kept.clear()
            too_long = False
        kept += rest
        if _over_limit(kept):
            kept.clear()
            too_long = True
    if too_long:
        yield None
    elif kept.strip():
        yield bytes(kept)


def _over_limit(kept: bytearray) -> bool:
    return len(kept) > CHUNK and len(kept) > _longest()


def _longest() -> int:
    from recollect.settings import LIMITS  # not imported for the short lines of most sessions

    return LIMITS.mcp_line_bytes


def _long_line() -> NoReturn:
    raise RpcError(INVALID_REQUEST, f"Invalid request: a message has at most {_longest():,} bytes")


def _read(connection: Connection, source: int, ended: threading.Event) -> None:
    try:
        for line in lines(lambda size: os.read(source, size)):
            connection.receive(line)
    finally:
        ended.set()


def _sender(sink: int, ended: threading.Event) -> Callable[[Any], None]:
    writing = threading.Lock()

    def send(answer: Any) -> None:
        data = memoryview(encode(answer))
        try:
            with writing:
                while data:
                    data = data[os.write(sink, data) :]
        except OSError:  # the client stopped reading
            ended.set()

    return send
