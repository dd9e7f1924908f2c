"""The OpenAI proxy at `/v1`: responses are passed on unchanged and recorded."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from asgi import MakeKey
from lazy_import import LazyModule
from services import Service, default_user, listening, make_service
from upstream import (
    MODEL,
    Reply,
    StandIn,
    call_item,
    completion,
    compress,
    event_stream,
    events,
    plain,
    response,
    response_stream,
    running,
    stream,
)

from recollect import Document, Library, Passage

openai: Any = LazyModule("openai")

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


@pytest.fixture
def address(service: Service, upstream: StandIn) -> Iterator[str]:
    with listening(service) as url:
        yield url


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=CLIENTS_KEY, max_retries=0) as client:
        yield client


@contextmanager
def library_of(service: Service, user: str | None = None) -> Iterator[Library]:
    with service.libraries.borrow(user or default_user()) as library:
        yield library


def conversations(service: Service, user: str | None = None) -> list[Document]:
    """All saved conversations, oldest first."""
    with library_of(service, user) as library:
        return list(library.documents())


def only(service: Service, user: str | None = None) -> Document:
    (document,) = conversations(service, user)
    return document


def messages_of(document: Document) -> list[tuple[str | None, str]]:
    return [(p.role, p.content) for p in document.passages]


def canonical(document: Document) -> list[str]:
    return [p.content for p in document.passages if p.canonical]


def user_says(content: str) -> Any:
    return {"role": "user", "content": content}


def post_raw(
    http: httpx.Client, body: Any, **headers: str
) -> tuple[int, httpx.Headers, list[bytes]]:
    """The parts of a response as they arrive from the socket."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with http.stream(
        "POST", CHAT, content=content, headers={"Content-Type": "application/json", **headers}
    ) as answer:
        return answer.status_code, answer.headers, list(answer.iter_raw())


# -- responses are unchanged -------------------------------------------------------


ODD = (
    '{ "id" :"x",\n"choices":[ {"message":{"role":"assistant",'
    '"content":"\\u00e9 é \\ud83d"}} ]}\r\n '
).encode()

PLAIN: dict[str, Callable[[], Reply]] = {
    "plain": lambda: completion("Grüße 👋"),
    "packed": lambda: compress(completion("Grüße 👋" * 100)),
    "stream": lambda: stream("Grüße 👋 an alle"),
    "packed stream": lambda: compress(stream("Grüße 👋 an alle"), 3),
    "odd JSON": lambda: Reply(200, {"Content-Type": "application/json"}, [ODD[:9], ODD[9:]]),
    "no JSON": lambda: Reply(200, {"Content-Type": "application/json"}, [b"\xff\xfe\0 not json"]),
    "stream cut anywhere": lambda: event_stream(
        b"", [bytes([b]) for b in events({"content": "é 👋"})]
    ),
    "stream of nonsense": lambda: event_stream(b": ping\n\ndata: {\n\n\xff\ndata: [DONE]\n\n"),
    "empty": lambda: Reply(200, {"Content-Type": "application/json"}, []),
}


def full(value: object) -> object:
    """A parameter for `make test-all`: every test starts two servers."""
    return pytest.param(value, marks=pytest.mark.full)


@pytest.mark.parametrize("kind", [kind if "stream" in kind else full(kind) for kind in PLAIN])
def test_a_response_is_passed_on_byte_for_byte(
    http: httpx.Client, upstream: StandIn, service: Service, kind: str
) -> None:
    reply = PLAIN[kind]()
    upstream.replies.append(reply)
    status, headers, pieces = post_raw(http, HELLO, **{"Accept-Encoding": "gzip, deflate, br"})
    assert (status, b"".join(pieces)) == (200, reply.body)
    for name, value in reply.headers.items():
        assert headers[name] == value
    assert ("content-length" in headers) == (not reply.chunked)
    assert messages_of(only(service))[0] == ("user", "Hello")


