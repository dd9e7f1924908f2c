"""The REST routes of the Persistence API (docs/contracts/persistence-api.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from clauses import proves
from persistence_fields import CONVERSATION, MESSAGE
from rest_client import Client
from selection import few
from services import make_app, make_service

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")


def at(conversation_id: str, tail: str = "") -> str:
    quoted = quote(conversation_id, safe="")
    if not quoted.strip("."):  # a client would resolve these as folders
        quoted = quoted.replace(".", "%2E")
    return f"/conversations/{quoted}{tail}"


def create(client: Client, id: str, *contents: str, **fields: Any) -> dict[str, Any]:
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": c} for n, c in enumerate(contents)
    ]
    response = client.post("/conversations", json={"id": id, "messages": messages, **fields})
    assert response.status_code == 201, response.text
    conversation: dict[str, Any] = response.json()
    return conversation


def list_ids(client: Client, **parameters: Any) -> list[str]:
    page = client.get("/conversations", params=parameters).json()
    return [conversation["id"] for conversation in page["conversations"]]


def search(client: Client, query: str, **parameters: Any) -> list[str]:
    """The contents of the messages that a search returns."""
    client.settle()
    answer = client.get("/conversations/search/messages", params={"query": query, **parameters})
    assert answer.status_code == 200, answer.text
    return [m["content"] for m in answer.json()["messages"]]


def error_of(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["success"] is False
    assert body["detail"] == body["error"]["message"]
    detail: str = body["detail"]
    return detail


# -- saving -------------------------------------------------------------------


@proves("C1-01", "C1-03", "C1-04")
@pytest.mark.every_store
def test_an_interaction_is_saved_in_one_call_and_the_session_continues(client: Client) -> None:
    first = client.post(
        "/conversations/messages",
        json={
            "session_id": "session-1",
            "namespace": "work",
            "messages": [
                {"role": "user", "content": "What is the capital of France?"},
                {
                    "role": "assistant",
                    "content": "Paris.",
                    "model": "gemini-2.0-flash-001",
                    "tool_used": "idle",
                },
            ],
        },
    )
    assert first.status_code == 201
    receipt = first.json()
    assert (receipt["success"], receipt["created"], receipt["added"]) == (True, True, 2)
    again = client.post(
        "/conversations/messages",
        json={"session_id": "session-1", "messages": [{"role": "user", "content": "And of Peru?"}]},
    )
    assert again.json() == {
        "success": True,
        "conversation_id": receipt["conversation_id"],
        "session_id": "session-1",
        "created": False,
        "message_ids": again.json()["message_ids"],
        "added": 1,
    }
    conversation = client.get("/conversations/by-session/session-1").json()
    assert conversation == client.get(at(receipt["conversation_id"])).json()
    assert conversation["session_id"] == "session-1"
    assert conversation["namespace"] == "work"
    messages = conversation["messages"]
    assert [(m["role"], m["content"], m["model"], m["tool_used"]) for m in messages] == [
        ("user", "What is the capital of France?", None, None),
        ("assistant", "Paris.", "gemini-2.0-flash-001", "idle"),
        ("user", "And of Peru?", None, None),
    ]
    ids = receipt["message_ids"] + again.json()["message_ids"]
    assert [m["id"] for m in messages] == ids
    assert len(list_ids(client)) == 1


@proves("C1-02")
@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("Hello", "Hello"),
        ("x" * 50, "x" * 50),
        ("x" * 51, "x" * 50 + "..."),
        ("Grüße 🎉 " * 10, ("Grüße 🎉 " * 10)[:50] + "..."),
    ],
)
def test_the_title_is_the_start_of_the_first_user_message(
    client: Client, content: str, title: str
) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": content}]
    client.post("/conversations/messages", json={"session_id": "s", "messages": messages})
    assert client.get("/conversations/by-session/s").json()["title"] == title


@proves("C1-04", "C1-16")
def test_every_field_of_a_message_comes_back(client: Client) -> None:
    create(client, "c1")
    message = {
        "id": "m1",
        "role": "assistant",
        "content": "Hi there!",
        "model": "gemini-2.0-flash-001",
        "tool_used": "web_search",
        "attachments": [{"name": "a.png", "size": 3}, "b.txt"],
        "citations": [{"url": "https://example.org", "title": "Example"}],
        "timestamp": "2025-10-09T19:37:48.123456+00:00",
    }
    assert client.post(at("c1", "/messages"), json=message).status_code == 201
    assert client.get(at("c1")).json()["messages"] == [{**message, "conversation_id": "c1"}]


@proves("C1-04")
@pytest.mark.parametrize(
    "invalid",
    [
        "yesterday",
        "2024-13-45",
        "9999-12-31T23:59:60",
        "-0001",
        "1" * 10_000,
        "",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_an_invalid_timestamp_is_an_error_that_names_the_field(
    client: Client, invalid: str
) -> None:
    create(client, "c1")
    answer = client.post(
        at("c1", "/messages"), json={"role": "user", "content": "x", "timestamp": invalid}
    )
    assert error_of(answer, 400).startswith("timestamp: ")
    assert client.get(at("c1")).json()["messages"] == []


@proves("C1-05")
def test_a_conversation_without_a_namespace_is_in_the_default_one(
    client: Client,
) -> None:
    assert create(client, "c1")["namespace"] == "default"
    assert create(client, "c2", namespace="work")["namespace"] == "work"


@proves("C1-06")
def test_creating_a_conversation_again_changes_nothing(client: Client) -> None:
    body = {
        "conversation_id": "my-conv-id",
        "session_id": "my-session-id",
        "title": "My Conversation",
        "namespace": "my-namespace",
        "metadata": {"project": "x"},
        "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
    }
    response = client.post("/conversations", json=body)
    assert response.status_code == 201
    assert (
        response.json().items()
        >= {
            "id": "my-conv-id",
            "session_id": "my-session-id",
            "title": "My Conversation",
            "namespace": "my-namespace",
            "metadata": {"project": "x"},
            "message_count": 2,
        }.items()
    )
    detail = client.get(at("my-conv-id")).json()
    again = client.post("/conversations", json=body)
    assert (again.status_code, again.json()) == (200, response.json())
    assert client.get(at("my-conv-id")).json() == detail


@proves("C1-06")
def test_an_id_or_session_of_another_conversation_is_a_conflict(client: Client) -> None:
    create(client, "c1", session_id="s1")
    create(client, "c2", "Hello", session_id="s2")
    for body in (
        {"id": "c1", "session_id": "s3"},
        {"id": "c3", "session_id": "s1"},
        {
            "id": "c2",
            "session_id": "s2",
            "messages": [{"role": "user", "content": "Something else"}],
        },
    ):
        answer = client.post("/conversations", json=body)
        error_of(answer, 409)
        assert answer.json()["error"]["code"] == "CONFLICT"
    assert sorted(list_ids(client)) == ["c1", "c2"]


@proves("C1-07")
def test_a_message_sent_again_is_stored_once(client: Client) -> None:
    create(client, "c1")
    message = {
        "message_id": "m1",
        "role": "user",
        "content": "Hello",
        "metadata": {"a": [1, 2.5, None]},
    }
    first = client.post(at("c1", "/messages"), json=message)
    assert first.status_code == 201
    assert first.json() == {
        "success": True,
        "message_id": "m1",
        "conversation_id": "c1",
        "created": True,
    }
    again = client.post(at("c1", "/messages"), json=message)
    assert again.status_code == 200
    assert again.json() == {
        "success": True,
        "message_id": "m1",
        "conversation_id": "c1",
        "created": False,
    }
    assert client.get(at("c1")).json()["message_count"] == 1


@proves("C1-07")
@pytest.mark.parametrize(
    "other",
    [
        {"content": "Goodbye"},
        {"role": "assistant"},
        {"model": "m"},
        {"timestamp": "2020-01-01"},
        {"author": "Ann"},
    ],
)
def test_a_different_message_with_the_same_id_is_a_conflict(
    client: Client, other: dict[str, str]
) -> None:
    create(client, "c1")
    message = {"id": "m1", "role": "user", "content": "Hello"}
    client.post(at("c1", "/messages"), json=message)
    error_of(client.post(at("c1", "/messages"), json=message | other), 409)
    assert [m["content"] for m in client.get(at("c1")).json()["messages"]] == ["Hello"]


@contextmanager
def serve(place: str, user: str) -> Iterator[Client]:
    """A separate server, from its start to its end."""
    service = make_service(place)
    with Client(service, make_app(service), user) as client:
        yield client
    service.close()


@proves("C1-08")
def test_saved_data_survives_a_restart(place: str, user: str) -> None:
    with serve(place, user) as client:
        create(client, "c1", "Hello", title="Kept")
        before = client.get(at("c1")).json()
    with serve(place, user) as client:
        assert client.get(at("c1")).json() == before
        assert search(client, "hello") == ["Hello"]


@proves("C1-09")
@pytest.mark.parametrize(
    "invalid",
    [
        {"role": "user", "content": "second", "timestamp": "never"},
        {"role": "user", "content": "second", "parent_id": "nobody"},
        {"role": "user", "content": "second", "id": "taken"},
        {"role": "user", "content": "second", "id": "first"},
    ],
)
def test_an_interaction_is_saved_completely_or_not_at_all(
    client: Client, invalid: dict[str, str]
) -> None:
    client.post(
        "/conversations/messages",
        json={
            "session_id": "s",
            "messages": [{"id": "taken", "role": "user", "content": "before"}],
        },
    )
    answer = client.post(
        "/conversations/messages",
        json={
            "session_id": "s",
            "messages": [{"id": "first", "role": "user", "content": "first"}, invalid],
        },
    )
    assert answer.status_code in (400, 409)
    (message,) = client.get("/conversations/by-session/s").json()["messages"]
    assert message["content"] == "before"


@proves("C1-06", "C1-07", "C1-03")
def test_concurrent_requests_store_a_message_once(client: Client) -> None:
    message = {"id": "m", "role": "user", "content": "Hello"}
    interaction = {"session_id": "s", "messages": [message, {**message, "id": "n"}]}

    def send_all(_: int) -> list[int]:
        return [
            client.post(path, json=body).status_code
            for path, body in (
                ("/conversations", {"id": "c", "messages": [message]}),
                ("/conversations/c/messages", {**message, "id": "o"}),
                ("/conversations/messages", interaction),
            )
        ]

    with client, ThreadPoolExecutor(8) as pool:
        statuses = [*pool.map(send_all, range(24))]
    for statuses_of_route in zip(*statuses, strict=True):
        assert set(statuses_of_route) <= {200, 201}
        assert 201 in statuses_of_route
    assert client.get("/conversations/c").json()["message_count"] == 2
    assert client.get("/conversations/by-session/s").json()["message_count"] == 2
    assert client.get("/conversations").json()["total"] == 2


# -- listing ------------------------------------------------------------------


@proves("C1-10")
def test_the_list_has_the_documented_fields(client: Client) -> None:
    assert client.get("/conversations").json() == {
        "conversations": [],
        "total": 0,
        "limit": 50,
        "offset": 0,
    }
    create(client, "c1", "Hello", "Hi", title="Greetings")
    answer = client.get("/conversations")
    assert answer.headers["content-type"] == "application/json"
    page = answer.json()
    assert page.keys() == {"conversations", "total", "limit", "offset"}
    (conversation,) = page["conversations"]
    assert conversation.keys() == CONVERSATION
    assert (
        conversation.items()
        >= {"id": "c1", "session_id": "c1", "title": "Greetings", "message_count": 2}.items()
    )
    assert TIME.fullmatch(conversation["created_at"])
    assert TIME.fullmatch(conversation["updated_at"])


@pytest.mark.parametrize(
    ("parameters", "limit", "offset"),
    [
        ({}, 50, 0),
        ({"limit": 0}, 1, 0),
        ({"limit": -5}, 1, 0),
        ({"limit": 201}, 200, 0),
        ({"limit": "1" + "0" * 30}, 200, 0),
        ({"offset": -1}, 50, 0),
        ({"limit": 20, "offset": 20}, 20, 20),
    ],
)
@proves("C1-11")
def test_limits_are_clamped(
    client: Client, parameters: dict[str, Any], limit: int, offset: int
) -> None:
    create(client, "c1")
    page = client.get("/conversations", params=parameters).json()
    assert (page["limit"], page["offset"], page["total"]) == (limit, offset, 1)


@proves("C1-12")
def test_pages_list_every_conversation_once_with_an_exact_total(client: Client) -> None:
    ids = [f"c{n}" for n in range(7)]
    for id_ in ids:
        create(client, id_)
    pages = [
        client.get("/conversations", params={"limit": 3, "offset": offset}).json()
        for offset in (0, 3, 6, 9)
    ]
    assert [len(p["conversations"]) for p in pages] == [3, 3, 1, 0]
    assert [p["total"] for p in pages] == [7, 7, 7, 7]
    assert [c["id"] for p in pages for c in p["conversations"]] == ids[::-1]


@proves("C1-13")
def test_the_list_is_filtered_by_namespace(client: Client) -> None:
    for id_, namespace in (("a", "work"), ("b", "work-2"), ("c", "default"), ("d", "Work")):
        create(client, id_, namespace=namespace)
    page = client.get("/conversations", params={"namespace": "work"}).json()
    assert ([c["id"] for c in page["conversations"]], page["total"]) == (["a"], 1)
    assert list_ids(client, namespace="wor%") == []
    assert len(list_ids(client, namespace="")) == 4


@proves("C1-14")
@pytest.mark.every_state
def test_the_list_is_searched_by_title_or_id(client: Client) -> None:
    create(client, "abc-123", "python inside", title="Rust lifetimes")
    create(client, "def-456", title="GRÜSSE aus Köln")
    create(client, "ghi_789", title="100% done")
    client.settle()
    for text, ids in {
        "LIFETIMES": ["abc-123"],
        "BC-1": ["abc-123"],
        "grüße": ["def-456"],
        "%": ["ghi_789"],
        "_": ["ghi_789"],
        "python": [],
        "' or 1=1 --": [],
    }.items():
        page = client.get("/conversations", params={"search": text}).json()
        assert ([c["id"] for c in page["conversations"]], page["total"]) == (ids, len(ids)), text
    assert list_ids(client, search="rust", namespace="default") == ["abc-123"]
    assert list_ids(client, search="rust", namespace="other") == []


@proves("C1-15")
def test_the_last_changed_conversation_comes_first(client: Client) -> None:
    for id_ in ("a", "b", "c"):
        create(client, id_)
    assert list_ids(client) == ["c", "b", "a"]
    client.post(at("a", "/messages"), json={"role": "user", "content": "again"})
    assert list_ids(client) == ["a", "c", "b"]
    client.put(at("b"), params={"title": "B"})
    assert list_ids(client) == ["b", "a", "c"]


# -- one conversation ---------------------------------------------------------


@proves("C1-16")
def test_a_conversation_has_the_documented_fields(client: Client) -> None:
    create(client, "c1", "Hello", "Hi there!", title="Greetings", metadata={"tags": ["x"]})
    conversation = client.get(at("c1")).json()
    assert conversation.keys() == CONVERSATION | {"messages"}
    assert (conversation["message_count"], conversation["metadata"]) == (2, {"tags": ["x"]})
    assert [m.keys() for m in conversation["messages"]] == [MESSAGE, MESSAGE]
    first, second = conversation["messages"]
    assert first | {"id": "", "timestamp": ""} == {
        "id": "",
        "conversation_id": "c1",
        "role": "user",
        "content": "Hello",
        "model": None,
        "tool_used": None,
        "attachments": [],
        "citations": [],
        "timestamp": "",
    }
    assert (second["role"], second["content"]) == ("assistant", "Hi there!")
    assert TIME.fullmatch(first["timestamp"])
    assert first["timestamp"] <= second["timestamp"]


@proves("C1-17")
@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.get("/conversations/none"),
        lambda c: c.put("/conversations/none?title=x"),
        lambda c: c.delete("/conversations/none"),
        lambda c: c.delete("/conversations/none?undo=true"),
        lambda c: c.post("/conversations/none/export?format=txt"),
        lambda c: c.post("/conversations/none/messages", json={"role": "user", "content": "x"}),
        lambda c: c.post(
            "/conversations/none/messages", json={"role": "user", "content": "x", "parent_id": "y"}
        ),
        lambda c: c.get("/conversations/search/messages?query=x&conversation_id=none"),
        lambda c: c.get("/conversations/by-session/none"),
    ],
)
def test_an_unknown_conversation_is_not_found(client: Client, ask: Callable[[Client], Any]) -> None:
    answer = ask(client)
    assert error_of(answer, 404) == "Conversation not found"
    assert answer.json()["error"]["code"] == "NOT_FOUND"


@proves("C1-18", "C1-20")
@pytest.mark.parametrize(
    "title", few(["New Title", "", "Zażółć 🎉", "a\r\nX-Evil: 1", "<b>&amp;", "x" * 5_000, "a\0b"])
)
def test_a_title_can_be_changed(client: Client, title: str) -> None:
    create(client, "c1", "Hello", title="Old")
    answer = client.put(at("c1"), params={"title": title})
    assert (answer.status_code, answer.json()) == (200, {"success": True, "conversation_id": "c1"})
    assert client.get(at("c1")).json()["title"] == title
    assert list_ids(client, search="Old") == []
    assert "x-evil" not in client.post(at("c1", "/export?format=md")).headers


@proves("C1-19", "C1-20")
def test_an_update_without_a_title_succeeds_and_changes_updated_at(client: Client) -> None:
    create(client, "c1", title="Same")
    create(client, "c2")
    before = client.get(at("c1")).json()
    answer = client.put(at("c1"))
    assert (answer.status_code, answer.json()) == (200, {"success": True, "conversation_id": "c1"})
    after = client.get(at("c1")).json()
    assert after["updated_at"] > before["updated_at"]
    assert after | {"updated_at": ""} == before | {"updated_at": ""}
    assert list_ids(client) == ["c1", "c2"]


@proves("C1-24")
def test_namespace_and_tags_can_be_changed(client: Client) -> None:
    create(client, "c1", "Hello", title="Same", metadata={"kept": True})
    client.put(at("c1"), params={"namespace": "work", "tags": ["idea", "later"]})
    conversation = client.get(at("c1")).json()
    assert (conversation["title"], conversation["namespace"]) == ("Same", "work")
    assert conversation["metadata"] == {"kept": True, "tags": ["idea", "later"]}
    assert list_ids(client, namespace="work") == ["c1"]
    assert client.get("/api/v1/search", params={"q": "hello", "tag": "idea"}).json()["total"] == 1
    client.put(at("c1"), params={"tags": ""})
    assert client.get(at("c1")).json()["metadata"] == {"kept": True}


@proves("C1-20", "C1-21")
@pytest.mark.every_state
def test_a_deleted_conversation_is_not_found_anywhere(client: Client) -> None:
    create(client, "c1", "the word zebrafish", title="A zebrafish title")
    create(client, "c2", "other")
    client.settle()
    answer = client.delete(at("c1"))
    body = answer.json()
    assert body.pop("purge") in ("pending", "done")
    assert (answer.status_code, body) == (200, {"success": True, "conversation_id": "c1"})
    error_of(client.get(at("c1")), 404)
    error_of(client.post(at("c1", "/export")), 404)
    error_of(client.delete(at("c1")), 404)
    assert list_ids(client) == ["c2"]
    assert search(client, "zebrafish") == []
    assert client.get("/api/search?q=zebrafish").json()["total"] == 0
    assert client.get("/api/v1/search?q=zebrafish").json()["hits"] == []
    assert client.get("/conversations/search/messages?query=other").json()["total"] == 1


@proves("C1-21")
@pytest.mark.sqlite_only
def test_the_files_keep_no_byte_of_a_deleted_conversation(place: str, user: str) -> None:
    with serve(place, user) as client:
        create(client, "c1", "the word zebrafish", title="An axolotl title")
        assert client.get("/api/v1/search?q=zebrafish").json()["total"] == 1
        client.delete(at("c1"))
    files = [file for file in Path(place).rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert b"zebrafish" not in file.read_bytes(), file
        assert b"axolotl" not in file.read_bytes(), file


IDS = [
    "plain",
    "a/b",
    "/",
    "//x",
    "a/messages",
    "a/export",
    "messages",
    "restore",
    "search",
    "search/other",
    "ü",
    "..",
    ".",
    "../../etc/passwd",
    "%2f",
    "%",
    "a b",
    "a?b",
    "a#b",
    "a&b=c",
    "a+b",
    "a;b",
    "'",
    '"',
    "\\",
    "<script>",
    "line\nbreak",
    "end\n",
    "tab\t",
    "東京",
    "🎉",
    "x" * 400,
    " ",
    "CON",
    "a\u200bb",
    "\u202egnp",
]


@proves("C1-22")
@pytest.mark.parametrize(
    "ids", [IDS[::3], pytest.param(IDS, marks=pytest.mark.full)], ids=["some", "all"]
)
def test_an_id_can_contain_any_character(client: Client, ids: list[str]) -> None:
    for id_ in ids:
        use_every_route(client, id_)


def use_every_route(client: Client, id: str) -> None:
    create(client, id, "Hello")
    assert client.get(at(id)).json()["id"] == id
    assert client.put(at(id), params={"title": "New"}).json() == {
        "success": True,
        "conversation_id": id,
    }
    answer = client.post(at(id, "/messages"), json={"role": "user", "content": "More"})
    assert answer.json()["conversation_id"] == id
    assert client.post(at(id, "/export?format=json")).json()["title"] == "New"
    conversation = client.get(at(id)).json()
    assert [m["content"] for m in conversation["messages"]] == ["Hello", "More"]
    assert {m["conversation_id"] for m in conversation["messages"]} == {id}
    assert search(client, "More", conversation_id=id) == ["More"]
    removal = client.delete(at(id)).json()
    assert (removal["success"], removal["conversation_id"]) == (True, id)
    error_of(client.get(at(id)), 404)
    assert list_ids(client) == []


@proves("C1-23")
def test_a_deleted_conversation_can_be_restored_unchanged(client: Client) -> None:
    create(
        client,
        "c1",
        "Hello",
        "Hi",
        title="T",
        namespace="work",
        session_id="s1",
        metadata={"tags": ["x"]},
    )
    branch = {
        "id": "m",
        "role": "user",
        "content": "Another way",
        "parent_id": "c1:0",
        "author": "Ann",
        "model": "m1",
        "metadata": {"deep": {"a": [1, None, "\ud800"]}},
        "visibility": "human_only",
    }
    answer = client.post(at("c1", "/messages"), content=json.dumps(branch), headers=JSON)
    assert answer.status_code == 201
    export = client.post(at("c1", "/export")).json()
    removal = client.delete(at("c1"), params={"undo": True}).json()
    assert removal.pop("purge") in ("pending", "done")
    assert removal == {"success": True, "conversation_id": "c1", "conversation": export}
    error_of(client.get(at("c1")), 404)
    answer = client.post(
        "/conversations/restore", content=json.dumps(removal["conversation"]), headers=JSON
    )
    assert (answer.status_code, answer.json()) == (
        201,
        {"success": True, "conversation_id": "c1"},
    )
    assert client.post(at("c1", "/export")).json() == export
    assert search(client, "another way") == ["Another way"]
    assert client.get("/conversations/by-session/s1").json()["id"] == "c1"
    again = client.post("/conversations/restore", content=json.dumps(export), headers=JSON)
    assert again.status_code == 200


# -- searching messages -------------------------------------------------------


@proves("C1-25")
@pytest.mark.every_state
@pytest.mark.every_store
def test_messages_of_a_search_have_the_documented_fields(client: Client) -> None:
    create(client, "c1", "Tell me about Python", "It is a snake.")
    client.settle()
    answer = client.get("/conversations/search/messages?query=python&limit=50").json()
    assert answer.keys() == {"messages", "total"}
    (message,) = answer["messages"]
    assert answer["total"] == 1
    assert message == client.get(at("c1")).json()["messages"][0]
    assert message.keys() == MESSAGE


@proves("C1-26")
@pytest.mark.parametrize("parameters", [{}, {"query": ""}, {"query": "  \t\n"}, {"limit": 5}])
def test_a_search_needs_a_query(client: Client, parameters: dict[str, Any]) -> None:
    answer = client.get("/conversations/search/messages", params=parameters)
    assert error_of(answer, 400) == "Query parameter 'query' must not be empty"


TEXTS = {
    "grüße aus köln": "Guten Tag, GRÜSSE aus Köln",
    "привет, МИР": "ПРИВЕТ, мир",
    "東京タワー": "今日は東京タワーに行きました",
    "🎉": "deployed 🎉🎉 today",
    '"STOP\\now"': 'he said "stop\\now"',
    "100% OFF": "price is 100% off",
    "KE_CA": "call snake_case()",
    "IT'S STATE-OF-THE-ART, C++ FOO.BAR": "it's state-of-the-art, c++ foo.bar",
    "' or 1=1 --": "' or 1=1 -- ;drop table",
    '(" NEAR(': 'unclosed (" NEAR(',
}
"""Queries with the message that each matches."""


@proves("C1-27")
@pytest.mark.every_state
def test_a_query_matches_literally_in_any_case_and_alphabet(client: Client) -> None:
    create(client, "c1", "something else", *TEXTS.values())
    for query, content in TEXTS.items():
        assert search(client, query) == [content], query
        assert search(client, f"  {query}  ") == [content], query


@proves("C1-28")
@pytest.mark.every_state
def test_a_search_can_be_limited_to_one_conversation(client: Client) -> None:
    create(client, "c1", "python one")
    create(client, "c2", "python two")
    assert search(client, "python", conversation_id="c1") == ["python one"]
    assert search(client, "python", conversation_id="") == ["python two", "python one"]
    answer = client.get(
        "/conversations/search/messages", params={"query": "python", "conversation_id": "c3"}
    )
    assert error_of(answer, 404) == "Conversation not found"


@proves("C1-29", "C1-30")
@pytest.mark.every_state
def test_the_newest_message_comes_first_and_the_total_is_exact(client: Client) -> None:
    create(client, "c1")
    for n in range(5):
        moment = f"2025-10-{9 + n:02}T00:00:00+00:00"
        client.post(
            at("c1", "/messages"),
            json={"role": "user", "content": f"python {n}", "timestamp": moment},
        )
    client.settle()
    answer = client.get(
        "/conversations/search/messages", params={"query": "python", "limit": 2}
    ).json()
    assert [m["content"] for m in answer["messages"]] == ["python 4", "python 3"]
    assert answer["total"] == 5
    assert search(client, "python", limit=2, offset=4) == ["python 0"]
    assert len(search(client, "python", limit=0)) == 1
    assert len(search(client, "python", limit=10**9)) == 5
    error_of(
        client.get("/conversations/search/messages", params={"query": "python", "limit": "x"}), 400
    )


# -- exporting ----------------------------------------------------------------


@pytest.fixture
def greetings(client: Client) -> str:
    """A conversation to export; the time it was created."""
    create(client, "c1", title="My Conversation")
    for message in (
        {
            "id": "m1",
            "role": "user",
            "content": "Hello",
            "timestamp": "2025-10-09T19:37:47.783681+00:00",
        },
        {
            "id": "m2",
            "role": "assistant",
            "content": "Hi there!",
            "model": "gemini-2.0-flash-001",
            "timestamp": "2025-10-09T19:37:48.123456+00:00",
        },
    ):
        client.post(at("c1", "/messages"), json=message)
    created_at: str = client.get(at("c1")).json()["created_at"]
    return created_at


@proves("C1-31", "C1-34")
@pytest.mark.parametrize("parameters", [{}, {"format": "json"}])
def test_the_json_export_has_the_whole_conversation(
    client: Client, greetings: str, parameters: dict[str, str]
) -> None:
    export = client.post(at("c1", "/export"), params=parameters).json()
    detail = client.get(at("c1")).json()
    assert {key: export[key] for key in CONVERSATION} == {key: detail[key] for key in CONVERSATION}
    assert [{key: m[key] for key in MESSAGE} for m in export["messages"]] == detail["messages"]
    assert [m["parent_id"] for m in export["messages"]] == [None, "m1"]


@proves("C1-32")
def test_the_plain_text_export_is_as_documented(client: Client, greetings: str) -> None:
    answer = client.post(at("c1", "/export"), params={"format": "txt"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "content": f"""Conversation: My Conversation
