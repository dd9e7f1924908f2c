"""A model behind `/v1`: its answers come through without a changed byte, and are kept."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from asgi import MakeKey
from upstream import (
    MODEL,
    Reply,
    StandIn,
    completion,
    compressed,
    events,
    plain,
    running,
    stream,
    streamed,
)

from recollect.library import Library
from recollect.model.documents import Document
from recollect.serve.http.service import Service
from recollect.serve.server import _Server
from recollect.settings import default_user
from recollect.settings import place as placed

CHAT = "/v1/chat/completions"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
OPERATORS_KEY = "sk-operator-0123456789"
CLIENTS_KEY = "sk-client-9876543210"


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with running() as stand_in:
        monkeypatch.setenv("RECOLLECT_MODEL", f"{stand_in.address}#{MODEL}")
        monkeypatch.delenv("RECOLLECT_MODEL_KEY", raising=False)
        yield stand_in


@contextmanager
def serving(service: Service) -> Iterator[str]:
    """The service behind a real socket; gives its address."""
    listening = threading.Event()
    server = _Server(service, listening.set)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert listening.wait(30)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def address(service: Service, upstream: StandIn) -> Iterator[str]:
    with serving(service) as found:
        yield found


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as made:
        yield made


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=CLIENTS_KEY, max_retries=0) as made:
        yield made


@contextmanager
def library_of(service: Service, user: str | None = None) -> Iterator[Library]:
    with service.libraries.borrow(user or default_user()) as library:
        yield library


def kept(service: Service, user: str | None = None) -> list[Document]:
    """Every conversation that was kept, oldest first."""
    with library_of(service, user) as library:
        return list(library.documents())


def only(service: Service, user: str | None = None) -> Document:
    (document,) = kept(service, user)
    return document


def told(document: Document) -> list[tuple[str | None, str]]:
    return [(p.role, p.content) for p in document.passages]


def canonical(document: Document) -> list[str]:
    return [p.content for p in document.passages if p.canonical]


def user_says(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def raw(http: httpx.Client, body: Any, **headers: str) -> tuple[int, httpx.Headers, list[bytes]]:
    """The bytes of an answer as they come from the socket."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    with http.stream(
        "POST", CHAT, content=sent, headers={"Content-Type": "application/json", **headers}
    ) as answer:
        return answer.status_code, answer.headers, list(answer.iter_raw())


# -- not a byte is changed -------------------------------------------------------


ODD = '{ "id" :"x",\n"choices":[ {"message":{"role":"assistant","content":"\\u00e9 é \\ud83d"}} ]}\r\n '.encode()

