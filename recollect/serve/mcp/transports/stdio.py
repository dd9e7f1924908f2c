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

import os
import signal
import sys
import threading
from functools import cached_property

from recollect.serve.mcp.catalog import NAMES, Catalog
from recollect.serve.mcp.context import Context, LocalLibrary, Notify
from recollect.serve.mcp.definitions import PROFILES, TOOLSETS
from recollect.serve.mcp.protocol import (
    INVALID_REQUEST,
    TAKE_LONG,
    TOO_BUSY,
    Dispatcher,
    RpcError,
    decode,
    encode,
    failure,
    is_id,
    notification,
)

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator
    from queue import SimpleQueue
    from typing import Any, NoReturn

WORKERS = 12  # more than the calls of one user that may wait for a message (see `bus`)
MOST_CALLS = 64
DRAIN_SECONDS = 3.0
CHUNK = 65_536

EXAMPLES = """\
examples:
  claude mcp add recollect -- recollect mcp
  recollect mcp --profile research
  recollect mcp --toolsets conversations,bus --read-only
  recollect mcp --rename conversation_search=history_search
  CONVERSATION_DB=~/canonical-export.db recollect mcp
"""

# -- the command -----------------------------------------------------------


def _words(value: str) -> list[str]:
    return [word for part in value.split(",") if (word := part.strip())]


OPTIONS: dict[str, dict[str, Any]] = {
    "--home": {"metavar": "PATH", "help": "where the libraries are: a folder, or postgresql://…"},
    "--user": {"metavar": "NAME", "help": "whose library to serve"},
    "--profile": {
        "choices": [*PROFILES],
        "default": "default",
        "help": "which tools are offered (default: default)",
    },
    "--toolsets": {
        "metavar": "A,B",
        "type": _words,
        "help": f"only these: {', '.join(TOOLSETS)}, default, all",
    },
    "--tools": {
        "metavar": "A,B",
        "type": _words,
        "help": "only these tools, or these besides the toolsets",
    },
    "--read-only": {"action": "store_true", "default": False, "help": "no tool that writes"},
    "--names": {
        "choices": NAMES,
        "default": NAMES[0],
        "help": "how names are listed (default: underscore)",
    },
    "--tool-prefix": {
        "dest": "prefix",
        "metavar": "PREFIX",
        "default": "",
        "help": "put PREFIX before every tool's name",
    },
    "--rename": {
        "metavar": "TOOL=NAME",
        "action": "append",
        "default": [],
        "help": "list a tool by another name",
    },
}
"""What argparse is told of each option. `quickly_read` goes by the same table, and knows of it what is used here."""


def main(argv: list[str]) -> int:
    """`recollect mcp`: serve until the client leaves."""
    options = quickly_read(argv)
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
            "Waiting for an MCP client on standard input; `recollect mcp --help` shows how to add one.\n"
        )
    sys.stdout = sys.stderr
    if not serve(catalog, local):
        os._exit(0)  # a search that nobody waits for must not keep the process
    catalog.close()
    local.close()
    return 0


def quickly_read(argv: list[str]) -> dict[str, Any] | None:
    """What argparse makes of a command line, without the time that it takes to load; None where it must judge itself:
    where help is wanted, something is wrong, or a value looks like an option."""
    names = {flag: how.get("dest") or flag[2:].replace("-", "_") for flag, how in OPTIONS.items()}
    given: dict[str, Any] = {names[flag]: how.get("default") for flag, how in OPTIONS.items()}
    words = iter(argv)
    for word in words:
        flag, equals, value = word.partition("=")
        how = OPTIONS.get(flag)
        if how is None:
            return None
        name, action = names[flag], how.get("action")
        if action == "store_true":
            if equals:
                return None
            given[name] = True
            continue
        if not equals:
            value = next(words, "-")
        if value.startswith("-"):
            return None
        read = how["type"](value) if "type" in how else value
        if "choices" in how and read not in how["choices"]:
            return None
        given[name] = [*given[name], read] if action == "append" else read
    return given


def _parser() -> ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="recollect mcp",
        description="Serve the library to an AI agent over MCP, on standard input and output.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for flag, how in OPTIONS.items():
        parser.add_argument(flag, **how)
    return parser


def serve(catalog: Catalog, local: LocalLibrary, source: int = 0, sink: int = 1) -> bool:
    """Answer until the client leaves; whether no call was left running."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())

    dispatcher = Dispatcher(catalog)

    def context(notify: Notify) -> Context:
        _log_to_standard_error()
        return local.context(dispatcher.config, notify=notify)

    connection = Connection(dispatcher, _sender(sink, ended), context)
    threading.Thread(target=_read, args=(connection, source, ended), daemon=True).start()
    ended.wait()
    return connection.drain(DRAIN_SECONDS)


def _log_to_standard_error() -> None:
    """Once there is a call: nothing is logged before, and a session may end without one."""
    import logging

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )


# -- the connection --------------------------------------------------------


class Connection:
    """One client: its lines go into `receive`, its answers out through `send`. Each call has a context of its own."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        send: Callable[[Any], None],
        context: Callable[[Notify], Context],
    ) -> None:
        self._dispatcher = dispatcher
        self._send = send
        self._context = context
        self._calls: dict[Any, _Call] = {}  # accepted, and neither answered nor cancelled
        self._running = 0
        self._taken = 0  # queued or running, cancelled or not
        self._workers = 0
        self._changed = threading.Condition()

    @cached_property
    def _waiting(self) -> SimpleQueue[_Call]:
        from queue import SimpleQueue  # not imported for a session without calls

        return SimpleQueue()

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
                raise RpcError(
                    TOO_BUSY, "Too many calls at once: wait for an answer first", request_id=call.id
                )
            if call.key in self._calls:
                raise RpcError(
                    INVALID_REQUEST, "Invalid request: this 'id' is in use", request_id=call.id
                )
            self._calls[call.key] = call
            self._taken += 1
            lacking = self._workers < min(WORKERS, self._taken)
            self._workers += lacking
        self._waiting.put(call)
        if lacking:
            threading.Thread(target=self._work, daemon=True).start()

    def _cancel(self, params: Any) -> None:
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if is_id(request_id):
            with self._changed:
                if (call := self._calls.pop(request_id, None)) is not None:
                    call.cancel()
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            call = self._waiting.get()
            context = call.context = self._context(
                lambda *about, call=call: self._notify(call, *about)
            )
            with self._changed:
                if not self._is_wanted(call):
                    self._taken -= 1
                    continue
                self._running += 1
            answer = self._dispatcher.handle(call.message, context)
            if answer is not None and self._is_wanted(call):
                self._send(answer)
            with self._changed:
                self._running -= 1
                self._taken -= 1
                if self._is_wanted(call):
                    del self._calls[call.key]
                self._changed.notify_all()

    def _notify(self, call: _Call, method: str, params: dict[str, Any]) -> None:
        if self._is_wanted(call):
            self._send(notification(method, params))

    def _is_wanted(self, call: _Call) -> bool:
        return self._calls.get(call.key) is call


class _Call:
    """A message for a worker. Its key is its id; a batch, which has none, is its own key."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.id = message["id"] if isinstance(message, dict) else None
        self.key = self if self.id is None else self.id
        self.context: Context | None = None

    def cancel(self) -> None:
        if self.context is not None:
            self.context.cancel()


def _takes_long(message: Any) -> bool:
    if isinstance(message, dict):
        return message.get("method") in TAKE_LONG and is_id(message.get("id"))
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