Created: {greetings}
Namespace: default
==================================================

USER: Hello

ASSISTANT: Hi there!
  (Model: gemini-2.0-flash-001)
""",
        "format": "txt",
    }


@proves("C1-33")
def test_the_markdown_export_is_as_documented(client: Client, greetings: str) -> None:
    assert client.post(at("c1", "/export"), params={"format": "md"}).json() == {
        "content": f"""# My Conversation

**Created:** {greetings}
**Namespace:** default
**Messages:** 2

---

### 👤 User

Hello

### 🤖 Assistant
*Model: gemini-2.0-flash-001*

Hi there!
""",
        "format": "md",
    }


@proves("C1-34")
@pytest.mark.parametrize("format", ["xml", "", "JSON", "json ", "../md", "html"])
def test_another_format_is_refused(client: Client, greetings: str, format: str) -> None:
    answer = client.post(at("c1", "/export"), params={"format": format})
    assert error_of(answer, 400) == "Invalid format. Supported: json, txt, md"


# -- errors -------------------------------------------------------------------

JSON = {"content-type": "application/json"}


@proves("C1-35")
def test_all_errors_share_one_envelope(client: Client) -> None:
    answer = client.get("/conversations/none", headers={"X-Request-ID": "my-request"})
    body = answer.json()
    assert TIME.fullmatch(body["error"].pop("timestamp"))
    assert body == {
        "success": False,
        "detail": "Conversation not found",
        "error": {
            "code": "NOT_FOUND",
            "message": "Conversation not found",
            "details": {"status_code": 404, "path": "/conversations/none"},
            "retry_after": None,
        },
        "request_id": "my-request",
    }
    assert answer.headers["x-request-id"] == "my-request"


INVALID_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"5",
    b"NaN",
    b'{"title": NaN}',
    b'{"metadata": {"a": Infinity}}',
    b'{"metadata": {"a": -Infinity}}',
    b"\xff\xfe\xfd",
    b'{"title": "a", "title": "b"}',
    b'{"title": 5}',
    b'{"title": null}',
    b'{"metadata": []}',
    b'{"metadata": "{}"}',
    b'{"messages": {}}',
    b'{"messages": [{}]}',
    b'{"messages": [{"role": "user", "content": null}]}',
    b'{"messages": [{"role": 1, "content": "x"}]}',
    b'{"messages": [{"role": "", "content": "x"}]}',
    b'{"id": ""}',
    b'{"id": "' + b"x" * 501 + b'"}',
    b'{"namespace": ""}',
    b'{"metadata": {"a": ' + b"1" * 5000 + b"}}",
    b'{"metadata": {"a": ' + b"[" * 250 + b"]" * 250 + b"}}",
    b'{"metadata": ' + b'{"a":' * 100_000,
    b"[" * 1_000_000,
    b'{"user_id": "somebody"}',
    b'{"owner": "somebody"}',
    b'{"_context": {"user": "somebody"}}',
]


@proves("C1-36")
def test_an_invalid_body_is_refused(client: Client) -> None:
    for body in INVALID_BODIES:
        error_of(client.post("/conversations", content=body, headers=JSON), 400)
    assert list_ids(client) == []


@proves("C1-36")
def test_only_json_is_accepted(client: Client) -> None:
    for path in (
        "/conversations",
        "/conversations/messages",
        "/conversations/x/messages",
        "/conversations/restore",
        "/api/threads",
        "/api/threads/x/messages",
    ):
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "",
            "application/jsonp",
        ):
            answer = client.post(path, content=b"{}", headers={"content-type": kind})
            error_of(answer, 415)
            assert answer.json()["error"]["code"] == "UNSUPPORTED_MEDIA_TYPE"


@proves("C1-36")
def test_any_text_comes_back_unchanged(client: Client) -> None:
    text = (
        "NUL \0 lone \ud800 escape \x1b[31m bidi \u202e tag \U000e0041 zwj 👩‍👩‍👧 "
        + "e"
        + "\u0301" * 1_000
    )
    body = {
        "id": "c1",
        "title": text,
        "messages": [{"role": "user", "content": text, "metadata": {"x": text}}],
    }
    assert client.post("/conversations", content=json.dumps(body), headers=JSON).status_code == 201
    conversation = client.get(at("c1")).json()
    assert conversation["title"] == text
    assert conversation["messages"][0]["content"] == text
    assert client.post(at("c1", "/export")).json()["messages"][0]["metadata"] == {"x": text}
    assert client.post(at("c1", "/export?format=txt")).json()["content"].count(text) == 2


@proves("C1-37")
def test_responses_forbid_caching(client: Client) -> None:
    create(client, "c1", "Hello")
    for answer in (
        client.get("/conversations"),
        client.get(at("c1")),
        client.get("/conversations/none"),
        client.post(at("c1", "/export")),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
