"""Embedding servers: requests, retries, errors, and the handling of the API key."""

from __future__ import annotations

import base64
import json
import logging
import math
import socket
import struct
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from recollect.errors import IndexingStopped, InvalidInput, RecollectError
from recollect.models import openai_client, remote
from recollect.models.remote import RemoteModel

KEY = "sk-secret-0123456789abcdef"


def vector_of(text: str) -> list[float]:
    return [float(len(text)), float(ord(text[0])), 3.0, -1.0]


def unit(numbers: list[float]) -> list[float]:
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


@dataclass
class StandIn:
    """A fake embeddings server that records requests. `answers` are given instead of vectors."""

    address: str = ""
    base64: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    answers: deque[tuple[int, dict[str, str], bytes]] = field(default_factory=deque)

    def plan(self, status: int, body: Any = b"", **headers: str) -> None:
        """Plan the next answer. Status 0 closes the connection."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, fields, body))

    def answer(self, path: str, key: str | None, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(json.loads(body))
        self.paths.append(path)
        self.keys.append(key)
        if self.answers:
            return self.answers.popleft()
        data = [
            {"object": "embedding", "index": index, "embedding": self.encode(vector_of(text))}
            for index, text in enumerate(self.requests[-1]["input"])
        ]
        model = self.requests[-1]["model"]
        # The vectors are not in the order of the texts; their indexes say which is which.
        answer = {"object": "list", "data": data[::-1], "model": model, "usage": {}}
        return 200, {}, json.dumps(answer).encode()

    def encode(self, vector: list[float]) -> Any:
        if not self.base64:
            return vector
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


@pytest.fixture
def server() -> Iterator[StandIn]:
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers, answer = stand_in.answer(
                self.path, self.headers["Authorization"], body
            )
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        stand_in.address = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield stand_in
        http.shutdown()
        thread.join()


def error_of(model: RemoteModel, *, query: bool = False) -> str:
    """The message of the error when a text or a query is embedded."""
    with pytest.raises(RecollectError) as error:
        if query:
            model.embed_query("q")
        else:
            model.embed(["q"])
    return str(error.value)


# -- requests -----------------------------------------------------------------


def test_every_text_gets_a_unit_vector_in_order(server: StandIn) -> None:
    texts = ["one", "three", "b", "fifteen"]
    vectors = RemoteModel(server.address, "some-model").embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [unit(vector_of(text)) for text in texts], rtol=1e-6)
    assert server.requests == [{"model": "some-model", "input": texts, "encoding_format": "float"}]
    assert server.paths == ["/v1/embeddings"]


def test_vectors_in_base64_are_decoded(server: StandIn) -> None:
    server.base64 = True
    np.testing.assert_allclose(
        RemoteModel(server.address, "m").embed(["abc"])[0], unit(vector_of("abc")), rtol=1e-6
    )


def test_batches_are_limited_by_texts_and_by_characters(server: StandIn) -> None:
    model = RemoteModel(server.address, "m")
    short = [f"{n} short" for n in range(remote.BATCH_TEXTS + 1)]
    np.testing.assert_allclose(
        model.embed(short), [unit(vector_of(text)) for text in short], rtol=1e-6
    )
    assert [len(request["input"]) for request in server.requests] == [remote.BATCH_TEXTS, 1]
    server.requests.clear()
    model.embed(["x" * remote.LONGEST_TEXT] * 30)
    assert sum(len(request["input"]) for request in server.requests) == 30
    assert all(
        sum(map(len, request["input"])) <= remote.BATCH_CHARACTERS for request in server.requests
    )


# -- retries ------------------------------------------------------------------


def test_a_busy_server_is_retried_after_the_time_in_retry_after(server: StandIn) -> None:
    waits: list[float] = []
    server.plan(429, {"error": {"message": "slow down"}}, Retry_After="7")
    server.plan(503)
    server.plan(500)
    RemoteModel(server.address, "m", wait=lambda seconds, _: waits.append(seconds)).embed(["a"])
    assert waits == [7.0, 1.0, 2.0]
    assert len(server.requests) == 4


def test_a_broken_connection_is_retried(server: StandIn) -> None:
    waits: list[float] = []
    server.plan(0)
    server.plan(200, b"{", Content_Length="1000")
    assert (
        RemoteModel(server.address, "m", wait=lambda seconds, _: waits.append(seconds))
        .embed(["a"])
        .any()
    )
    assert waits == [0.5, 1.0]


def test_a_server_that_does_not_answer_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        model = RemoteModel(address, "m", timeout=0.05, wait=lambda *_: None)
        assert "timed out" in error_of(model, query=True)


# -- errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "too many tokens", "type": "x"}}, "too many tokens"),
        ({"error": "too many tokens"}, "too many tokens"),
        ({"message": "too many tokens"}, "too many tokens"),
        ({"detail": [{"loc": ["input"]}]}, '"loc"'),
        (b"<h1>Bad\x1b[31m</h1>\n  gateway", "<h1>Bad</h1> gateway"),
        (b'{"a":' * 5_000, '{"a":{"a":'),
        (b"\xff\xfe", "\ufffd"),
        ([], "[]"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_error_contains_the_message_of_the_server(
    server: StandIn, body: Any, expected: str
) -> None:
    server.plan(400, body)
    assert expected in error_of(RemoteModel(server.address, "m"))


def test_an_unexpected_number_of_dimensions_is_an_error(server: StandIn) -> None:
    model = RemoteModel(server.address, "m")
    model.embed(["a"])
    server.plan(200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]})
    assert "2 dimensions where 4 were expected" in error_of(model)
    assert "4 dimensions where 256 were expected" in error_of(
        RemoteModel(server.address, "m", dimensions=256)
    )


# -- the key ------------------------------------------------------------------


def test_the_key_never_appears_in_errors_or_logs(
    server: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = RemoteModel(server.address, "m", KEY, wait=lambda *_: None)
    echo = f"your key {KEY} is bad"
    for status in (302, 400, 401, 404, 429, 500):
        for _ in range(remote.BACKGROUND.tries):
            server.plan(status, {"error": {"message": echo}}, Location=f"/{KEY}")
        with pytest.raises(RecollectError) as error:
            model.embed(["q"])
        assert KEY not in "".join(traceback.format_exception(error.value)), status
        server.answers.clear()
    for body in (echo.encode(), {"error": echo}, {"data": [{"index": 0, "embedding": [KEY]}]}):
        server.plan(200, body)
        with pytest.raises(RecollectError) as error:
            model.embed(["q"])
        assert KEY not in "".join(traceback.format_exception(error.value))
    # If the message is truncated inside the key, no part of the key remains.
    server.plan(400, b"x" * (openai_client.ERROR_LENGTH - 10) + KEY.encode())
    assert KEY[:8] not in error_of(model)
    assert KEY not in repr(model) and KEY not in caplog.text


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk one", "sk-schlüssel", "sk-\x7f"])
def test_an_invalid_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidInput, match="RECOLLECT_EMBEDDINGS_KEY") as error:
        RemoteModel("https://example.com/v1", "m", key)
    assert "sk" not in str(error.value)


def test_the_key_does_not_follow_a_redirect(server: StandIn) -> None:
    for status in (301, 302, 303, 307, 308):
        server.plan(
            status, Location=server.address.replace("127.0.0.1", "localhost") + "/embeddings"
        )
        message = error_of(RemoteModel(server.address, "m", KEY))
        assert "not followed" in message and "localhost" in message
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    "host", ["example.com", "192.168.1.2", "127.0.0.1.example.com", "0.0.0.0", "[::ffff:8.8.8.8]"]
)
def test_the_key_is_never_sent_unencrypted(host: str) -> None:
    with pytest.raises(InvalidInput, match="unencrypted"):
        RemoteModel(f"http://{host}/v1", "m", KEY)
    RemoteModel(f"http://{host}/v1", "m")
    RemoteModel(f"https://{host}/v1", "m", KEY)


def test_a_program_that_ends_does_not_wait_for_an_answer(server: StandIn) -> None:
    has_asked, has_stopped = threading.Event(), threading.Event()
    answer = server.answer

    def wait(*arguments: Any) -> Any:
        has_asked.set()
        has_stopped.wait(10)
        return answer(*arguments)

    server.answer = wait  # type: ignore[method-assign]
    with pytest.raises(IndexingStopped):
        RemoteModel(server.address, "m").embed(["a"], has_asked.is_set)
    has_stopped.set()