def test_a_request_is_passed_on_byte_for_byte(http: httpx.Client, upstream: StandIn) -> None:
    body = (
        b'{"messages" : [{"content":"Hello","role":"user"}],\n "model":"m", '
        b'"seed":1e2, "unknown":[1.0,{}]} '
    )
    post_raw(
        http,
        body,
        **{"X-Custom": "yes", "OpenAI-Organization": "org-1", "User-Agent": "somebody/1"},
    )
    (request,) = upstream.requests
    assert (request.method, request.path, request.body) == ("POST", CHAT, body)
    assert request.header("Content-Type") == "application/json"
    assert request.header("OpenAI-Organization") == "org-1"
    assert request.header("X-Custom") == "yes"
    assert request.header("User-Agent") == "somebody/1"
    assert [name for name, _ in request.headers if name.lower() == "host"] == ["Host"]
    assert request.header("Host") in upstream.address


def test_parts_of_a_stream_are_passed_on_as_they_arrive(
    http: httpx.Client, upstream: StandIn
) -> None:
    reply = stream("Once upon a time")
    gates = [threading.Event() for _ in reply.pieces]
    reply.gates = gates
    upstream.replies.append(reply)
    gates[0].set()
    with http.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer:
        for number, piece in enumerate(answer.iter_raw()):
            assert piece == reply.pieces[number]  # the next one was not sent yet
            if number + 1 < len(gates):
                gates[number + 1].set()
    assert number + 1 == len(reply.pieces)


def test_response_headers_are_passed_on_except_those_of_connections_and_sites(
    http: httpx.Client, upstream: StandIn
) -> None:
    upstream.replies.append(
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
    _, headers, _ = post_raw(http, HELLO)
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


# -- messages are recorded ---------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["plain", "packed", "stream", "packed stream", "stream cut anywhere"]
)
def test_the_question_and_the_answer_are_saved(
    http: httpx.Client, upstream: StandIn, service: Service, kind: str
) -> None:
    upstream.replies.append(PLAIN[kind]())
    _, headers, _ = post_raw(http, HELLO)
    document = only(service)
    question, answer = document.passages
    assert (question.role, question.content, question.created_at is not None) == (
        "user",
        "Hello",
        True,
    )
    assert answer.role == "assistant" and "👋" in answer.content and answer.model == MODEL
    assert (
        answer.metadata["usage"]["total_tokens"] == 8 and answer.metadata["finish_reason"] == "stop"
    )
    assert "interrupted" not in answer.metadata
    assert headers["x-recollect-conversation"] == document.id
    assert (document.source, document.title, document.project) == ("proxy", "Hello", "default")


def test_conversations_of_the_openai_client_are_recorded(
    client: openai.OpenAI, service: Service
) -> None:
    messages: list[Any] = [user_says("Hello")]
    first = (
        client.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content
    )
    messages += [{"role": "assistant", "content": first}, user_says("And?")]
    parts = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
    second = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert messages_of(only(service)) == [
        ("user", "Hello"),
        ("assistant", "Answer 1 to Hello"),
        ("user", "And?"),
        ("assistant", "Answer 2 to And?"),
    ]
    assert second == "Answer 2 to And?"


def test_the_openai_client_can_continue_right_after_a_stream(
    client: openai.OpenAI, service: Service, upstream: StandIn
) -> None:
    """The answer is saved before its end is passed on, so the next request finds it."""
    messages: list[Any] = []
    for number in range(5):
        messages.append(user_says(f"Question {number}"))
        text = ""
        for part in client.chat.completions.create(model=MODEL, messages=messages, stream=True):
            text += (part.choices[0].delta.content or "") if part.choices else ""
        messages.append({"role": "assistant", "content": text})
    assert canonical(only(service)) == [m["content"] for m in messages]


def test_a_retry_of_the_openai_client_is_saved_once(
    address: str, upstream: StandIn, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.0)
    upstream.replies.extend(
        [plain({"error": {"message": "later"}}, 500), plain({"error": {"message": "later"}}, 503)]
    )
    with openai.OpenAI(base_url=f"{address}/v1", api_key="x", max_retries=2) as client:
        client.chat.completions.create(model=MODEL, messages=[user_says("Hello")])
    assert len(upstream.requests) == 3
    assert messages_of(only(service)) == [("user", "Hello"), ("assistant", "Answer 1 to Hello")]