PLAIN: dict[str, Callable[[], Reply]] = {
    "plain": lambda: completion("Grüße 👋"),
    "packed": lambda: compressed(completion("Grüße 👋" * 100)),
    "stream": lambda: stream("Grüße 👋 an alle"),
    "packed stream": lambda: compressed(stream("Grüße 👋 an alle"), 3),
    "odd JSON": lambda: Reply(200, {"Content-Type": "application/json"}, [ODD[:9], ODD[9:]]),
    "no JSON": lambda: Reply(200, {"Content-Type": "application/json"}, [b"\xff\xfe\0 not json"]),
    "stream cut anywhere": lambda: streamed(b"", [bytes([b]) for b in events({"content": "é 👋"})]),
    "stream of nonsense": lambda: streamed(b": ping\n\ndata: {\n\n\xff\ndata: [DONE]\n\n"),
    "empty": lambda: Reply(200, {"Content-Type": "application/json"}, []),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_an_answer_comes_through_byte_for_byte(
    http: httpx.Client, upstream: StandIn, service: Service, kind: str
) -> None:
    reply = PLAIN[kind]()
    upstream.next.append(reply)
    status, headers, pieces = raw(http, HELLO, **{"Accept-Encoding": "gzip, deflate, br"})
    assert (status, b"".join(pieces)) == (200, reply.body)
    for name, value in reply.headers.items():
        assert headers[name] == value
    assert ("content-length" in headers) == (not reply.chunked)
    assert told(only(service))[0] == ("user", "Hello")


def test_a_request_goes_through_byte_for_byte(http: httpx.Client, upstream: StandIn) -> None:
    body = b'{"messages" : [{"content":"Hello","role":"user"}],\n "model":"m", "seed":1e2, "unknown":[1.0,{}]} '
    raw(
        http,
        body,
        **{"X-Custom": "yes", "OpenAI-Organization": "org-1", "User-Agent": "somebody/1"},
    )
    (seen,) = upstream.seen
    assert (seen.method, seen.path, seen.body) == ("POST", CHAT, body)
    assert seen.header("Content-Type") == "application/json"
    assert seen.header("OpenAI-Organization") == "org-1"
    assert seen.header("X-Custom") == "yes"
    assert seen.header("User-Agent") == "somebody/1"
    assert [name for name, _ in seen.headers if name.lower() == "host"] == ["Host"]
    assert seen.header("Host") in upstream.address


def test_pieces_of_a_stream_are_passed_on_as_they_come(
    http: httpx.Client, upstream: StandIn
) -> None:
    reply = stream("Once upon a time")
    gates = [threading.Event() for _ in reply.pieces]
    reply.gates = gates
    upstream.next.append(reply)
    gates[0].set()
    with http.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer:
        for number, piece in enumerate(answer.iter_raw()):
            assert piece == reply.pieces[number]  # the next one has not even been sent
            if number + 1 < len(gates):
                gates[number + 1].set()
    assert number + 1 == len(reply.pieces)


def test_headers_of_the_answer_come_through_but_for_those_of_a_connection_or_a_site(
    http: httpx.Client, upstream: StandIn
) -> None:
    upstream.next.append(
        plain(
            {"choices": []},
            openai_processing_ms="12",
            x_ratelimit_remaining_requests="9",
            retry_after="3",
            Set_Cookie="a=b",
            Access_Control_Allow_Origin="*",
            Content_Security_Policy="default-src *",
            Alt_Svc="h3",
            Keep_Alive="timeout=5",
            Connection="X-Hop, keep-alive",
            X_Hop="1",
            Strict_Transport_Security="max-age=1",
        )
    )
    _, headers, _ = raw(http, HELLO)
    assert headers["openai-processing-ms"] == "12"
    assert headers["x-ratelimit-remaining-requests"] == "9"
    assert headers["retry-after"] == "3"
    assert headers["x-request-id"] == "req_upstream"
    assert not {
        "set-cookie",
        "access-control-allow-origin",
        "alt-svc",
        "keep-alive",
        "x-hop",
    } & set(headers)
    assert "strict-transport-security" not in headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "accepted, sent",
    [
        ("gzip, br;q=0.9, zstd", "gzip"),
        ("br", "identity"),
        ("deflate;q=0.5, gzip", "deflate;q=0.5, gzip"),
        ("", "identity"),
    ],
)
def test_only_such_encodings_are_asked_for_as_can_be_recorded(
    http: httpx.Client, upstream: StandIn, accepted: str, sent: str
) -> None:
    raw(http, HELLO, **{"Accept-Encoding": accepted})
    assert upstream.seen[0].header("Accept-Encoding") == sent


# -- what was said is kept ---------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["plain", "packed", "stream", "packed stream", "stream cut anywhere"]
)
def test_both_sides_are_kept(
    http: httpx.Client, upstream: StandIn, service: Service, kind: str
) -> None:
    upstream.next.append(PLAIN[kind]())
    _, headers, _ = raw(http, HELLO)
    document = only(service)
    asked, answered = document.passages
    assert (asked.role, asked.content, asked.created_at is not None) == ("user", "Hello", True)
    assert answered.role == "assistant" and "👋" in answered.content and answered.model == MODEL
    assert (
        answered.metadata["usage"]["total_tokens"] == 8
        and answered.metadata["finish_reason"] == "stop"
    )
    assert "interrupted" not in answered.metadata
    assert headers["x-recollect-conversation"] == document.id
    assert (document.source, document.title, document.project) == ("proxy", "Hello", "default")


