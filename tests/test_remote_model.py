"""Vectors from a server: what is asked, what is believed, what is tried again, and where the key never goes."""

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
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from recollect.errors import InvalidInput, RecollectError
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
    """An embeddings server that keeps what it was asked. `next` holds answers to give instead of vectors."""

    address: str = ""
    base64: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    next: deque[tuple[int, dict[str, str], bytes]] = field(default_factory=deque)

    def say(self, status: int, body: Any = b"", **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.next.append(
            (status, {name.replace("_", "-"): value for name, value in headers.items()}, raw)
        )

    def answer(self, path: str, key: str | None, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(json.loads(body))
        self.paths.append(path)
        self.keys.append(key)
        if self.next:
            return self.next.popleft()
        data = [
            {"object": "embedding", "index": index, "embedding": self.encoded(vector_of(text))}
            for index, text in enumerate(self.asked[-1]["input"])
        ]
        listed = {
            "object": "list",
            "data": data[::-1],
            "model": self.asked[-1]["model"],
            "usage": {},
        }
        return 200, {}, json.dumps(listed).encode()

    def encoded(self, vector: list[float]) -> Any:
        return (
            base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            if self.base64
            else vector
        )


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


def refused(model: RemoteModel, *, query: bool = False) -> str:
    with pytest.raises(RecollectError) as caught:
        model.embed_query("q") if query else model.embed(["q"])
    return str(caught.value)


# -- asking ----------------------------------------------------------------


def test_every_text_gets_its_own_vector_of_unit_length_in_the_order_asked(server: StandIn) -> None:
    texts = ["one", "three", "b", "fifteen"]
    vectors = RemoteModel(server.address, "some-model").embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [unit(vector_of(text)) for text in texts], rtol=1e-6)
    assert server.asked == [{"model": "some-model", "input": texts, "encoding_format": "float"}]
    assert server.paths == ["/v1/embeddings"]


def test_a_question_is_one_vector(server: StandIn) -> None:
    np.testing.assert_allclose(
        RemoteModel(server.address, "m").embed_query("who?"), unit(vector_of("who?")), rtol=1e-6
    )


def test_vectors_in_base64_are_read_as_well(server: StandIn) -> None:
    server.base64 = True
    np.testing.assert_allclose(
        RemoteModel(server.address, "m").embed(["abc"])[0], unit(vector_of("abc")), rtol=1e-6
    )


def test_an_answer_without_indexes_is_in_order(server: StandIn) -> None:
    server.say(200, {"data": [{"embedding": [1, 0]}, {"embedding": [0, 2]}]})
    assert RemoteModel(server.address, "m").embed(["a", "b"]).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("tail", ["", "/", "/embeddings", "/embeddings/", "#some-model"])
def test_the_address_may_be_written_in_several_ways(server: StandIn, tail: str) -> None:
    RemoteModel(server.address + tail, "m").embed_query("q")
    assert server.paths == ["/v1/embeddings"]


def test_what_an_address_asks_for_after_a_question_mark_is_kept(server: StandIn) -> None:
    RemoteModel(f"{server.address}?api-version=2", "m").embed_query("q")
    assert server.paths == ["/v1/embeddings?api-version=2"]


def test_texts_go_in_batches_by_number_and_by_characters(server: StandIn) -> None:
    model = RemoteModel(server.address, "m")
    short = [f"{n} short" for n in range(remote.BATCH_TEXTS + 1)]
    np.testing.assert_allclose(
        model.embed(short), [unit(vector_of(text)) for text in short], rtol=1e-6
    )
    assert [len(asked["input"]) for asked in server.asked] == [remote.BATCH_TEXTS, 1]
    server.asked.clear()
    model.embed(["x" * remote.LONGEST_TEXT] * 30)
    assert sum(len(asked["input"]) for asked in server.asked) == 30
    assert all(sum(map(len, asked["input"])) <= remote.BATCH_CHARACTERS for asked in server.asked)


def test_a_text_that_is_too_long_is_cut(server: StandIn) -> None:
    RemoteModel(server.address, "m").embed(["x" * 1_000_000])
    assert server.asked[0]["input"] == ["x" * remote.LONGEST_TEXT]


def test_empty_texts_are_zero_and_never_sent(server: StandIn) -> None:
    vectors = RemoteModel(server.address, "m").embed(["", "abc", " \n\t"])
    assert server.asked[0]["input"] == ["abc"]
    assert not vectors[0].any() and not vectors[2].any() and vectors[1].any()
    assert RemoteModel(server.address, "m", dimensions=4).embed([]).shape == (0, 4)


def test_half_a_character_can_be_sent(server: StandIn) -> None:
    RemoteModel(server.address, "m").embed(["a\ud800b\0"])
    assert server.asked[0]["input"] == ["a\ufffdb\ufffd"]


def test_nothing_is_asked_before_it_is_needed(server: StandIn) -> None:
    assert RemoteModel(server.address, "m", dimensions=4).version == "m:4"
    assert not server.asked
    model = RemoteModel(server.address, "m")
    assert not server.asked
    assert (model.name, model.dimensions, model.version) == ("m", 4, "m:4")
    assert len(server.asked) == 1


# -- trying again ----------------------------------------------------------


def test_a_busy_server_is_asked_again_after_the_time_it_names(server: StandIn) -> None:
    waits: list[float] = []
    server.say(429, {"error": {"message": "slow down"}}, Retry_After="7")
    server.say(503)
    server.say(500)
    RemoteModel(server.address, "m", wait=waits.append).embed(["a"])
    assert waits == [7.0, 1.0, 2.0]
    assert len(server.asked) == 4


def test_a_time_to_come_back_may_be_a_date(server: StandIn) -> None:
    waits: list[float] = []
    server.say(
        429, Retry_After=format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    )
    server.say(429, Retry_After=format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True))
    server.say(429, Retry_After="when it suits you")
    RemoteModel(server.address, "m", wait=waits.append).embed(["a"])
    assert 0 < waits[0] <= 50
    assert waits[1:] == [0.0, 2.0]


