"""`POST /chat` of the Persistence API: ask the model and save both messages."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from asgi import MakeKey
from selection import few
from services import Service
from starlette.testclient import TestClient
from upstream import MODEL, Reply, StandIn, completion, compress, plain, running, stream

from recollect import Library

KEY = "sk-operator-0123456789"


@pytest.fixture(autouse=True)
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with running() as stand_in:
        monkeypatch.setenv("RECOLLECT_MODEL", f"{stand_in.address}#{MODEL}")
        monkeypatch.delenv("RECOLLECT_MODEL_KEY", raising=False)
        yield stand_in


def detail(client: TestClient, conversation: str, **headers: str) -> Any:
    return client.get(f"/conversations/{conversation}", headers=headers).json()


def test_the_message_and_the_answer_are_saved(client: TestClient, upstream: StandIn) -> None:
    response = client.post(
        "/chat", data={"message": "What is a zebra?", "session_id": "s-1", "namespace": "zoo"}
    )
    assert response.status_code == 200
    body = response.json()
    assert body.keys() == {
        "answer",
        "model",
        "tool_used",
        "tool_output",
        "context",
        "summary",
        "execution_time",
        "conversation_id",
        "session_id",
        "message_ids",
    }
    assert (body["answer"], body["model"], body["session_id"]) == (
        "Answer 1 to What is a zebra?",
        MODEL,
        "s-1",
    )
    assert upstream.requests[0].json == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "What is a zebra?"}],
    }
    saved = detail(client, body["conversation_id"])
    assert (saved["title"], saved["namespace"], saved["session_id"]) == (
        "What is a zebra?",
        "zoo",
        "s-1",
    )
    assert [m["id"] for m in saved["messages"]] == body["message_ids"]
    assert [(m["role"], m["content"], m["model"]) for m in saved["messages"]] == [
        ("user", "What is a zebra?", None),
        ("assistant", "Answer 1 to What is a zebra?", MODEL),
    ]


@pytest.mark.parametrize("kind", ["multipart", "urlencoded", "json"])
def test_the_body_may_be_json_or_either_kind_of_form(
    client: TestClient, upstream: StandIn, kind: str
) -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    fields: dict[str, Any] = {
        "message": "c",
        "model": "other",
        "search_mode": "hybrid",
        "history": json.dumps(history),
    }
    if kind == "json":
        response = client.post("/chat", json={**fields, "history": history})
    else:
        response = client.post(
            "/chat", data=fields, files=[("x", b"")] if kind == "multipart" else None
        )
    assert response.status_code == 200, response.text
    assert upstream.requests[0].json == {
        "model": "other",
        "messages": [*history, {"role": "user", "content": "c"}],
    }
    assert [
        m["content"] for m in detail(client, response.json()["conversation_id"])["messages"]
    ] == [
        "c",
        "Answer 1 to c",
    ]


def test_a_session_continues_and_a_request_without_one_starts_a_new_one(client: TestClient) -> None:
    first = client.post("/chat", json={"message": "a"}).json()
    second = client.post("/chat", json={"message": "b"}).json()
    again = client.post(
        "/chat", json={"message": "c", "session_id": first["session_id"], "namespace": "other"}
    ).json()
    assert first["session_id"] != second["session_id"]
    assert first["conversation_id"] == again["conversation_id"] != second["conversation_id"]
    saved = detail(client, first["conversation_id"])
    assert [m["content"] for m in saved["messages"]] == ["a", "Answer 1 to a", "c", "Answer 3 to c"]
    assert saved["namespace"] == "default"


def test_the_model_gets_the_session_history_unless_the_client_sends_one(
    client: TestClient, upstream: StandIn
) -> None:
    for message in ("a", "b"):
        client.post("/chat", json={"message": message, "session_id": "s"})
    messages = upstream.requests[1].json["messages"]
    assert [(m["role"], m["content"]) for m in messages] == [
        ("user", "a"),
        ("assistant", "Answer 1 to a"),
        ("user", "b"),
    ]
    history = [{"role": "user", "content": "sent"}]
    client.post("/chat", json={"message": "c", "session_id": "s", "history": history})
    assert upstream.requests[2].json["messages"] == [*history, {"role": "user", "content": "c"}]


def test_the_model_gets_no_human_only_message(client: TestClient, upstream: StandIn) -> None:
    hidden = {"role": "user", "content": "for people", "metadata": {"human_only": True}}
    client.post("/conversations/messages", json={"session_id": "s", "messages": [hidden]})
    client.post("/chat", json={"message": "Repeat the above.", "session_id": "s"})
    messages = upstream.requests[0].json["messages"]
    assert [m["content"] for m in messages] == ["Repeat the above."]


def test_a_session_created_by_another_route_continues(client: TestClient) -> None:
    conversation = client.post("/conversations", json={"session_id": "s-9", "title": "Mine"}).json()
    body = client.post("/chat", json={"message": "a", "session_id": "s-9"}).json()
    assert body["conversation_id"] == conversation["id"]
    assert detail(client, conversation["id"])["title"] == "Mine"


def test_only_the_last_fifty_messages_of_the_history_are_used(
    client: TestClient, upstream: StandIn
) -> None:
    history = [{"role": "user", "content": str(n)} for n in range(60)]
    client.post("/chat", data={"message": "x", "history": json.dumps(history)})
    messages = upstream.requests[0].json["messages"]
    assert [m["content"] for m in messages] == [*(str(n) for n in range(10, 60)), "x"]


def test_text_files_precede_the_message_and_are_saved_with_it(
    client: TestClient, upstream: StandIn
) -> None:
    files = [
        ("files", ("notes.md", "# Zebras\nare striped", "text/markdown")),
        ("files", ("dot.png", b"\x89PNG\0\xff", "image/png")),
    ]
    body = client.post("/chat", data={"message": "Sum it up"}, files=files).json()
    prompt = upstream.requests[0].json["messages"][-1]["content"]
    assert prompt.index("are striped") < prompt.index("dot.png") < prompt.index("Sum it up")
    question = detail(client, body["conversation_id"])["messages"][0]
    assert question["content"] == "Sum it up"
    text, image = question["attachments"]
    assert (text["name"], text["media_type"], text["bytes"]) == ("notes.md", "text/markdown", 20)
    assert text["text"] == "# Zebras\nare striped"
    assert (image["name"], image["bytes"], "text" in image) == ("dot.png", 6, False)


def test_a_long_file_is_truncated(client: TestClient, upstream: StandIn) -> None:
    files = [("files", ("long.txt", "x" * 150_000, "text/plain"))]
    body = client.post("/chat", data={"message": "What?"}, files=files).json()
    attachment = detail(client, body["conversation_id"])["messages"][0]["attachments"][0]
    assert (len(attachment["text"]), attachment["bytes"]) == (100_000, 150_000)
    assert 100_000 < len(upstream.requests[0].json["messages"][-1]["content"]) < 100_200


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "message"),
    ({"message": ""}, "message"),
    ({"message": "  \n"}, "message"),
    ({"message": "x" * 10_001}, "message"),
    ({"message": 3}, "message"),
    ({"message": "a", "namespace": "a b"}, "namespace"),
    ({"message": "a", "namespace": "x" * 65}, "namespace"),
    ({"message": "a", "search_mode": "telepathy"}, "search_mode"),
    ({"message": "a", "session_id": "x" * 300}, "session_id"),
    ({"message": "a", "model": ["m"]}, "model"),
    ({"message": "a", "history": "{"}, "history"),
    ({"message": "a", "history": "[" * 50_000}, "history"),
    ({"message": "a", "history": {"role": "user"}}, "history"),
    ({"message": "a", "history": [{"role": "tool", "content": "x"}]}, "history"),
    ({"message": "a", "history": [{"role": "user", "content": None}]}, "history"),
    ({"message": "a", "history": [3]}, "history"),
    ({"message": "a", "history": [{"role": "user", "content": "x" * 500_001}]}, "history"),
    ({"message": "a", "files": ["x"]}, "files"),
]


@pytest.mark.parametrize("body, name", few(BAD, 8))
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_invalid_fields_are_named_and_the_model_is_not_asked(
    client: TestClient, upstream: StandIn, body: dict[str, Any], name: str
) -> None:
    response = client.post("/chat", json=body)
    assert response.status_code == 400
    first = response.json()["error"]["details"]["fields"][0]["name"]
    assert first.split(".")[0] == name
    assert upstream.requests == []


def test_the_request_must_name_a_model_if_none_is_configured(
    client: TestClient, upstream: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_MODEL", upstream.address)
    assert client.post("/chat", json={"message": "a"}).status_code == 400
    assert client.post("/chat", json={"message": "a", "model": "m"}).status_code == 200


def test_the_error_names_the_setting_if_no_model_server_is_configured(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_MODEL")
    response = client.post("/chat", json={"message": "a"})
    assert response.status_code == 503 and "RECOLLECT_MODEL" in response.json()["detail"]


# -- failures ----------------------------------------------------------------------

LATER = plain({"error": {"message": f"slow down, {KEY}"}}, 429, Retry_After="7")
FAILURES: list[tuple[Reply, int, str]] = [
    (Reply(silent=True), 502, "UPSTREAM_ERROR"),
    (plain({"error": {"message": "overloaded"}}, 500), 502, "UPSTREAM_ERROR"),
    (plain({"error": {"message": f"wrong key {KEY}"}}, 401), 502, "UPSTREAM_ERROR"),
    (plain({"error": "no such model"}, 404), 502, "UPSTREAM_ERROR"),
    (plain({}, 504), 504, "UPSTREAM_TIMEOUT"),
    (LATER, 429, "RATE_LIMIT_EXCEEDED"),
    (plain({"hello": "world"}), 502, "UPSTREAM_ERROR"),
    (Reply(200, {"Content-Type": "text/html"}, [b"<html>"]), 502, "UPSTREAM_ERROR"),
    (
        Reply(200, {"Content-Type": "application/json"}, [b'{"choices"'], cut=True),
        502,
        "UPSTREAM_ERROR",
    ),
    (Reply(302, {"Location": "http://127.0.0.1:9/"}, []), 502, "UPSTREAM_ERROR"),
]


@pytest.mark.parametrize("reply, status, code", few(FAILURES, 4))
def test_a_failure_of_the_model_has_our_error_body_and_the_message_is_saved(
    client: TestClient,
    upstream: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    reply: Reply,
    status: int,
    code: str,
) -> None:
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", KEY)
    upstream.replies.append(reply)
    response = client.post("/chat", json={"message": "Are you there?", "session_id": "s"})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert KEY not in response.text
    (conversation,) = client.get("/conversations").json()["conversations"]
    assert [m["content"] for m in detail(client, conversation["id"])["messages"]] == [
        "Are you there?"
    ]
    if status == 429:
        assert (
            response.headers["Retry-After"] == "7" and response.json()["error"]["retry_after"] == 7
        )


def test_the_answer_is_returned_even_if_saving_fails(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Library, "ensure_conversation", fail)
    body = client.post("/chat", json={"message": "Hello"}).json()
    assert body["answer"] == "Answer 1 to Hello"
    assert "conversation_id" not in body and body["message_ids"] == []
    assert uuid.UUID(body["session_id"])
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert "recollect_not_recorded_total 1.0" in client.get("/metrics").text


def test_a_compressed_answer_is_decoded(client: TestClient, upstream: StandIn) -> None:
    upstream.replies.append(compress(completion("Grüße")))
    assert client.post("/chat", json={"message": "a"}).json()["answer"] == "Grüße"


# -- users and keys ------------------------------------------------------------------------


def test_the_clients_own_key_is_passed_on_if_we_require_none(
    client: TestClient, upstream: StandIn
) -> None:
    client.post("/chat", json={"message": "a"}, headers={"Authorization": "Bearer sk-mine"})
    assert upstream.requests[0].header("Authorization") == "Bearer sk-mine"


# -- streams ---


def read_events(text: str) -> list[tuple[str, Any]]:
    pairs = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n", 1)
        pairs.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return pairs


@pytest.mark.parametrize("request_", [{"json": {"stream": True}}, {"accept": True}])
def test_an_answer_is_streamed_on_request(
    client: TestClient, upstream: StandIn, request_: dict[str, Any]
) -> None:
    body = {"message": "What is a zebra?", "session_id": "s-1", **request_.get("json", {})}
    headers = {"Accept": "text/event-stream"} if "accept" in request_ else {}
    response = client.post("/chat", json=body, headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    (start_name, start), *deltas, (end_name, end) = read_events(response.text)
    assert (start_name, end_name, {name for name, _ in deltas}) == ("start", "done", {"delta"})
    assert len(deltas) > 1
    answer = "Answer 1 to What is a zebra?"
    assert "".join(delta["content"] for _, delta in deltas) == end["answer"] == answer
    assert start["message_ids"] == end["message_ids"][:1]
    assert upstream.requests[0].json["stream"] is True
    messages = detail(client, end["conversation_id"])["messages"]
    assert [message["id"] for message in messages] == end["message_ids"]
    assert messages[1]["content"] == answer


def test_a_model_that_does_not_stream_is_answered_as_a_stream(
    client: TestClient, upstream: StandIn
) -> None:
    upstream.replies.append(completion("All at once."))
    response = client.post("/chat", json={"message": "Hello", "stream": True})
    assert [name for name, _ in read_events(response.text)] == ["start", "delta", "done"]


def test_an_answer_that_breaks_off_is_saved_and_reported(
    client: TestClient, upstream: StandIn
) -> None:
    upstream.replies.append(stream("Half of an answer", cut=True))
    upstream.replies[0].pieces = upstream.replies[0].pieces[:3]
    response = client.post("/chat", json={"message": "Hello", "stream": True, "session_id": "s"})
    events = read_events(response.text)
    name, error = events[-1]
    assert (name, error["error"]["code"]) == ("error", "UPSTREAM_ERROR")
    text = "".join(data["content"] for name, data in events if name == "delta")
    messages = client.get("/conversations/by-session/s").json()["messages"]
    assert [message["content"] for message in messages] == ["Hello", text]
    assert text and "Half of an answer".startswith(text)


def test_an_error_of_the_model_is_no_stream(client: TestClient, upstream: StandIn) -> None:
    upstream.replies.append(plain({"error": {"message": "No such model."}}, 404))
    response = client.post("/chat", json={"message": "Hello", "stream": True})
    assert (response.status_code, "No such model" in response.text) == (502, True)


def test_sessions_of_two_users_with_the_same_id_are_separate(
    client: TestClient, key: MakeKey, user: str
) -> None:
    ann, ben = key(user=f"{user}-ann"), key(user=f"{user}-ben")
    first = client.post("/chat", json={"message": "a", "session_id": "s"}, headers=ann).json()
    second = client.post("/chat", json={"message": "b", "session_id": "s"}, headers=ben).json()
    assert first["conversation_id"] != second["conversation_id"]
    assert client.get(f"/conversations/{first['conversation_id']}", headers=ben).status_code == 404
    assert [m["content"] for m in detail(client, second["conversation_id"], **ben)["messages"]] == [
        "b",
        "Answer 2 to b",
    ]


def test_our_api_key_is_never_sent_to_the_model_server(
    client: TestClient,
    upstream: StandIn,
    key: MakeKey,
    user: str,
    service: Service,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    mine = key(user=user)
    assert client.post("/chat", json={"message": "a"}, headers=mine).status_code == 200
    answer = client.post("/chat", json={"message": "a"}, headers=key(("read",), user=user))
    assert answer.status_code == 403
    assert [request.header("Authorization") for request in upstream.requests] == [None]
    assert mine["Authorization"].removeprefix("Bearer ") not in caplog.text + str(upstream.requests)
