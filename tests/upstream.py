"""A model's server for the tests: it speaks OpenAI's protocol over a socket, byte by byte as it is told."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "stand-in-1"


@dataclass
class Reply:
    """What to answer with. The pieces of a body are sent one by one, each flushed."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    pieces: Sequence[bytes] = ()
    chunked: bool = False
    cut: bool = False
    """Break the connection off where the end of the body should be."""
    silent: bool = False
    """Close the connection without a word."""
    gates: Sequence[threading.Event] = ()
    """What to wait for before each piece; nothing where there are fewer."""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class StandIn:
    """The server: what it was asked, and what it answers next; without that, it answers every message."""

    address: str = ""
    seen: list[Seen] = field(default_factory=list)
    next: deque[Reply] = field(default_factory=deque)
    asked: threading.Event = field(default_factory=threading.Event)
    """Set when a request has come."""
    hung_up: threading.Event = field(default_factory=threading.Event)
    """Set when whoever asked went away before the answer was over."""
    counter: int = 0

    def reply(self, request: Seen) -> Reply:
        self.seen.append(request)
        self.asked.set()
        if self.next:
            return self.next.popleft()
        if request.path.endswith("/models"):
            return plain({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if "/models/" in request.path:
            return plain({"id": request.path.rsplit("/models/")[-1], "object": "model"})
        if request.path.endswith("/embeddings"):
            return plain({"object": "list", "data": [{"index": 0, "embedding": [0.5, 0.25]}]})
        try:
            asked = request.json
            question = said(asked["messages"][-1])
        except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
            return plain(
                {"error": {"message": "This is no chat.", "type": "invalid_request_error"}}, 400
            )
        self.counter += 1
        text = f"Answer {self.counter} to {question}"
        return stream(text) if asked.get("stream") else completion(text)


def said(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "that"


# -- replies -------------------------------------------------------------------


def plain(value: Any, status: int = 200, **headers: str) -> Reply:
    body = json.dumps(value, indent=1, ensure_ascii=False).encode()
    more = {name.replace("_", "-"): said for name, said in headers.items()}
    return Reply(
        status, {"Content-Type": "application/json", "x-request-id": "req_upstream", **more}, [body]
    )


def completion(*texts: str, **message: Any) -> Reply:
    """One choice for each text."""
    return plain(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [
                {
                    "index": n,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text, **message},
                }
                for n, text in enumerate(texts)
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
        }
    )


def events(
    *deltas: dict[str, Any] | list[dict[str, Any]], finish: str = "stop", done: bool = True
) -> bytes:
    """The body of a stream: each delta is one for the first choice, or a list with one for each choice."""
    found = []
    choices = 1
    for delta in deltas:
        each = delta if isinstance(delta, list) else [delta]
        choices = max(choices, len(each))
        for index, part in enumerate(each):
            found.append(
                _event({"choices": [{"index": index, "delta": part, "finish_reason": None}]})
            )
    ends = [{"index": index, "delta": {}, "finish_reason": finish} for index in range(choices)]
    found += [_event({"choices": [end]}) for end in ends]
    found.append(
        _event(
            {
                "choices": [],
                "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
            }
        )
    )
    return b"".join([*found, b"data: [DONE]\n\n" if done else b""])


def _event(chunk: dict[str, Any]) -> bytes:
    told = {
        "id": "chatcmpl-2",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
        **chunk,
    }
    return b"data: " + json.dumps(told, ensure_ascii=False).encode() + b"\n\n"


def streamed(body: bytes, pieces: Sequence[bytes] | None = None, **more: Any) -> Reply:
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "x-request-id": "req_upstream"}
    return Reply(200, headers, pieces if pieces is not None else [body], chunked=True, **more)


def stream(text: str, **more: Any) -> Reply:
    """A text in deltas of a few characters, each sent by itself."""
    deltas = [
        {"role": "assistant", "content": ""},
        *({"content": text[n : n + 4]} for n in range(0, len(text), 4)),
    ]
    body = events(*deltas)
    return streamed(body, [piece + b"\n\n" for piece in body.split(b"\n\n") if piece], **more)


def compressed(reply: Reply, size: int = 7) -> Reply:
    """The same, packed, in pieces that end anywhere."""
    packed = gzip.compress(reply.body, mtime=0)
    reply.pieces = [packed[n : n + size] for n in range(0, len(packed), size)]
    reply.headers = {**reply.headers, "Content-Encoding": "gzip"}
    return reply


# -- the socket ----------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that goes away is no error here


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def answer(self) -> None:
        stand_in = self.server.stand_in
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = stand_in.reply(Seen(self.command, self.path, list(self.headers.items()), body))
        if reply.silent:
            self.hang_up()
            return
        try:
            self.give(reply)
        except OSError:
            stand_in.hung_up.set()
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def give(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(reply.body) + 10 * reply.cut))
        self.end_headers()
        for number, piece in enumerate(reply.pieces):
            if number < len(reply.gates):
                self.wait(reply.gates[number])
            if piece:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if reply.chunked else piece)
                self.wfile.flush()
        if reply.cut:
            self.hang_up()
        elif reply.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def wait(self, gate: threading.Event) -> None:
        """Wait, and notice when whoever asked goes away."""
        self.connection.settimeout(0.01)
        try:
            while not gate.is_set():
                try:
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        raise ConnectionResetError
                except TimeoutError:
                    continue
        finally:
            self.connection.settimeout(None)

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running() -> Iterator[StandIn]:
    stand_in = StandIn()
    with _Server(stand_in) as http:
        stand_in.address = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield stand_in
        finally:
            http.shutdown()
            thread.join()