def test_a_connection_that_breaks_is_tried_again(server: StandIn) -> None:
    waits: list[float] = []
    server.say(0)
    server.say(200, b"{", Content_Length="1000")
    assert RemoteModel(server.address, "m", wait=waits.append).embed(["a"]).any()
    assert waits == [0.5, 1.0]


def test_trying_again_has_an_end(server: StandIn) -> None:
    waits: list[float] = []
    for _ in range(10):
        server.say(500, {"error": "on fire"})
    said = refused(RemoteModel(server.address, "m", wait=waits.append))
    assert "(500): on fire" in said
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_a_server_that_wants_too_much_patience_gets_none(server: StandIn) -> None:
    waits: list[float] = []
    server.say(429, {"error": {"message": "quota used up"}}, Retry_After="3600")
    said = refused(RemoteModel(server.address, "m", wait=waits.append))
    assert "quota used up" in said and "3600 seconds" in said
    assert waits == []


def test_a_question_does_not_wait_for_long(server: StandIn) -> None:
    waits: list[float] = []
    for _ in range(remote.INTERACTIVE.tries):
        server.say(503)
    refused(RemoteModel(server.address, "m", wait=waits.append), query=True)
    assert waits == [0.5]
    server.say(429, Retry_After="30")
    refused(RemoteModel(server.address, "m", wait=waits.append), query=True)
    assert waits == [0.5]


def test_a_server_that_is_not_there_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    waits: list[float] = []
    said = refused(RemoteModel(f"http://127.0.0.1:{port}/v1", "m", wait=waits.append))
    assert f"127.0.0.1:{port}" in said and "RECOLLECT_EMBEDDINGS" in said
    assert len(waits) == remote.BACKGROUND.tries - 1