def test_openais_own_client_talks_and_is_recorded(client: openai.OpenAI, service: Service) -> None:
    messages: list[Any] = [user_says("Hello")]
    first = (
        client.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content
    )
    messages += [{"role": "assistant", "content": first}, user_says("And?")]
    parts = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
    second = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert told(only(service)) == [
        ("user", "Hello"),
        ("assistant", "Answer 1 to Hello"),
        ("user", "And?"),
        ("assistant", "Answer 2 to And?"),
    ]
    assert second == "Answer 2 to And?"


def test_openais_own_client_goes_on_at_once_after_the_end_of_a_stream(
    client: openai.OpenAI, service: Service, upstream: StandIn
) -> None:
    """The answer is kept before its end is passed on, so that the next request finds it."""
    messages: list[Any] = []
    for number in range(5):
        messages.append(user_says(f"Question {number}"))
        text = ""
        for part in client.chat.completions.create(model=MODEL, messages=messages, stream=True):
            text += (part.choices[0].delta.content or "") if part.choices else ""
        messages.append({"role": "assistant", "content": text})
    assert canonical(only(service)) == [m["content"] for m in messages]


def test_openais_own_client_sends_again_what_failed_and_it_is_kept_once(
    address: str, upstream: StandIn, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.0)
    upstream.next.extend(
        [plain({"error": {"message": "later"}}, 500), plain({"error": {"message": "later"}}, 503)]
    )
    with openai.OpenAI(base_url=f"{address}/v1", api_key="x", max_retries=2) as client:
        client.chat.completions.create(model=MODEL, messages=[user_says("Hello")])  # type: ignore[list-item]
    assert len(upstream.seen) == 3
    assert told(only(service)) == [("user", "Hello"), ("assistant", "Answer 1 to Hello")]


def test_tools_make_the_round_trip(
    client: openai.OpenAI, upstream: StandIn, service: Service
) -> None:
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": ""},
    }
    upstream.next.append(
        streamed(
            events(
                {"role": "assistant", "tool_calls": [call]},
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": ' "Rome"}'}}]},
                finish="tool_calls",
            )
        )
    )
    with client.chat.completions.stream(model=MODEL, messages=[user_says("Weather?")]) as answer:  # type: ignore[list-item]
        message = answer.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    messages: list[Any] = [
        user_says("Weather?"),
        message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
    ]
    client.chat.completions.create(model=MODEL, messages=messages)
    assert [(p.role, p.type, p.tool, p.content) for p in only(service).passages] == [
        ("user", "message", None, "Weather?"),
        ("assistant", "tool_call", "weather", "city: Rome"),
        ("tool", "tool_result", "weather", "Sunny"),
        ("assistant", "message", None, "Answer 1 to Sunny"),
    ]


def test_several_choices_are_branches(
    http: httpx.Client, upstream: StandIn, service: Service
) -> None:
    upstream.next.append(streamed(events([{"content": "Ada"}, {"content": "Bea"}])))
    raw(http, {**HELLO, "n": 2, "stream": True})
    document = only(service)
    assert canonical(document) == ["Hello", "Ada"]
    assert {p.content for p in document.passages} == {"Hello", "Ada", "Bea"}


def test_a_session_named_in_a_header_or_in_the_metadata_is_one_conversation(
    http: httpx.Client, service: Service, upstream: StandIn
) -> None:
    raw(http, HELLO, **{"X-Recollect-Session": "s-1", "X-Recollect-Namespace": "work"})
    raw(http, {**HELLO, "messages": [user_says("Other")], "metadata": {"session_id": "s-1"}})
    document = only(service)
    assert canonical(document) == ["Hello", "Answer 1 to Hello", "Other", "Answer 2 to Other"]
    assert (document.project, document.source_id) == ("work", "s-1")
    assert upstream.seen[1].json["metadata"] == {"session_id": "s-1"}
    assert not any(
        name.lower().startswith("x-recollect") for seen in upstream.seen for name, _ in seen.headers
    )


