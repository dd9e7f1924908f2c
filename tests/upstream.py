"""A fake model server: it speaks the OpenAI protocol over a real socket.

Tests control every byte of a reply, and when each piece of it is sent.
"""

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
    """A reply of the server. The pieces of the body are sent one by one, each flushed."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    pieces: Sequence[bytes] = ()
    chunked: bool = False
    cut: bool = False
    """Drop the connection where the end of the body should be."""
    silent: bool = False
    """Close the connection without a reply."""
    gates: Sequence[threading.Event] = ()
    """Events to wait for before each piece. Pieces without one are sent at once."""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


@dataclass
class RecordedRequest:
    """A request as it arrived."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        for key, value in self.headers:
            if key.lower() == name.lower():
                return value
        return None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class StandIn:
    """The server: the requests it received and the replies it gives next.

    Without a planned reply, it answers every message.
    """

    address: str = ""
    requests: list[RecordedRequest] = field(default_factory=list)
    replies: deque[Reply] = field(default_factory=deque)
    request_arrived: threading.Event = field(default_factory=threading.Event)
    """Set when a request has arrived."""
    client_disconnected: threading.Event = field(default_factory=threading.Event)
    """Set when a client disconnects before the end of the reply."""
    counter: int = 0

    def reply(self, request: RecordedRequest) -> Reply:
        self.requests.append(request)
        self.request_arrived.set()
        if self.replies:
            return self.replies.popleft()
        if request.path.endswith("/models"):
            return plain({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if "/models/" in request.path:
            return plain({"id": request.path.rsplit("/models/")[-1], "object": "model"})
        if request.path.endswith("/embeddings"):
            return plain({"object": "list", "data": [{"index": 0, "embedding": [0.5, 0.25]}]})
        if request.path.endswith("/responses"):
            self.counter += 1
            text = f"Answer {self.counter}"
            reply = response(text_item(text), id=f"resp_{self.counter}")
            return response_stream(reply) if request.json.get("stream") else reply
        try:
            body = request.json
            question = text_of(body["messages"][-1])
        except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
            error = {"message": "This is no chat.", "type": "invalid_request_error"}
            return plain({"error": error}, 400)
        self.counter += 1
        text = f"Answer {self.counter} to {question}"
        if body.get("stream"):
            return stream(text)
        return completion(text)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "that"


# -- replies ------------------------------------------------------------------


def plain(content: Any, status: int = 200, **headers: str) -> Reply:
    body = json.dumps(content, indent=1, ensure_ascii=False).encode()
    all_headers = {"Content-Type": "application/json", "x-request-id": "req_upstream"}
    for name, value in headers.items():
        all_headers[name.replace("_", "-")] = value
    return Reply(status, all_headers, [body])


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


def text_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def call_item(name: str, arguments: str, id: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{id}",
        "call_id": id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def response(*items: dict[str, Any], id: str = "resp_1") -> Reply:
    """An answer of the Responses API."""
    return plain(
        {
            "id": id,
            "object": "response",
            "created_at": 1_700_000_000,
            "model": MODEL,
            "status": "completed",
            "output": list(items),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )


def response_stream(whole: Reply, **more: Any) -> Reply:
    """The same answer as events, the text in pieces of four characters."""
    answer = json.loads(whole.body)
    unfinished = {**answer, "status": "in_progress", "output": []}
    steps: list[dict[str, Any]] = [{"type": "response.created", "response": unfinished}]
    for index, item in enumerate(answer["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        start = {**item, "content": []} if "content" in item else item
        steps.append({"type": "response.output_item.added", "item": start, **place})
        for part in item.get("content", ()):
            empty = {**part, "text": ""}
            place["content_index"] = 0
            steps.append({"type": "response.content_part.added", "part": empty, **place})
            for n in range(0, len(part["text"]), 4):
                delta = part["text"][n : n + 4]
                step = {"type": "response.output_text.delta", "delta": delta, "logprobs": []}
                steps.append({**step, **place})
        steps.append({"type": "response.output_item.done", "item": item, **place})
    steps.append({"type": "response.completed", "response": answer})
    pieces = [
        f"event: {step['type']}\ndata: {json.dumps({**step, 'sequence_number': n})}\n\n".encode()
        for n, step in enumerate(steps)
    ]
    return event_stream(b"", pieces, **more)


def events(
    *deltas: dict[str, Any] | list[dict[str, Any]], finish: str = "stop", done: bool = True
) -> bytes:
    """The body of a stream.

    A delta is for the first choice; a list has one delta for each choice.
    """
    chunks = []
    choices = 1
    for delta in deltas:
        parts = delta if isinstance(delta, list) else [delta]
        choices = max(choices, len(parts))
        for index, part in enumerate(parts):
            choice = {"index": index, "delta": part, "finish_reason": None}
            chunks.append(_event({"choices": [choice]}))
    for index in range(choices):
        end = {"index": index, "delta": {}, "finish_reason": finish}
        chunks.append(_event({"choices": [end]}))
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    chunks.append(_event({"choices": [], "usage": usage}))
    if done:
        chunks.append(b"data: [DONE]\n\n")
    return b"".join(chunks)


def _event(chunk: dict[str, Any]) -> bytes:
    data = {
        "id": "chatcmpl-2",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
        **chunk,
    }
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def event_stream(body: bytes, pieces: Sequence[bytes] | None = None, **more: Any) -> Reply:
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "x-request-id": "req_upstream"}
    if pieces is None:
        pieces = [body]
    return Reply(200, headers, pieces, chunked=True, **more)


def stream(text: str, **more: Any) -> Reply:
    """A text in deltas of four characters, each sent separately."""
    deltas = [
        {"role": "assistant", "content": ""},
        *({"content": text[n : n + 4]} for n in range(0, len(text), 4)),
    ]
    body = events(*deltas)
    return event_stream(body, [piece + b"\n\n" for piece in body.split(b"\n\n") if piece], **more)


def compress(reply: Reply, size: int = 7) -> Reply:
    """The same reply compressed, in pieces of a few bytes."""
    data = gzip.compress(reply.body, mtime=0)
    reply.pieces = [data[n : n + size] for n in range(0, len(data), size)]
    reply.headers = {**reply.headers, "Content-Encoding": "gzip"}
    return reply


# -- the socket ---------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # A client that disconnects is not an error here.


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def answer(self) -> None:
        stand_in = self.server.stand_in
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = list(self.headers.items())
        request = RecordedRequest(self.command, self.path, headers, body)
        reply = stand_in.reply(request)
        if reply.silent:
            self.hang_up()
            return
        try:
            self.send_reply(reply)
        except OSError:
            stand_in.client_disconnected.set()
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def send_reply(self, reply: Reply) -> None:
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
                if reply.chunked:
                    piece = b"%x\r\n%b\r\n" % (len(piece), piece)
                self.wfile.write(piece)
                self.wfile.flush()
        if reply.cut:
            self.hang_up()
        elif reply.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def wait(self, gate: threading.Event) -> None:
        """Wait for the event, and raise an error if the client disconnects."""
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
