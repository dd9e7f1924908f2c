"""Lists with cursors, pages of messages, changes with JSON, and undo, through the REST API."""

from __future__ import annotations

from typing import Any

import pytest
from asgi import MakeKey
from starlette.testclient import TestClient

from recollect import Library

ID = "3f2a9c41-7d5e-4b8a-9c3d-1e2f3a4b5c6d"


def create(client: TestClient, *ids: str, **fields: Any) -> None:
    for id_ in ids:
        messages = [{"id": f"{id_}-{n}", "role": "user", "content": f"{n}"} for n in range(3)]
        body = {"id": id_, "title": f"About {id_}", "messages": messages, **fields}
        assert client.post("/conversations", json=body).status_code == 201


def pages(client: TestClient, **parameters: Any) -> Any:
    """The ids of each page, following the cursors."""
    cursor = ""
    while cursor is not None:
        page = client.get("/conversations", params={"cursor": cursor, **parameters}).json()
        yield [conversation["id"] for conversation in page["conversations"]]
        cursor = page["next_cursor"]


# -- lists ---


def test_conversations_are_listed_by_tag_source_and_pin(client: TestClient) -> None:
    create(client, "one", "two", "three")
    client.patch("/conversations/one", json={"tags": ["Trip"], "pinned": True})
    client.patch("/conversations/two", json={"tags": ["trip", "work"]})

    def list_ids(**parameters: Any) -> list[str]:
        (ids,) = pages(client, **parameters)
        return sorted(ids)

    assert list_ids(tag="TRIP") == ["one", "two"]
    assert list_ids(tag=["work", "nothing"]) == ["two"]
    assert list_ids(pinned=True) == ["one"]
    assert list_ids(pinned=False, source="recollect") == ["three", "two"]
    assert list_ids(source="chatgpt") == []


def test_facets_are_searched_by_a_text(client: TestClient) -> None:
    create(client, "one", metadata={"tags": ["Garden", "work"]})
    facets = client.get("/api/v1/facets", params={"text": "gard"}).json()
    assert facets == {"projects": [], "sources": [], "tags": [["Garden", 1]]}
    assert client.get("/api/v1/facets").json()["tags"] == [["Garden", 1], ["work", 1]]


def test_pinned_conversations_come_first_on_request(client: TestClient) -> None:
    create(client, *(f"c{n}" for n in range(6)))
    for id_ in ("c1", "c3"):
        client.patch(f"/conversations/{id_}", json={"pinned": True})
    assert list(pages(client, sort="pinned", limit=2)) == [["c3", "c1"], ["c5", "c4"], ["c2", "c0"]]
    assert list(pages(client, sort="pinned", limit=3)) == [["c3", "c1", "c5"], ["c4", "c2", "c0"]]


@pytest.mark.parametrize("sort", ["updated", "pinned", "added"])
def test_changes_do_not_shift_the_pages_of_a_cursor(client: TestClient, sort: str) -> None:
    ids = [f"c{n}" for n in range(12)]
    create(client, *ids)
    all_ids: list[str] = []
    for number, page in enumerate(pages(client, sort=sort, limit=3)):
        all_ids += page
        # One that was listed changes, one that was not, and a new one arrives.
        client.put(f"/conversations/{page[0]}", params={"title": "Changed"})
        if number == 0:
            client.post("/conversations/c2/messages", json={"role": "user", "content": "new"})
            client.patch("/conversations/c5", json={"pinned": True})
        create(client, f"new-{number}")
        client.delete(f"/conversations/{page[-1]}")
    expected = list(reversed(ids))
    if sort != "added":  # these moved to the top
        moved = {"updated": ["c2"], "pinned": ["c2", "c5"]}[sort]
        expected = [id_ for id_ in expected if id_ not in moved]
    assert all_ids == expected
    assert "c2" in next(pages(client, limit=10))  # it is now among the first