def test_a_server_that_says_nothing_is_not_waited_for_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        model = RemoteModel(address, "m", timeout=0.05, wait=lambda seconds: None)
        assert "timed out" in refused(model, query=True)


def test_settings_that_are_wrong_are_not_tried_again(server: StandIn) -> None:
    for status in (400, 401, 404, 422):
        server.asked.clear()
        server.say(status)
        refused(RemoteModel(server.address, "m", wait=lambda seconds: pytest.fail("waited")))
        assert len(server.asked) == 1


# -- saying what is wrong --------------------------------------------------


def test_a_refused_key_names_the_setting(server: StandIn) -> None:
    server.say(401, {"error": {"message": "Incorrect API key provided"}})
    said = refused(RemoteModel(server.address, "m", KEY))
    assert "the key in RECOLLECT_EMBEDDINGS_KEY (401): Incorrect API key provided" in said
    server.say(401)
    assert "without RECOLLECT_EMBEDDINGS_KEY" in refused(RemoteModel(server.address, "m"))


def test_an_unknown_model_or_address_names_the_setting(server: StandIn) -> None:
    server.say(404, {"error": {"message": 'model "m" not found, try pulling it first'}})
    with pytest.raises(InvalidInput, match=r"(?s)404.*RECOLLECT_EMBEDDINGS.*try pulling it first"):
        RemoteModel(server.address, "m").embed_query("q")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"error": {"message": "too many tokens", "type": "x"}}, "too many tokens"),
        ({"error": "too many tokens"}, "too many tokens"),
        ({"message": "too many tokens"}, "too many tokens"),
        ({"detail": [{"loc": ["input"]}]}, '"loc"'),
        (b"<h1>Bad\x1b[31m</h1>\n  gateway", "<h1>Bad\ufffd[31m</h1> gateway"),
        (b'{"a":' * 5_000, '{"a":{"a":'),
        (b"\xff\xfe", "\ufffd"),
        ([], "[]"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_servers_own_words_are_shown(server: StandIn, body: Any, shown: str) -> None:
    server.say(400, body)
    assert shown in refused(RemoteModel(server.address, "m"))


def test_the_servers_own_words_are_shown_only_so_far(server: StandIn) -> None:
    server.say(400, b"x" * 1_000_000)
    assert len(refused(RemoteModel(server.address, "m"))) < 500


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        {},
        {"data": None},
        {"data": []},
        {"data": ["a"]},
        {"data": [{"index": 0}]},
        {"data": [{"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": "0", "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": None}]},
        {"data": [{"index": 0, "embedding": 1.0}]},
        {"data": [{"index": 0, "embedding": [[1.0], [2.0]]}]},
        {"data": [{"index": 0, "embedding": ["a"]}]},
        {"data": [{"index": 0, "embedding": [10**400]}]},
        {"data": [{"index": 0, "embedding": [1.0, None]}]},
        {"data": [{"index": 0, "embedding": "no base64!"}]},
        {"data": [{"index": 0, "embedding": "AAA="}]},
        b'{"data": [{"index": 0, "embedding": [1.0, NaN]}]}',
    ],
    ids=lambda body: str(body)[:60],
)
def test_garbage_is_never_taken_for_vectors(server: StandIn, body: Any) -> None:
    server.say(200, body)
    assert "did not answer like an embeddings server" in refused(RemoteModel(server.address, "m"))


def test_an_error_inside_a_good_answer_is_shown(server: StandIn) -> None:
    server.say(200, {"error": {"message": "no such model"}})
    assert "no such model" in refused(RemoteModel(server.address, "m"))


def test_an_answer_without_end_is_cut_off(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RESPONSE_BYTES", 100)
    server.say(200, b" " * 101)
    assert "more than 100 bytes" in refused(RemoteModel(server.address, "m"))


def test_another_number_of_dimensions_is_refused(server: StandIn) -> None:
    model = RemoteModel(server.address, "m")
    model.embed(["a"])
    server.say(200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]})
    assert "2 dimensions where 4 were expected" in refused(model)
    assert "4 dimensions where 256 were expected" in refused(
        RemoteModel(server.address, "m", dimensions=256)
    )


