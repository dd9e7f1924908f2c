"""Agents see that a human-only message exists, but no route reveals its content.

With RECOLLECT_HUMAN_ONLY=hide, agents do not find such messages at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from people import World, percent_encode
from starlette.testclient import TestClient

from recollect import Passage

MASK = "[human-only content hidden]"
SECRET = "quaggasecret"  # only in human-only messages
PUBLIC = "zebraopen"  # in public and in human-only messages
ABSENT = "quaggaabsent"  # in no message, and as long as SECRET


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
        "content": f"{PUBLIC} {SECRET}",
        "author": "boss",
        "metadata": metadata,
        "attachments": [{"name": SECRET}],
        "citations": [{"url": f"https://{SECRET}.example"}],
    }
    public = {"id": "shown", "role": "user", "content": f"{PUBLIC} for all"}
    saved = person.post(
        "/conversations/messages", json={"session_id": "s", "messages": [hidden, public]}
    )
    assert saved.status_code == 201
    thread = person.post("/api/threads", json={"topic": "t"}).json()["id"]
    for message in (
        {
            "author": "boss",
            "content": f"{PUBLIC} {SECRET}",
            "human_only": True,
            "metadata": {"note": SECRET},
        },
        {"author": "boss", "content": f"{PUBLIC} for all"},
    ):
        assert person.post(f"/api/threads/{thread}/messages", json=message).status_code == 201
    return Scene(person, agent, saved.json()["conversation_id"], thread)


def test_a_default_title_contains_nothing_human_only(scene: Scene) -> None:
    title = scene.person.get(f"/conversations/{scene.conversation}").json()["title"]
    assert title == f"{PUBLIC} for all"


def test_the_persistence_api_masks_messages_for_agents(scene: Scene) -> None:
    path = f"/conversations/{scene.conversation}"
    for detail in (scene.agent.get(path), scene.agent.get("/conversations/by-session/s")):
        hidden, public = detail.json()["messages"]
        assert (hidden["id"], hidden["content"], hidden["attachments"], hidden["citations"]) == (
            "hidden",
            MASK,
            [],
            [],
        )
        assert public["content"] == f"{PUBLIC} for all"
    page = scene.agent.get(f"/conversations/search/messages?query={PUBLIC}").json()
    assert page["total"] == 4
    assert sorted(m["content"] for m in page["messages"]) == [
        MASK,
        MASK,
        f"{PUBLIC} for all",
        f"{PUBLIC} for all",
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


def test_agents_cannot_search_for_messages_related_to_a_masked_one(scene: Scene) -> None:
    parameters = {"conversation": scene.conversation, "message": "hidden"}
    assert scene.person.get("/api/v1/related", params=parameters).status_code == 200
    assert scene.agent.get("/api/v1/related", params=parameters).status_code == 403
    answer = scene.agent.get("/api/v1/related", params=parameters | {"message": "shown"})
    assert answer.status_code == 200
    answer = scene.agent.get("/api/v1/related", params=parameters | {"message": "none"})
    assert answer.status_code == 404


def test_agents_can_neither_export_nor_overwrite_masked_messages(scene: Scene) -> None:
    path = f"/conversations/{scene.conversation}"
    before = scene.person.post(f"{path}/export").json()
    answer = scene.agent.delete(path, params={"undo": True})
    assert answer.status_code == 403
    assert SECRET not in answer.text
    exported = scene.agent.post(f"{path}/export").json()
    assert scene.agent.post("/conversations/restore", json=exported).status_code == 409
    assert scene.person.post(f"{path}/export").json() == before


def request_for(
    operation: dict[str, Any], method: str, path: str, scene: Scene, word: str
) -> dict[str, Any] | None:
    """A request to a route that could reveal something, with the ids and the word filled in."""
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
    parameters = operation.get("parameters", ())
    if any(p["name"] not in ids for p in parameters if p["in"] == "path"):
        return None
    query = {
        p["name"]: word if p["name"] in ("q", "query", "search") else ids[p["name"]]
        for p in parameters
        if p["in"] == "query" and p["name"] in (*ids, "q", "query", "search")
    }
    return {
        "method": method.upper(),
        "params": query,
        "url": path.format(**{name: percent_encode(value) for name, value in ids.items()}),
    }


def test_no_route_reveals_the_secret_to_an_agent(world: World, scene: Scene) -> None:
    revealed = 0
    for path, operations in world.app.openapi()["paths"].items():
        for method, operation in operations.items():
            if path == "/api/events":  # never ends and has no contents
                continue
            for word in (PUBLIC, SECRET):
                request = request_for(operation, method, path, scene, word)
                if request is None:
                    continue
                answer = scene.agent.request(**request)
                assert SECRET not in answer.text.replace(f'"query":"{SECRET}"', ""), request
                revealed += SECRET in scene.person.request(**request).text.replace(
                    f'"query":"{SECRET}"', ""
                )
    assert revealed >= 10  # routes on which a person sees it


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")


def without_words(text: str) -> str:
    return text.replace(SECRET, "").replace(ABSENT, "")


@pytest.mark.usefixtures("hide")
def test_no_route_tells_an_agent_whether_a_hidden_message_has_a_word(
    world: World, scene: Scene
) -> None:
    routes = 0
    for path, operations in world.app.openapi()["paths"].items():
        for method, operation in operations.items():
            if path == "/api/events":  # never ends and has no contents
                continue
            request = request_for(operation, method, path, scene, SECRET)
            other = request_for(operation, method, path, scene, ABSENT)
            if request is None or other is None or request == other:
                continue
            answer, other_answer = scene.agent.request(**request), scene.agent.request(**other)
            assert without_words(answer.text) == without_words(other_answer.text), request
            for_person = scene.person.request(**request), scene.person.request(**other)
            routes += without_words(for_person[0].text) != without_words(for_person[1].text)
    assert routes >= 5  # routes on which a person finds it


@pytest.mark.usefixtures("hide")
def test_hidden_messages_are_left_out_of_what_agents_read_and_find(scene: Scene) -> None:
    path = f"/conversations/{scene.conversation}"
    details = [scene.agent.get(path), scene.agent.get("/conversations/by-session/s")]
    details += [scene.agent.post(f"{path}/export"), scene.agent.get(f"{path}/messages")]
    for detail in details:
        assert [message["id"] for message in detail.json()["messages"]] == ["shown"]
    for format_ in ("txt", "md"):
        content = scene.agent.post(f"{path}/export?format={format_}").json()["content"]
        assert f"{PUBLIC} for all" in content
        assert MASK not in content
    page = scene.agent.get(f"/conversations/search/messages?query={PUBLIC}").json()
    assert [message["content"] for message in page["messages"]] == [f"{PUBLIC} for all"] * 2
    assert page["total"] == 2
    results = scene.agent.get(f"/api/search?q={PUBLIC}").json()
    assert (len(results["results"]), results["total"]) == (2, 2)
    assert scene.agent.get("/api/v1/search", params={"q": SECRET}).json()["total"] == 0
    parameters = {"conversation": scene.conversation, "message": "hidden"}
    assert scene.agent.get("/api/v1/related", params=parameters).status_code == 404
    assert SECRET in scene.person.get(path).text
    assert scene.person.get("/api/v1/search", params={"q": SECRET}).json()["total"] == 2


@pytest.mark.usefixtures("hide")
def test_an_agent_can_follow_a_thread_past_its_hidden_messages(scene: Scene) -> None:
    path = f"/api/threads/{scene.thread}/messages"
    for author in ("boss", "boss", "agent"):
        message = {"author": author, "content": "more", "human_only": author == "boss"}
        assert scene.person.post(path, json=message).status_code == 201
    first = scene.agent.get(path, params={"limit": 1}).json()
    assert ([m["seq"] for m in first["messages"]], first["has_more"]) == ([2], True)
    second = scene.agent.get(path, params={"limit": 1, "after_seq": 2}).json()
    assert ([m["seq"] for m in second["messages"]], second["has_more"]) == ([5], False)


@pytest.mark.usefixtures("hide")
def test_an_agent_can_page_past_the_hidden_messages_of_a_conversation(scene: Scene) -> None:
    path = f"/conversations/{scene.conversation}/messages"
    ids, after = [], ""
    while after is not None:
        page = scene.agent.get(path, params={"limit": 1, "after": after}).json()
        ids += [message["id"] for message in page["messages"]]
        after = page["after"]
    assert ids == ["shown"]


@pytest.mark.usefixtures("hide")
def test_the_console_tells_an_agent_no_words_of_hidden_messages(scene: Scene) -> None:
    texts = []
    for word in (SECRET, ABSENT):
        parameters = {"id": scene.conversation, "q": word}
        texts.append(without_words(scene.agent.get("/console/matches", params=parameters).text))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "path", ["/?q={}", "/c/{conversation}", "/c/{conversation}?m=hidden&q={}", "/c/{thread}"]
)
def test_no_console_page_reveals_the_secret_to_an_agent(scene: Scene, path: str) -> None:
    concrete_path = (
        path.replace("{}", PUBLIC)
        .replace("{conversation}", scene.conversation)
        .replace("{thread}", scene.thread)
    )
    page = scene.agent.get(concrete_path, headers={"accept": "text/html"})
    assert page.status_code == 200
    assert SECRET not in page.text


def test_the_search_api_masks_hits_for_agents(scene: Scene) -> None:
    for parameters in (
        {"q": PUBLIC},
        {"q": PUBLIC, "score": "fts"},
        {"q": PUBLIC, "group": "conversation"},
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
                assert PUBLIC in hit["snippet"]
    hits = scene.person.get("/api/v1/search", params={"q": SECRET}).json()["hits"]
    assert {hit["visibility"] for hit in hits} == {"human_only"}
    assert all(SECRET in hit["snippet"] for hit in hits)


@pytest.mark.full
def test_no_route_reveals_a_message_that_was_stored_before_its_mark_was_known(
    world: World, user: str, scene: Scene
) -> None:
    """Older versions stored such messages as visible to everybody."""
    with world.service.libraries.borrow(user) as library:
        hidden = Passage("old", "user", f"{PUBLIC} {SECRET}", metadata={"human_only": True})
        library.add_messages(scene.conversation, [hidden])
        library.add_messages(scene.thread, [hidden])
        library.index()
    test_no_route_reveals_the_secret_to_an_agent(world, scene)
    hits = scene.agent.get("/api/v1/search", params={"q": SECRET}).json()["hits"]
    assert {hit["snippet"] for hit in hits} == {MASK}
    messages = scene.agent.get(f"/api/threads/{scene.thread}/messages").json()["messages"]
    assert [m["human_only"] for m in messages] == [True, False, True]
    parameters = {"conversation": scene.conversation, "message": "old"}
    assert scene.agent.get("/api/v1/related", params=parameters).status_code == 403
    page = scene.agent.get(f"/?q={PUBLIC}", headers={"accept": "text/html"})
    assert MASK in page.text and SECRET not in page.text
