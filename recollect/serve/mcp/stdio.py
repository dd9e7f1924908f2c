"""MCP over standard input and output: one JSON message per line.

Every agent session starts this process, so starting must be cheap: nothing but the protocol is
imported before the first tool call. One thread reads and answers quick requests. Tool calls run in
a few worker threads, so that they can be cancelled and block nothing else. The main thread waits
for the end: end of input, a signal, or a client that stopped reading.

Only answers are written to standard output. Everything else that prints, such as the log, goes to
standard error.
"""

from __future__ import annotations

import os
import sys
import threading

from recollect.serve.mcp.catalog import NAMES, Catalog
from recollect.serve.mcp.context import Context, LocalLibrary, Notify
from recollect.serve.mcp.protocol import (
    INVALID_REQUEST,
    TOO_BUSY,
    Dispatcher,
    RpcError,
    decode,
    encode,
    error_response,
    is_id,
    is_slow,
    notification,
    params_of,
)
from recollect.serve.mcp.toolsets import PROFILES, TOOLSETS
from recollect.stop_signal import StopSignal

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator
    from typing import Any

WORKERS = 12  # more than the msg_wait calls one user may have at once (see the bus handlers)
MAX_CALLS = 64
DRAIN_SECONDS = 3.0
CHUNK_BYTES = 65_536

EXAMPLES = """\
examples:
  claude mcp add recollect -- recollect mcp
  recollect mcp --profile research
  recollect mcp --toolsets conversations,bus --read-only
  recollect mcp --rename conversation_search=history_search
  CONVERSATION_DB=~/canonical-export.db recollect mcp
"""

# -- the command ---


def parse_list(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


OPTIONS: dict[str, dict[str, Any]] = {
    "--home": {"metavar": "PATH", "help": "where the libraries are: a folder, or postgresql://…"},
    "--user": {"metavar": "NAME", "help": "whose library to serve"},
    "--profile": {
        "choices": [*PROFILES],
        "default": "default",
        "help": "which tools to offer (default: default)",
    },
    "--toolsets": {
        "metavar": "A,B",
        "type": parse_list,
        "help": f"only these toolsets: {', '.join(TOOLSETS)}, default, all",
    },
    "--tools": {
        "metavar": "A,B",
        "type": parse_list,
        "help": "only these tools, or these in addition to --toolsets",
    },
    "--read-only": {"action": "store_true", "default": False, "help": "no tools that write"},
    "--names": {
        "choices": NAMES,
        "default": NAMES[0],
        "help": "how tool names are spelled (default: underscore)",
    },
    "--tool-prefix": {
        "metavar": "PREFIX",
        "default": "",
        "help": "put PREFIX before every tool name",
    },
    "--rename": {
        "metavar": "TOOL=NAME",
        "action": "append",
        "default": [],
        "help": "list a tool under another name; may be repeated",
    },
}
"""The options as argparse takes them. `parse_quickly` uses the same table."""


def main(argv: list[str]) -> int:
    """`recollect mcp`: serve until the client leaves."""
    options = parse_quickly(argv)
    if options is None:
        options = vars(_parser().parse_args(argv))
    if any("=" not in pair for pair in options["rename"]):
        _parser().error("--rename takes TOOL=NAME, for example conversation_search=history_search")
    options["rename"] = dict(pair.split("=", 1) for pair in options["rename"])
    local = LocalLibrary(options.pop("home"), options.pop("user"))
    try:
        catalog = Catalog(**options)
    except ValueError as error:
        sys.stderr.write(f"recollect mcp: {error}\n")
        return 2
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(
            "Waiting for an MCP client on standard input. "
            "`recollect mcp --help` shows how to add one.\n"
        )
    sys.stdout = sys.stderr
    if not serve(catalog, local):
        os._exit(0)  # a search that nobody waits for must not keep the process alive
    local.close()
    return 0


def parse_quickly(argv: list[str]) -> dict[str, Any] | None:
    """Parse the options like argparse, without loading it (see "MCP" in bench/README.md).

    Returns None if argparse must decide: for help, errors, and values that look like options.
    """
    names = {flag: flag[2:].replace("-", "_") for flag in OPTIONS}
    values: dict[str, Any] = {names[flag]: o.get("default") for flag, o in OPTIONS.items()}
    words = iter(argv)
    for word in words:
        flag, equals, text = word.partition("=")
        if flag not in OPTIONS:
            return None
        option, name = OPTIONS[flag], names[flag]
        if option.get("action") == "store_true":
            if equals:
                return None
            values[name] = True
            continue
        if not equals:
            text = next(words, "-")
        value = option.get("type", str)(text)
        if text.startswith("-") or value not in option.get("choices", [value]):
            return None
        if option.get("action") == "append":
            value = [*values[name], value]
        values[name] = value
    return values


def _parser() -> ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="recollect mcp",
        description="Serve the library to an AI agent over MCP, on standard input and output.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for flag, option in OPTIONS.items():
        parser.add_argument(flag, **option)
    return parser


# -- the connection ---


def serve(catalog: Catalog, local: LocalLibrary, source: int = 0, sink: int = 1) -> bool:
    """Answer until the client leaves. Returns whether no call is still running."""
    ended = StopSignal()
    dispatcher = Dispatcher(catalog)
    lock = threading.Lock()

    def send(message: Any) -> None:
        data = memoryview(encode(message))
        try:
            with lock:
                while data:
                    data = data[os.write(sink, data) :]
        except OSError:  # the client stopped reading
            ended.set()

    def make_context(notify: Notify) -> Context:
        import logging  # nothing is logged before the first call, and many sessions make none

        form = "%(levelname)s %(name)s: %(message)s"
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)
        return local.context(dispatcher.config, notify=notify)

    connection = Connection(dispatcher, send, make_context)

    def read() -> None:
        try:
            for line in read_lines(lambda size: os.read(source, size)):
                connection.receive(line)
        finally:
            ended.set()

    threading.Thread(target=read, daemon=True).start()
    ended.wait()
    return connection.drain(DRAIN_SECONDS)