def test_a_conversation_goes_on_after_a_restart(
    place: str, upstream: StandIn, service: Service
) -> None:
    with serving(service) as address:
        httpx.post(address + CHAT, json=HELLO, trust_env=False)
    service.close()
    other = Service(placed(place), service.config)
    try:
        with serving(other) as address:
            answer = {"role": "assistant", "content": "Answer 1 to Hello"}
            messages = [*HELLO["messages"], answer, user_says("Still there?")]
            httpx.post(address + CHAT, json={**HELLO, "messages": messages}, trust_env=False)
        assert len(only(other).passages) == 4
    finally:
        other.close()


def test_what_was_recorded_is_found(http: httpx.Client, service: Service) -> None:
    raw(http, {**HELLO, "messages": [user_says("Where is the zebra?")]})
    found = http.get("/conversations/search/messages", params={"query": "zebra"}).json()
    assert found["total"] == 2


def test_a_packed_request_is_recorded_too(
    http: httpx.Client, service: Service, upstream: StandIn
) -> None:
    body = gzip.compress(json.dumps(HELLO).encode())
    upstream.next.append(completion("Hi."))
    raw(http, body, **{"Content-Encoding": "gzip"})
    assert upstream.seen[0].body == body and upstream.seen[0].header("Content-Encoding") == "gzip"
    assert told(only(service)) == [("user", "Hello"), ("assistant", "Hi.")]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_chat_is_passed_on_for_the_model_to_refuse(
    http: httpx.Client, service: Service, upstream: StandIn, body: bytes
) -> None:
    status, _, pieces = raw(http, body)
    assert (status, json.loads(b"".join(pieces))["error"]["message"]) == (400, "This is no chat.")
    assert upstream.seen[0].body == body and kept(service) == []


# -- failures ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_an_error_of_the_model_is_passed_on_unchanged_and_what_was_said_is_kept(
    http: httpx.Client, upstream: StandIn, service: Service, status: int
) -> None:
    reply = plain({"error": {"message": "No.", "type": "x", "code": None}}, status, Retry_After="7")
    upstream.next.append(reply)
    found, headers, pieces = raw(http, HELLO)
    assert (found, b"".join(pieces), headers["retry-after"]) == (status, reply.body, "7")
    assert told(only(service)) == [("user", "Hello")]


def test_a_model_that_says_nothing_is_an_error_in_our_shape_and_what_was_said_is_kept(
    http: httpx.Client, upstream: StandIn, service: Service
) -> None:
    upstream.next.append(Reply(silent=True))
    answer = http.post(CHAT, json=HELLO)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "UPSTREAM_ERROR"
    assert told(only(service)) == [("user", "Hello")]
    assert metric(http, "recollect_upstream_failures_total") == 1