def test_texts_of_one_batch_have_the_same_number_of_dimensions(server: StandIn) -> None:
    server.say(
        200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}, {"index": 1, "embedding": [1.0]}]}
    )
    with pytest.raises(RecollectError):
        RemoteModel(server.address, "m").embed(["a", "b"])


@pytest.mark.parametrize(
    "address", ["", "localhost:11434", "ftp://host/v1", "http://", "http://h:x/", "http://a b/v1"]
)
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(InvalidInput, match="RECOLLECT_EMBEDDINGS"):
        RemoteModel(address, "m")


# -- the key ---------------------------------------------------------------


def test_the_key_is_sent_as_a_bearer_and_only_if_there_is_one(server: StandIn) -> None:
    RemoteModel(server.address, "m", f" {KEY}\n").embed_query("q")
    RemoteModel(server.address, "m").embed_query("q")
    RemoteModel(server.address, "m", "").embed_query("q")
    assert server.keys == [f"Bearer {KEY}", None, None]


def test_the_key_is_never_shown(server: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model = RemoteModel(server.address, "m", KEY, wait=lambda seconds: None)
    echo = f"your key {KEY} is bad"
    for status in (302, 400, 401, 404, 429, 500):
        for _ in range(remote.BACKGROUND.tries):
            server.say(status, {"error": {"message": echo}}, Location=f"/{KEY}")
        with pytest.raises(RecollectError) as caught:
            model.embed(["q"])
        assert KEY not in "".join(traceback.format_exception(caught.value)), status
        server.next.clear()
    for body in (echo.encode(), {"error": echo}, {"data": [{"index": 0, "embedding": [KEY]}]}):
        server.say(200, body)
        with pytest.raises(RecollectError) as caught:
            model.embed(["q"])
        assert KEY not in "".join(traceback.format_exception(caught.value))
    # Where the cut falls inside it, no part of it is left over either.
    server.say(400, b"x" * (openai_client.ERROR_LENGTH - 10) + KEY.encode())
    assert KEY[:8] not in refused(model)
    assert KEY not in repr(model) and KEY not in caplog.text


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk one", "sk-schlüssel", "sk-\x7f"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidInput, match="RECOLLECT_EMBEDDINGS_KEY") as caught:
        RemoteModel("https://example.com/v1", "m", key)
    assert "sk" not in str(caught.value)


def test_the_key_does_not_follow_a_redirect(server: StandIn) -> None:
    for status in (301, 302, 303, 307, 308):
        server.say(
            status, Location=server.address.replace("127.0.0.1", "localhost") + "/embeddings"
        )
        said = refused(RemoteModel(server.address, "m", KEY))
        assert "not followed" in said and "localhost" in said
    assert len(server.asked) == 5


@pytest.mark.parametrize(
    "host", ["example.com", "192.168.1.2", "127.0.0.1.example.com", "0.0.0.0", "[::ffff:8.8.8.8]"]
)
def test_the_key_never_goes_over_an_open_line(host: str) -> None:
    with pytest.raises(InvalidInput, match="unencrypted"):
        RemoteModel(f"http://{host}/v1", "m", KEY)
    RemoteModel(f"http://{host}/v1", "m")
    RemoteModel(f"https://{host}/v1", "m", KEY)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "LOCALHOST:8080"])
def test_the_key_may_go_to_this_machine(host: str) -> None:
    RemoteModel(f"http://{host}/v1", "m", KEY)


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(InvalidInput, match="RECOLLECT_EMBEDDINGS_KEY") as caught:
        RemoteModel("https://me:hunter2@example.com/v1", "m")
    assert "hunter2" not in str(caught.value)


def test_a_proxy_of_the_machine_is_not_asked_for_a_server_on_it(
    server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert RemoteModel(server.address, "m").embed_query("q").any()