def test_tool_calls_and_results_are_recorded(
    client: openai.OpenAI, upstream: StandIn, service: Service
) -> None:
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": ""},
    }
    upstream.replies.append(
        event_stream(
            events(
                {"role": "assistant", "tool_calls": [call]},
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": ' "Rome"}'}}]},
                finish="tool_calls",
            )
        )
    )
    with client.chat.completions.stream(model=MODEL, messages=[user_says("Weather?")]) as answer:
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
        ("assistant", "tool_call", "weather", "weather\ncity: Rome"),
        ("tool", "tool_result", "weather", "Sunny"),
        ("assistant", "message", None, "Answer 1 to Sunny"),
    ]


@pytest.mark.parametrize("is_stream", [False, True])
def test_responses_and_their_calls_of_tools_are_recorded(
    client: openai.OpenAI, upstream: StandIn, service: Service, is_stream: bool
) -> None:
    thoughts = {"type": "summary_text", "text": "I need the weather."}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [thoughts]}
    reply = response(reasoning, call_item("weather", '{"city": "Rome"}', "call_1"))
    upstream.replies.append(response_stream(reply) if is_stream else reply)
    items: list[Any] = [user_says("Weather?")]
    if is_stream:
        with client.responses.stream(model=MODEL, input=items, instructions="Be kind.") as events:
            answer = events.get_final_response()
    else:
        answer = client.responses.create(model=MODEL, input=items, instructions="Be kind.")
    items += answer.output
    items.append({"type": "function_call_output", "call_id": "call_1", "output": "Sunny"})
    last = client.responses.create(model=MODEL, input=items, stream=is_stream)
    for _ in last if is_stream else ():
        pass
    document = only(service)
    assert [(p.type, p.tool, p.content) for p in document.passages] == [
        ("context", None, "Be kind."),
        ("message", None, "Weather?"),
        ("thinking", None, "I need the weather."),
        ("tool_call", "weather", "weather\ncity: Rome"),
        ("tool_result", "weather", "Sunny"),
        ("message", None, "Answer 1"),
    ]
    assert all(passage.canonical for passage in document.passages)
    assert document.passages[-1].metadata["response_id"] == "resp_1"


def test_a_response_continues_the_one_before_it_also_after_a_restart(
    place: str, service: Service, upstream: StandIn
) -> None:
    def ask(question: str, **more: Any) -> str:
        with openai.OpenAI(base_url=f"{address}/v1", api_key=CLIENTS_KEY) as client:
            id_: str = client.responses.create(model=MODEL, input=question, **more).id
            client.responses.create(model=MODEL, input="Something else?")
            return id_

    with listening(service) as address:
        first = ask("One?")
        second = ask("Two?", previous_response_id=first)
    service.close()
    other = make_service(place)
    try:
        with listening(other) as address:
            ask("Three?", previous_response_id=second)
        document = next(d for d in conversations(other) if d.title == "One?")
    finally:
        other.close()
    assert canonical(document) == ["One?", "Answer 1", "Two?", "Answer 3", "Three?", "Answer 5"]


def test_a_conversation_of_the_responses_api_is_a_session(
    client: openai.OpenAI, service: Service
) -> None:
    for question in ("One?", "Two?"):
        client.responses.create(model=MODEL, input=question, conversation="conv_1")
    assert canonical(only(service)) == ["One?", "Answer 1", "Two?", "Answer 2"]


def test_a_session_in_a_header_or_in_the_metadata_is_one_conversation(
    http: httpx.Client, service: Service, upstream: StandIn
) -> None:
    post_raw(http, HELLO, **{"X-Recollect-Session": "s-1", "X-Recollect-Namespace": "work"})
    post_raw(http, {**HELLO, "messages": [user_says("Other")], "metadata": {"session_id": "s-1"}})
    document = only(service)
    assert canonical(document) == ["Hello", "Answer 1 to Hello", "Other", "Answer 2 to Other"]
    assert (document.project, document.source_id) == ("work", "s-1")
    assert upstream.requests[1].json["metadata"] == {"session_id": "s-1"}
    assert not any(
        name.lower().startswith("x-recollect")
        for request in upstream.requests
        for name, _ in request.headers
    )