def test_a_cursor_belongs_to_its_list(client: TestClient) -> None:
    create(client, "one", "two")
    page = client.get("/conversations", params={"cursor": "", "limit": 1}).json()
    for parameters in (
        {"cursor": page["next_cursor"], "sort": "added"},
        {"cursor": "nonsense"},
        {"cursor": "W10"},
        {"cursor": page["next_cursor"], "offset": 1},
    ):
        response = client.get("/conversations", params=parameters)
        assert (response.status_code, "cursor" in response.text) == (400, True)


def test_a_list_by_offset_is_as_the_persistence_api_has_it(client: TestClient) -> None:
    create(client, "one", "two")
    page = client.get("/conversations", params={"offset": 1, "limit": 1}).json()
    assert page.keys() == {"conversations", "total", "limit", "offset"}
    assert (page["conversations"][0]["id"], page["total"]) == ("one", 2)


# -- messages ---


def test_messages_are_read_page_by_page_in_both_directions(client: TestClient) -> None:
    messages = [{"id": f"m{n}", "role": "user", "content": f"{n}"} for n in range(7)]
    client.post("/conversations", json={"id": "c", "messages": messages})

    def page(**parameters: Any) -> Any:
        return client.get("/conversations/c/messages", params={"limit": 3, **parameters}).json()

    def contents(page: Any) -> str:
        return "".join(message["content"] for message in page["messages"])

    first = page()
    assert (contents(first), first["total"], first["before"]) == ("012", 7, None)
    second = page(after=first["after"])
    last = page(after=second["after"])
    assert (contents(second), contents(last), last["after"]) == ("345", "6", None)
    assert contents(page(before=last["before"])) == "345"
    assert contents(page(before="m2")) == "01"
    assert contents(page(before="m0")) == ""
    assert contents(page(after="m6")) == ""


def test_a_page_of_messages_needs_a_message_that_exists(client: TestClient) -> None:
    create(client, "c")
    for parameters, status in (({"after": "nothing"}, 404), ({"after": "a", "before": "b"}, 400)):
        assert client.get("/conversations/c/messages", params=parameters).status_code == status
    assert client.get("/conversations/nothing/messages").status_code == 404


def test_an_id_that_ends_like_the_route_can_be_read(client: TestClient) -> None:
    create(client, "c", "c/messages")
    assert client.get("/conversations/c%2Fmessages").json()["title"] == "About c/messages"
    assert client.get("/conversations/c/messages").json()["total"] == 3


# -- changes ---


def test_a_conversation_is_changed_with_json(client: TestClient) -> None:
    create(client, "c", metadata={"a": 1, "b": 2})
    changed = client.patch(
        "/conversations/c",
        json={
            "title": "New",
            "project": "shop",
            "tags": ["x", "y"],
            "pinned": True,
            "metadata": {"a": None, "c": [3]},
        },
    )
    assert changed.status_code == 200
    body = changed.json()
    assert (body["title"], body["namespace"]) == ("New", "shop")
    assert body["metadata"] == {"b": 2, "c": [3], "tags": ["x", "y"], "pinned": True}
    body = client.patch("/conversations/c", json={"pinned": False, "tags": []}).json()
    assert body["metadata"] == {"b": 2, "c": [3]}
    assert client.patch("/conversations/nothing", json={"title": "x"}).status_code == 404


def test_short_ids_are_accepted_and_answered_with_whole_ones(client: TestClient) -> None:
    create(client, ID)
    assert client.get("/conversations/3f2a9c").json()["id"] == ID
    assert client.get("/conversations/3f2a9c/messages").json()["total"] == 3
    assert client.patch("/conversations/3f2a", json={"pinned": True}).json()["id"] == ID
    results = client.get("/api/v1/search", params={"q": "1", "conversation": "3f2a"}).json()
    assert [hit["conversation_id"] for hit in results["hits"]] == [ID]
    create(client, ID.replace("3f2a9c41", "3f2a9c42"))
    ambiguous = client.delete("/conversations/3f2a9c")
    assert ambiguous.status_code == 400
    assert ID in ambiguous.json()["detail"]
    assert client.delete("/conversations/3f2a9c41").json()["conversation_id"] == ID


