"""An agent learns that a message for people is there, and nothing of what it says, by any route."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import people
import pytest
from people import STORES, World, quoted
from starlette.testclient import TestClient

from recollect.model.audience import MASK, is_marked_human_only

SECRET = "quaggasecret"  # only in what people may see
OPEN = "zebraopen"  # in what everybody may see, and in the secret message too


@pytest.fixture(scope="module", params=STORES)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with people.world(request, tmp_path_factory) as made:
        yield made


@dataclass
class Scene:
    person: TestClient
    agent: TestClient
    conversation: str
    thread: str


@pytest.fixture
def scene(world: World, user: str) -> Scene:
    person, agent = world.client(user), world.client(user, agent=True)
    metadata = {"visibility": "human_only", "ui_type": "card", "note": SECRET}
    hidden = {
        "id": "hidden",
        "role": "user",
        "content": f"{OPEN} {SECRET}",
        "author": "boss",
        "metadata": metadata,
        "attachments": [{"name": SECRET}],
        "citations": [{"url": f"https://{SECRET}.example"}],
    }
    shown = {"id": "shown", "role": "user", "content": f"{OPEN} for all"}
    saved = person.post(
        "/conversations/messages", json={"session_id": "s", "messages": [hidden, shown]}
    )
    assert saved.status_code == 201
    thread = person.post("/api/threads", json={"topic": "t"}).json()["id"]
    for message in (
        {
            "author": "boss",
            "content": f"{OPEN} {SECRET}",
            "human_only": True,
            "metadata": {"note": SECRET},
        },
        {"author": "boss", "content": f"{OPEN} for all"},
    ):
        assert person.post(f"/api/threads/{thread}/messages", json=message).status_code == 201
    return Scene(person, agent, saved.json()["conversation_id"], thread)


def test_a_title_is_not_made_of_what_only_people_may_see(scene: Scene) -> None:
    title = scene.person.get(f"/conversations/{scene.conversation}").json()["title"]
    assert title == f"{OPEN} for all"


def test_routes_of_contract_1_mask_for_agents(scene: Scene) -> None:
    path = f"/conversations/{scene.conversation}"
    for detail in (scene.agent.get(path), scene.agent.get("/conversations/by-session/s")):
        hidden, shown = detail.json()["messages"]
        assert (hidden["id"], hidden["content"], hidden["attachments"], hidden["citations"]) == (
            "hidden",
            MASK,
            [],
            [],
        )
        assert shown["content"] == f"{OPEN} for all"
    found = scene.agent.get(f"/conversations/search/messages?query={OPEN}").json()
    assert found["total"] == 4
    assert sorted(m["content"] for m in found["messages"]) == [
        MASK,
        MASK,
        f"{OPEN} for all",
        f"{OPEN} for all",
    ]
    for format_ in ("txt", "md"):
        content = scene.agent.post(f"{path}/export?format={format_}").json()["content"]
        assert MASK in content
        assert SECRET not in content
    exported = scene.agent.post(f"{path}/export").json()["messages"][0]
    assert exported["content"] == MASK
    assert exported["metadata"] == {
        "visibility": "human_only",
        "ui_type": "card",
        "content_hidden": True,
        "content_hidden_reason": "human_only",
    }


def test_the_library_s_own_search_masks_for_agents(scene: Scene) -> None:
    for parameters in (
        {"q": OPEN},
        {"q": OPEN, "score": "fts"},
        {"q": OPEN, "group": "conversation"},
        {"q": SECRET},
    ):
        answer = scene.agent.get("/api/v1/search", params=parameters).json()
        assert answer["hits"]
        for hit in (one for top in answer["hits"] for one in (top, *top["also"])):
            if hit["visibility"] == "human_only":
                assert (hit["snippet"], hit["marks"], hit["terms"], hit["parts"]) == (
                    MASK,
                    [],
                    [],
                    {},
                )
            else:
                assert OPEN in hit["snippet"]
    seen = scene.person.get("/api/v1/search", params={"q": SECRET}).json()["hits"]
    assert {hit["visibility"] for hit in seen} == {"human_only"}
    assert all(SECRET in hit["snippet"] for hit in seen)


def test_what_is_like_a_masked_message_is_not_told(scene: Scene) -> None:
    asked = {"conversation": scene.conversation, "message": "hidden"}
    assert scene.person.get("/api/v1/related", params=asked).status_code == 200
    assert scene.agent.get("/api/v1/related", params=asked).status_code == 403
    assert (
        scene.agent.get("/api/v1/related", params=asked | {"message": "shown"}).status_code == 200
    )
    assert scene.agent.get("/api/v1/related", params=asked | {"message": "none"}).status_code == 404


def test_an_agent_cannot_take_masked_messages_along_nor_lose_them(scene: Scene) -> None:
    path = f"/conversations/{scene.conversation}"
    before = scene.person.post(f"{path}/export").json()
    answer = scene.agent.delete(path, params={"undo": True})
    assert answer.status_code == 403
    assert SECRET not in answer.text
    exported = scene.agent.post(f"{path}/export").json()
    assert scene.agent.post("/conversations/restore", json=exported).status_code == 409
    assert scene.person.post(f"{path}/export").json() == before


def asked_of(
    operation: dict[str, Any], method: str, path: str, scene: Scene, word: str
) -> dict[str, Any] | None:
    """A request of a route that could show something: filled with the ids and the word."""
    ids = {
        "conversation_id": scene.conversation,
        "conversation": scene.conversation,
        "session_id": "s",
        "thread_id": scene.thread,
        "message": "shown",
        "job": "x",
        "number": "1",
        "id": "x",
        "source": "chats",
        "item_id": scene.conversation,
    }
    if method not in ("get", "post") or (method == "post" and not path.endswith("/export")):
        return None
    given = operation.get("parameters", ())
    if any(p["name"] not in ids for p in given if p["in"] == "path"):
        return None
    query = {
        p["name"]: word if p["name"] in ("q", "query", "search") else ids[p["name"]]
        for p in given
        if p["in"] == "query" and p["name"] in (*ids, "q", "query", "search")
    }
    return {
        "method": method.upper(),
        "params": query,
        "url": path.format(**{name: quoted(value) for name, value in ids.items()}),
    }


def test_no_route_at_all_tells_an_agent_the_secret(world: World, scene: Scene) -> None:
    told = 0
    for path, operations in world.app.openapi()["paths"].items():
        for method, operation in operations.items():
            if path == "/api/events":  # it never ends, and tells ids only
                continue
            for word in (OPEN, SECRET):
                request = asked_of(operation, method, path, scene, word)
                if request is None:
                    continue
                answer = scene.agent.request(**request)
                assert SECRET not in answer.text.replace(f'"query":"{SECRET}"', ""), request
                told += SECRET in scene.person.request(**request).text.replace(
                    f'"query":"{SECRET}"', ""
                )
    assert told >= 10  # where a person does see it


@pytest.mark.parametrize(
    "path", ["/?q={}", "/c/{conversation}", "/c/{conversation}?m=hidden&q={}", "/c/{thread}"]
)
def test_no_page_of_the_console_shows_an_agent_the_secret(scene: Scene, path: str) -> None:
    filled = (
        path.replace("{}", OPEN)
        .replace("{conversation}", scene.conversation)
        .replace("{thread}", scene.thread)
    )
    page = scene.agent.get(filled, headers={"accept": "text/html"})
    assert page.status_code == 200
    assert SECRET not in page.text


@pytest.mark.parametrize(
    "metadata",
    [
        {"visibility": "human_only"},
        {"visibility": " HUMAN_ONLY "},
        {"audience": "Human"},
        {"audience": "human", "x": 1},
    ],
)
def test_metadata_can_say_that_only_people_may_see_it(metadata: dict[str, Any]) -> None:
    assert is_marked_human_only(metadata)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"visibility": "all"},
        {"audience": "humans"},
        {"audience": None},
        {"visibility": ["human_only"]},
    ],
)
def test_other_metadata_does_not(metadata: dict[str, Any]) -> None:
    assert not is_marked_human_only(metadata)


def test_what_was_imported_for_people_is_masked_too(world: World, user: str) -> None:
    person, agent = world.client(user), world.client(user, agent=True)
    message = {
        "id": "m",
        "role": "user",
        "content": SECRET,
        "visibility": "human_only",
        "metadata": {"note": SECRET},
    }
    export = {"id": f"i-{uuid.uuid4()}", "messages": [message]}
    assert (
        person.post(
            "/conversations/restore",
            content=json.dumps(export),
            headers={"content-type": "application/json"},
        ).status_code
        == 201
    )
    for path in (
        f"/conversations/{export['id']}",
        f"/api/threads/{export['id']}/messages",
        f"/api/search?q={SECRET}",
    ):
        assert SECRET in person.get(path).text
        assert SECRET not in agent.get(path).text.replace(f'"query":"{SECRET}"', "")