class Connection:
    """One client: lines go into `receive`, answers out through `send`. Each call has its own
    context."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        send: Callable[[Any], None],
        make_context: Callable[[Notify], Context],
    ) -> None:
        self._dispatcher = dispatcher
        self._send = send
        self._make_context = make_context
        self._calls: dict[Any, _Call] = {}  # accepted, and neither answered nor cancelled
        self._queue: list[_Call] = []
        self._running = 0
        self._idle = 0
        self._workers = 0
        self._changed = threading.Condition()

    def receive(self, line: bytes | None) -> None:
        """Handle a line; None stands for one that was too long."""
        try:
            if line is None:
                raise RpcError(
                    INVALID_REQUEST,
                    f"Invalid request: a message may have at most {max_line_bytes():,} bytes",
                )
            message = decode(line)
            if is_slow(message):
                self._start(_Call(message))
            elif isinstance(message, dict) and message.get("method") == "notifications/cancelled":
                self._cancel(params_of(message).get("requestId"))
            else:
                answer = self._dispatcher.handle(message)
                if answer is not None:
                    self._send(answer)
        except RpcError as error:
            self._send(error_response(error.request_id, error))

    def drain(self, seconds: float) -> bool:
        """Wait until every call is answered or cancelled. Returns whether no worker is busy."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, seconds)
            return not self._running

    def _start(self, call: _Call) -> None:
        with self._changed:
            if len(self._calls) >= MAX_CALLS:
                problem = "Too many concurrent calls: wait for an answer first"
                raise RpcError(TOO_BUSY, problem, request_id=call.id)
            if call.id in self._calls:
                problem = "Invalid request: this 'id' is in use"
                raise RpcError(INVALID_REQUEST, problem, request_id=call.id)
            self._calls[call.id] = call
            self._queue.append(call)
            if self._idle < len(self._queue) and self._workers < WORKERS:
                self._workers += 1
                threading.Thread(target=self._work, daemon=True).start()
            self._changed.notify_all()

    def _cancel(self, request_id: Any) -> None:
        if is_id(request_id):
            with self._changed:
                call = self._calls.pop(request_id, None)
                if call is not None and call.context is not None:
                    call.context.cancel()
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: bool(self._queue))
                self._idle -= 1
                call = self._queue.pop(0)
                if not self._is_pending(call):  # it was cancelled
                    continue
                self._running += 1
                call.context = self._make_context(self._notifier(call))
            answer = self._dispatcher.handle(call.message, call.context)
            if answer is not None and self._is_pending(call):
                self._send(answer)
            with self._changed:
                self._running -= 1
                if self._is_pending(call):
                    del self._calls[call.id]
                self._changed.notify_all()

    def _notifier(self, call: _Call) -> Notify:
        def notify(method: str, params: dict[str, Any]) -> None:
            if self._is_pending(call):
                self._send(notification(method, params))

        return notify

    def _is_pending(self, call: _Call) -> bool:
        return self._calls.get(call.id) is call


class _Call:
    """A message for a worker."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.id = message["id"]
        self.context: Context | None = None


# -- lines ---


def read_lines(read: Callable[[int], bytes]) -> Iterator[bytes | None]:
    """The lines of a stream without line breaks; None in place of a line that is too long."""
    line = bytearray()
    is_too_long = False
    while True:
        chunk = read(CHUNK_BYTES)
        if not chunk:
            break
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line += end
            if is_too_long or exceeds_limit(line):
                yield None
            elif line.strip():
                yield bytes(line)
            line.clear()
            is_too_long = False
        line += rest
        if exceeds_limit(line):
            line.clear()
            is_too_long = True
    if is_too_long:
        yield None
    elif line.strip():
        yield bytes(line)


def exceeds_limit(line: bytearray) -> bool:
    return len(line) > CHUNK_BYTES and len(line) > max_line_bytes()


def max_line_bytes() -> int:
    from recollect.settings import LIMITS  # not needed for the short lines of most sessions

    return LIMITS.mcp_line_bytes