def test_a_deletion_into_the_trash_is_undone(client: TestClient) -> None:
    create(client, "c")
    before = client.get("/conversations/c").json()
    deleted = client.delete("/conversations/c", params={"trash": True}).json()
    assert client.get("/conversations/c").status_code == 404
    (change,) = client.get("/api/v1/changes").json()["changes"]
    assert change == deleted["change"]
    undone = client.post(f"/api/v1/changes/{change['number']}/undo")
    assert undone.json() == change
    assert client.get("/conversations/c").json() == before
    again = client.post(f"/api/v1/changes/{change['number']}/undo")
    assert (again.status_code, "undone already" in again.text) == (404, True)


def test_a_limited_key_cannot_see_or_undo_changes(client: TestClient, key: MakeKey) -> None:
    limited = key(("read", "write"), toolsets=("conversations", "knowledge"))
    assert client.get("/api/v1/changes", headers=limited).status_code == 403
    assert client.post("/api/v1/changes/1/undo", headers=limited).status_code == 403


# -- saving ---


def test_a_message_to_a_deleted_conversation_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client, "c")
    add_messages = Library.add_messages

    def delete_first(library: Library, conversation: str, messages: Any, **options: Any) -> int:
        library.delete_conversation(conversation)
        return add_messages(library, conversation, messages, **options)

    monkeypatch.setattr(Library, "add_messages", delete_first)
    response = client.post("/conversations/c/messages", json={"role": "user", "content": "x"})
    assert (response.status_code, response.json()["detail"]) == (404, "Conversation not found")


def test_older_messages_set_the_dates_of_their_conversation(client: TestClient) -> None:
    times = ["2023-05-01T10:00:00+00:00", "2023-05-02T10:00:00+00:00"]
    messages = [{"role": "user", "content": "x", "timestamp": time} for time in times]
    created = client.post("/conversations", json={"id": "c", "messages": messages}).json()
    assert [created["created_at"], created["updated_at"]] == times
    older = "2022-01-01T00:00:00+00:00"
    client.post(
        "/conversations/c/messages", json={"role": "user", "content": "y", "timestamp": older}
    )
    detail = client.get("/conversations/c").json()
    assert [detail["created_at"], detail["updated_at"]] == [older, times[1]]


@pytest.mark.both_stores
def test_a_message_whose_secret_was_redacted_can_be_sent_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_REDACT", "on")
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    message = {"id": "m1", "role": "user", "content": f"my token {secret}"}
    requests = [
        ("/conversations/messages", {"session_id": "s1", "messages": [message]}),
        ("/conversations", {"id": "c1", "messages": [message]}),
        ("/conversations/c1/messages", {**message, "id": "m2"}),
    ]
    for path, body in requests:
        assert [client.post(path, json=body).status_code for _ in range(2)] == [201, 200]
    other = {**message, "content": "another text"}
    assert client.post("/conversations/c1/messages", json=other).status_code == 409
    assert secret not in client.get("/conversations/c1").text


def test_messages_of_an_sdk_are_saved_once(client: TestClient) -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    used = {"type": "tool_use", "id": "call_2", "name": "get_time", "input": {}}
    messages: list[dict[str, Any]] = [
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Rain in Rome?"}]},
        {"id": "m2", "role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
        {"id": "m3", "role": "tool", "tool_call_id": "call_1", "content": "Dry"},
        {"id": "m4", "role": "assistant", "content": [{"type": "text", "text": "No."}, used]},
    ]
    body = {"session_id": "s", "messages": messages}
    saved = client.post("/conversations/messages", json=body).json()
    assert (saved["message_ids"], saved["added"]) == (["m1", "m2", "m3", "m4"], 5)
    assert client.post("/conversations/messages", json=body).json()["added"] == 0
    stored = client.get(f"/conversations/{saved['conversation_id']}").json()
    assert stored["title"] == "Rain in Rome?"
    assert [m["tool_used"] for m in stored["messages"]] == [
        None,
        "get_weather",
        "get_weather",
        None,
        "get_time",
    ]
    created = client.post("/conversations", json={"id": "d", "messages": messages[1:]}).json()
    assert created["message_count"] == 4
    empty = client.post("/conversations/d/messages", json={"role": "user", "content": None})
    assert empty.status_code == 400