def test_the_session_of_any_conversation_continues_on_every_route(
    http: httpx.Client, service: Service
) -> None:
    with service.libraries.borrow(default_user()) as library:
        messages = (Passage("1.a", "user", "Old"), Passage("1.b", "assistant", "Older"))
        library._store.save([Document("chatgpt", "imported", passages=messages)])
    post_raw(http, HELLO, **{"X-Recollect-Session": "recorded"})
    for session, count in (("recorded", 2), ("imported", 2)):
        conversation = http.get(f"/conversations/by-session/{session}").json()
        assert (conversation["session_id"], conversation["message_count"]) == (session, count)
        body = {"session_id": session, "messages": [user_says("More")]}
        saved = http.post("/conversations/messages", json=body).json()
        answer = http.post("/chat", json={"session_id": session, "message": "And"}).json()
        post_raw(http, {**HELLO, "messages": [user_says("x")]}, **{"X-Recollect-Session": session})
        assert saved["conversation_id"] == answer["conversation_id"] == conversation["id"]
        conversation = http.get(f"/conversations/by-session/{session}").json()
        assert conversation["message_count"] == count + 5
    assert http.get("/conversations").json()["total"] == 2


def test_recorded_messages_are_searchable(http: httpx.Client, service: Service) -> None:
    post_raw(http, {**HELLO, "messages": [user_says("Where is the zebra?")]})
    body = http.get("/conversations/search/messages", params={"query": "zebra"}).json()
    assert body["total"] == 2


# -- failures ----------------------------------------------------------------------


def test_no_response_of_the_model_is_our_error_and_the_question_is_saved(
    http: httpx.Client, upstream: StandIn, service: Service
) -> None:
    upstream.replies.append(Reply(silent=True))
    answer = http.post(CHAT, json=HELLO)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "UPSTREAM_ERROR"
    assert messages_of(only(service)) == [("user", "Hello")]
    assert metric(http, "recollect_upstream_failures_total") == 1


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_broken_off_by_the_model_is_broken_off_here_and_saved_in_part(
    http: httpx.Client, upstream: StandIn, service: Service, streams: bool
) -> None:
    reply = stream("Once upon a time") if streams else completion("Once upon a time")
    half = reply.body[: reply.body.index(b"finish_reason", 600)] if streams else reply.body[:-100]
    reply.pieces, reply.cut = [half], True
    upstream.replies.append(reply)
    got = b""
    with pytest.raises(httpx.RemoteProtocolError), http.stream("POST", CHAT, json=HELLO) as answer:
        for piece in answer.iter_raw():
            got += piece
    assert got == half
    assert only(service).passages[0].content == "Hello"
    for answered in only(service).passages[1:]:  # without events, there are no parts
        assert streams and answered.content and "Once upon a time".startswith(answered.content)
        assert answered.metadata["interrupted"] is True


def test_an_answer_broken_off_by_the_client_is_saved_in_part(
    http: httpx.Client, upstream: StandIn, service: Service
) -> None:
    reply = stream("Once upon a time")
    reply.gates = [threading.Event() for _ in reply.pieces]
    for gate in reply.gates[:3]:
        gate.set()
    upstream.replies.append(reply)
    with http.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer:
        got = b""
        for piece in answer.iter_raw():
            got += piece
            if got == b"".join(reply.pieces[:3]):
                break
    assert upstream.client_disconnected.wait(30)
    http.get("/healthz")
    eventually(lambda: len(only(service).passages) == 2)
    answer_passage = only(service).passages[1]
    assert answer_passage.content == "Once upo" and answer_passage.metadata["interrupted"] is True
    post_raw(http, HELLO)  # a repeated question becomes a branch of the same conversation
    assert canonical(only(service)) == ["Hello", "Answer 1 to Hello"]


def test_the_response_is_unchanged_if_saving_fails(
    http: httpx.Client, upstream: StandIn, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Library, "add_messages", fail)
    reply = stream("Hello to you")
    upstream.replies.append(reply)
    status, _, pieces = post_raw(http, {**HELLO, "stream": True})
    assert (status, b"".join(pieces)) == (200, reply.body)
    assert metric(http, "recollect_not_recorded_total") == 2