def test_a_model_that_cannot_be_reached_is_an_error_in_our_shape(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("RECOLLECT_MODEL", f"http://127.0.0.1:{port}/v1")
    with serving(service) as address:
        answer = httpx.post(address + CHAT, json=HELLO, trust_env=False)
    assert (answer.status_code, answer.json()["detail"]) == (
        502,
        "The model's server could not be reached.",
    )
    assert told(only(service)) == [("user", "Hello")]


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_the_model_breaks_off_breaks_off_here_too_and_is_kept_as_far_as_it_came(
    http: httpx.Client, upstream: StandIn, service: Service, streams: bool
) -> None:
    reply = stream("Once upon a time") if streams else completion("Once upon a time")
    half = reply.body[: reply.body.index(b"finish_reason", 600)] if streams else reply.body[:-100]
    reply.pieces, reply.cut = [half], True
    upstream.next.append(reply)
    got = b""
    with pytest.raises(httpx.RemoteProtocolError), http.stream("POST", CHAT, json=HELLO) as answer:
        for piece in answer.iter_raw():
            got += piece
    assert got == half
    _, answered = only(service).passages
    assert answered.content and "Once upon a time".startswith(answered.content)
    assert answered.metadata["interrupted"] is True


def test_an_answer_that_the_client_breaks_off_is_kept_as_far_as_it_came(
    http: httpx.Client, upstream: StandIn, service: Service
) -> None:
    reply = stream("Once upon a time")
    reply.gates = [threading.Event() for _ in reply.pieces]
    for gate in reply.gates[:3]:
        gate.set()
    upstream.next.append(reply)
    with http.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer:
        got = b""
        for piece in answer.iter_raw():
            got += piece
            if got == b"".join(reply.pieces[:3]):
                break
    assert upstream.hung_up.wait(30)
    http.get("/healthz")
    eventually(lambda: len(only(service).passages) == 2)
    answered = only(service).passages[1]
    assert answered.content == "Once upo" and answered.metadata["interrupted"] is True
    raw(http, HELLO)  # asked again, it is a branch of the same conversation
    assert canonical(only(service)) == ["Hello", "Answer 1 to Hello"]


def test_a_client_that_goes_away_before_the_answer_stops_the_model(
    address: str, upstream: StandIn, service: Service
) -> None:
    reply = completion("Too late.")
    reply.gates = [threading.Event()]
    upstream.next.append(reply)
    host, port = address.removeprefix("http://").split(":")
    body = json.dumps(HELLO)
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(f"{head}{body}".encode())
        assert upstream.asked.wait(60)
    assert upstream.hung_up.wait(60)
    assert told(only(service)) == [("user", "Hello")]


def test_an_answer_is_not_touched_when_it_cannot_be_saved(
    http: httpx.Client, upstream: StandIn, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Library, "record", broken)
    reply = stream("Hello to you")
    upstream.next.append(reply)
    status, _, pieces = raw(http, {**HELLO, "stream": True})
    assert (status, b"".join(pieces)) == (200, reply.body)
    assert metric(http, "recollect_not_recorded_total") == 2


def test_an_answer_is_not_touched_when_the_library_cannot_be_opened(
    http: httpx.Client, upstream: StandIn, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(service.libraries, "borrow", broken)
    reply = stream("Hello to you")
    upstream.next.append(reply)
    status, headers, pieces = raw(http, {**HELLO, "stream": True})
    assert (status, b"".join(pieces)) == (200, reply.body)
    assert "x-recollect-conversation" not in headers


def test_what_could_not_be_saved_before_is_saved_with_the_answer(
    http: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Library.record

    def broken(library: Library, conversation: str, messages: Any) -> int:
        if not any(m.role == "assistant" for m in messages):
            raise OSError("the disk is on fire")
        return record(library, conversation, messages)

    monkeypatch.setattr(Library, "record", broken)
    raw(http, HELLO)
    assert told(only(service)) == [("user", "Hello"), ("assistant", "Answer 1 to Hello")]


def test_an_answer_is_not_touched_when_only_its_end_cannot_be_saved(
    http: httpx.Client, upstream: StandIn, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Library.record

    def broken(library: Library, conversation: str, messages: Any) -> int:
        if any(m.role == "assistant" for m in messages):
            raise OSError("the disk is on fire")
        return record(library, conversation, messages)

    monkeypatch.setattr(Library, "record", broken)
    for reply in (completion("Hi."), stream("Hi.")):
        upstream.next.append(reply)
        assert b"".join(raw(http, HELLO)[2]) == reply.body
    assert told(only(service)) == [("user", "Hello")]
    assert metric(http, "recollect_not_recorded_total") == 2


def test_a_stream_that_goes_on_while_the_server_stops_comes_to_its_end(
    upstream: StandIn, service: Service
) -> None:
    reply = stream("Once upon a time")
    reply.gates = [threading.Event() for _ in reply.pieces]
    reply.gates[0].set()
    upstream.next.append(reply)
    with (
        serving(service) as address,
        httpx.stream(
            "POST", address + CHAT, json={**HELLO, "stream": True}, timeout=60, trust_env=False
        ) as answer,
    ):
        pieces = answer.iter_raw()
        got = next(pieces)
        service.draining.set()
        for gate in reply.gates:
            gate.set()
        got += b"".join(pieces)
    assert got == reply.body
    assert canonical(only(service)) == ["Hello", "Once upon a time"]


def test_without_a_model_the_setting_is_named(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_MODEL", raising=False)
    with serving(service) as address:
        answer = httpx.post(address + CHAT, json=HELLO, trust_env=False)
    assert answer.status_code == 503
    assert (
        "RECOLLECT_MODEL" in answer.json()["detail"]
        and answer.json()["error"]["code"] == "UNAVAILABLE"
    )


@pytest.mark.parametrize(
    "said", ["ftp://x", "https://me:hunter2@example.com/v1", "http://example.com/v1"]
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_setting_that_cannot_be_used_is_the_servers_fault(
    service: Service, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("RECOLLECT_MODEL", said)
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", OPERATORS_KEY)
    with serving(service) as address:
        answer = httpx.post(address + CHAT, json=HELLO, trust_env=False)
    assert answer.status_code == 503 and "RECOLLECT_MODEL" in answer.text
    assert "hunter2" not in answer.text and OPERATORS_KEY not in answer.text


# -- the rest of the protocol --------------------------------------------------------


def test_models_and_vectors_are_passed_on_and_not_recorded(
    client: openai.OpenAI, upstream: StandIn, service: Service
) -> None:
    assert [m.id for m in client.models.list()] == [MODEL]
    assert client.models.retrieve("org/model a").object == "model"
    assert client.embeddings.create(model="m", input="x", encoding_format="float").data[
        0
    ].embedding == [0.5, 0.25]
    assert [seen.path for seen in upstream.seen] == [
        "/v1/models",
        "/v1/models/org/model%20a",
        "/v1/embeddings",
    ]
    assert kept(service) == []


@pytest.mark.parametrize(
    "path", ["..", "../files", "a/../../files", "%2e%2e/files", "a//b", ".", "x/%2E%2E/%2E%2E/f"]
)
def test_the_name_of_a_model_leads_nowhere_else(address: str, upstream: StandIn, path: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            f"GET /v1/models/{path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 404") and upstream.seen == []


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/v1/responses"),
        ("GET", "/v1/files"),
        ("POST", "/v1/completions"),
        ("GET", CHAT),
        ("DELETE", "/v1/models/x"),
    ],
)
def test_what_is_not_recorded_is_not_passed_on_and_says_so(
    http: httpx.Client, upstream: StandIn, method: str, path: str
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == 404
    assert "/v1/chat/completions" in answer.json()["error"]["message"]
    assert upstream.seen == []


# -- whose key goes where ------------------------------------------------------------


def test_a_clients_own_key_is_passed_on_where_nobody_needs_one_here(
    client: openai.OpenAI, upstream: StandIn
) -> None:
    client.chat.completions.create(model=MODEL, messages=[user_says("Hello")])  # type: ignore[list-item]
    assert upstream.seen[0].header("Authorization") == f"Bearer {CLIENTS_KEY}"


def test_the_configured_key_is_sent_instead(
    service: Service, upstream: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", OPERATORS_KEY)
    with serving(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        raw(http, HELLO, Authorization=f"Bearer {CLIENTS_KEY}", **{"Api-Key": CLIENTS_KEY})
    assert upstream.seen[0].header("Authorization") == f"Bearer {OPERATORS_KEY}"
    assert CLIENTS_KEY not in str(upstream.seen[0].headers)


@pytest.mark.parametrize("configured", [True, False])
def test_a_key_of_this_server_never_goes_to_the_model(
    service: Service,
    upstream: StandIn,
    key: MakeKey,
    user: str,
    monkeypatch: pytest.MonkeyPatch,
    configured: bool,
) -> None:
    if configured:
        monkeypatch.setenv("RECOLLECT_MODEL_KEY", OPERATORS_KEY)
    bearer = key(user=user)["Authorization"]
    secret = bearer.removeprefix("Bearer ")
    with serving(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        for headers in (
            {"Authorization": bearer},
            {"X-API-Key": secret},
            {"Cookie": f"recollect_key={secret}"},
        ):
            assert raw(http, HELLO, **headers)[0] == 200
            assert http.get("/v1/models", headers=headers).status_code == 200
        assert raw(http, HELLO)[0] == 401
    assert len(upstream.seen) == 6
    for seen in upstream.seen:
        assert secret not in str(seen.headers) and "rk_" not in str(seen.headers)
        assert seen.header("Authorization") == (f"Bearer {OPERATORS_KEY}" if configured else None)
        assert seen.header("Cookie") is None


def test_a_key_of_this_server_is_not_passed_on_even_where_none_is_needed(
    http: httpx.Client, upstream: StandIn
) -> None:
    raw(
        http,
        HELLO,
        Authorization="Bearer rk_0123456789ab_secret",
        Cookie="recollect_key=rk_x",
        Referer="http://x/",
    )
    seen = upstream.seen[0]
    assert not {"authorization", "cookie", "referer"} & {name.lower() for name, _ in seen.headers}


def test_no_key_is_written_down(
    service: Service,
    upstream: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", OPERATORS_KEY)
    upstream.next.extend(
        [completion("Hi."), Reply(silent=True), plain({"error": f"bad key {OPERATORS_KEY}"}, 401)]
    )
    with serving(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        for _ in range(3):
            raw(http, HELLO, Authorization=f"Bearer {CLIENTS_KEY}")
    stored = str([(d.metadata, d.passages) for d in kept(service)])
    logged = caplog.text + str(
        [record.__dict__ for record in caplog.records if record.name.startswith("recollect")]
    )
    for secret in (OPERATORS_KEY, CLIENTS_KEY):
        assert secret not in stored and secret not in logged
    assert "Hello" not in logged
    assert OPERATORS_KEY not in repr(service.upstream)


def test_two_users_have_their_own_conversations(
    service: Service, upstream: StandIn, key: MakeKey, user: str
) -> None:
    ann, ben = f"{user}-ann", f"{user}-ben"
    upstream.next.extend(completion("Hi.") for _ in range(2))
    anns, bens = key(user=ann), key(user=ben)
    history = [user_says("Hello"), {"role": "assistant", "content": "Hi."}, user_says("Mine?")]
    with serving(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        raw(http, HELLO, **anns, **{"X-Recollect-Session": "s"})
        raw(http, HELLO, **bens, **{"X-Recollect-Session": "s"})
        raw(http, {**HELLO, "messages": history}, **bens)
    assert canonical(only(service, ann)) == ["Hello", "Hi."]
    assert canonical(only(service, ben)) == ["Hello", "Hi.", "Mine?", "Answer 1 to Mine?"]
    assert only(service, ann).id != only(service, ben).id


@pytest.mark.parametrize("scopes, toolsets", [(("read",), None), (("read", "write"), ("bus",))])
def test_a_key_that_may_not_save_may_not_ask(
    service: Service,
    upstream: StandIn,
    key: MakeKey,
    user: str,
    scopes: tuple[str, ...],
    toolsets: Any,
) -> None:
    headers = key(scopes, user=user, toolsets=toolsets)
    with serving(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        assert raw(http, HELLO, **headers)[0] == 403
        assert http.post("/v1/embeddings", json={}, headers=headers).status_code == 403
    assert upstream.seen == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Recollect-Session": "x" * 300},
        {"X-Recollect-Session": ""},
        {"X-Recollect-Namespace": "a b"},
        {"X-Recollect-Namespace": "x" * 65},
    ],
)
def test_a_session_or_namespace_that_cannot_be_is_refused(
    http: httpx.Client, upstream: StandIn, headers: dict[str, str]
) -> None:
    assert raw(http, HELLO, **headers)[0] == 400
    assert upstream.seen == []


# -- helpers -------------------------------------------------------------------------


def metric(http: httpx.Client, name: str) -> float:
    lines = http.get("/metrics").text.splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith((f"{name} ", f"{name}{{"))
    )


def eventually(true: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    waited = threading.Event()
    for _ in range(3_000):
        if true():
            return
        waited.wait(0.01)
    raise AssertionError("it did not come to pass")