def test_a_stream_finishes_while_the_server_shuts_down(upstream: StandIn, service: Service) -> None:
    reply = stream("Once upon a time")
    reply.gates = [threading.Event() for _ in reply.pieces]
    reply.gates[0].set()
    upstream.replies.append(reply)
    with (
        listening(service) as address,
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


def test_the_error_names_the_setting_if_no_model_is_configured(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_MODEL", raising=False)
    with listening(service) as address:
        answer = httpx.post(address + CHAT, json=HELLO, trust_env=False)
    assert answer.status_code == 503
    assert "RECOLLECT_MODEL" in answer.json()["detail"]
    assert answer.json()["error"]["code"] == "UNAVAILABLE"


# -- other routes --------------------------------------------------------


def test_everything_else_is_passed_on_unrecorded_and_a_header_says_so(
    client: openai.OpenAI, http: httpx.Client, upstream: StandIn, service: Service
) -> None:
    assert [m.id for m in client.models.list()] == [MODEL]
    assert client.models.retrieve("org/model a").object == "model"
    vectors = client.embeddings.create(model="m", input="x", encoding_format="float")
    assert vectors.data[0].embedding == [0.5, 0.25]
    file = {"id": "f1", "object": "file", "bytes": 1, "created_at": 1, "filename": "a.txt"}
    upstream.replies.append(plain({**file, "purpose": "assistants", "status": "processed"}))
    assert client.files.create(file=("a.txt", b"x"), purpose="assistants").id == "f1"
    upstream.replies.append(plain({"id": "f1", "object": "file", "deleted": True}))
    assert client.files.delete("f1").deleted
    upstream.replies.append(Reply(200, {"Content-Type": "text/html"}, [b"<script>1</script>"]))
    content = http.get("/v1/files/f1/content", params={"a": "b c"})
    assert (content.text, content.headers["x-recollect-recorded"]) == ("<script>1</script>", "no")
    assert content.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert [(request.method, request.path) for request in upstream.requests] == [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/org/model%20a"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/files"),
        ("DELETE", "/v1/files/f1"),
        ("GET", "/v1/files/f1/content?a=b+c"),
    ]
    assert b'filename="a.txt"' in upstream.requests[3].body
    assert conversations(service) == []


@pytest.mark.parametrize(
    "path", ["..", "../files", "a/../../files", "%2e%2e/files", "a//b", ".", "x/%2E%2E/%2E%2E/f"]
)
@pytest.mark.parametrize("folder", ["models", "files"])
def test_a_path_cannot_reach_other_paths(
    address: str, upstream: StandIn, folder: str, path: str
) -> None:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            f"GET /v1/{folder}/{path} HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
            + b"Connection: close\r\n\r\n"
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 404") and upstream.requests == []


# -- keys ------------------------------------------------------------


def test_the_clients_own_key_is_passed_on_if_we_require_none(
    client: openai.OpenAI, upstream: StandIn
) -> None:
    client.chat.completions.create(model=MODEL, messages=[user_says("Hello")])
    assert upstream.requests[0].header("Authorization") == f"Bearer {CLIENTS_KEY}"


def test_the_configured_key_is_sent_instead(
    service: Service, upstream: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", OPERATORS_KEY)
    with listening(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        post_raw(http, HELLO, Authorization=f"Bearer {CLIENTS_KEY}", **{"Api-Key": CLIENTS_KEY})
    assert upstream.requests[0].header("Authorization") == f"Bearer {OPERATORS_KEY}"
    assert CLIENTS_KEY not in str(upstream.requests[0].headers)


@pytest.mark.parametrize("configured", [True, False])
def test_our_api_key_is_never_sent_to_the_model_server(
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
    with listening(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        http.post("/login", data={"key": secret}, headers={"Origin": address})
        session = http.cookies.pop("recollect_session")
        for headers in (
            {"Authorization": bearer},
            {"X-API-Key": secret},
            {"Cookie": f"recollect_session={session}"},
        ):
            assert post_raw(http, HELLO, **headers)[0] == 200
            assert http.get("/v1/models", headers=headers).status_code == 200
        assert post_raw(http, HELLO)[0] == 401
    assert len(upstream.requests) == 6
    for request in upstream.requests:
        assert secret not in str(request.headers) and "rk_" not in str(request.headers)
        assert request.header("Authorization") == (
            f"Bearer {OPERATORS_KEY}" if configured else None
        )
        assert request.header("Cookie") is None


def test_no_key_is_stored_or_logged(
    service: Service,
    upstream: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", OPERATORS_KEY)
    upstream.replies.extend(
        [completion("Hi."), Reply(silent=True), plain({"error": f"bad key {OPERATORS_KEY}"}, 401)]
    )
    with listening(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        for _ in range(3):
            post_raw(http, HELLO, Authorization=f"Bearer {CLIENTS_KEY}")
    stored = str([(d.metadata, d.passages) for d in conversations(service)])
    logged = caplog.text + str(
        [record.__dict__ for record in caplog.records if record.name.startswith("recollect")]
    )
    for secret in (OPERATORS_KEY, CLIENTS_KEY):
        assert secret not in stored and secret not in logged
    assert "Hello" not in logged
    assert OPERATORS_KEY not in repr(service.upstream)


@pytest.mark.parametrize("scopes, toolsets", [(("read",), None), (("read", "write"), ("bus",))])
def test_a_key_without_the_scope_write_cannot_ask(
    service: Service,
    upstream: StandIn,
    key: MakeKey,
    user: str,
    scopes: tuple[str, ...],
    toolsets: Any,
) -> None:
    headers = key(scopes, user=user, toolsets=toolsets)
    with listening(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        assert post_raw(http, HELLO, **headers)[0] == 403
        assert http.post("/v1/embeddings", json={}, headers=headers).status_code == 403
    assert upstream.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Recollect-Session": "x" * 300},
        {"X-Recollect-Session": ""},
        {"X-Recollect-Namespace": "a b"},
        {"X-Recollect-Namespace": "x" * 65},
    ],
)
def test_invalid_sessions_and_namespaces_are_rejected(
    http: httpx.Client, upstream: StandIn, headers: dict[str, str]
) -> None:
    assert post_raw(http, HELLO, **headers)[0] == 400
    assert upstream.requests == []


# -- helpers -------------------------------------------------------------------------


def metric(http: httpx.Client, name: str) -> float:
    lines = http.get("/metrics").text.splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith((f"{name} ", f"{name}{{"))
    )


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for another thread."""
    pause = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("the condition did not become true")


def test_our_api_key_is_not_passed_on_even_if_we_require_none(
    http: httpx.Client, upstream: StandIn
) -> None:
    post_raw(
        http,
        HELLO,
        Authorization="Bearer rk_0123456789ab_secret",
        Cookie="recollect_session=rs_x",
        Referer="http://x/",
    )
    request = upstream.requests[0]
    assert not {"authorization", "cookie", "referer"} & {
        name.lower() for name, _ in request.headers
    }


def test_two_users_have_their_own_conversations(
    service: Service, upstream: StandIn, key: MakeKey, user: str
) -> None:
    ann, ben = f"{user}-ann", f"{user}-ben"
    upstream.replies.extend(completion("Hi.") for _ in range(2))
    anns, bens = key(user=ann), key(user=ben)
    history = [user_says("Hello"), {"role": "assistant", "content": "Hi."}, user_says("Mine?")]
    with listening(service) as address, httpx.Client(base_url=address, trust_env=False) as http:
        post_raw(http, HELLO, **anns, **{"X-Recollect-Session": "s"})
        post_raw(http, HELLO, **bens, **{"X-Recollect-Session": "s"})
        post_raw(http, {**HELLO, "messages": history}, **bens)
    assert canonical(only(service, ann)) == ["Hello", "Hi."]
    assert canonical(only(service, ben)) == ["Hello", "Hi.", "Mine?", "Answer 1 to Mine?"]
    assert only(service, ann).id != only(service, ben).id
