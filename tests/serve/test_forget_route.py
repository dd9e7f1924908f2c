"""The route that forgets previews first, and only people may use it."""

from __future__ import annotations

from collections.abc import Iterator

import people
import pytest
from people import World
from starlette.testclient import TestClient

PATH = "/api/forget"


@pytest.fixture(params=people.STORES, scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with people.world(request, tmp_path_factory) as world:
        yield world


@pytest.fixture
def ann(world: World, user: str) -> TestClient:
    client = world.client(user)
    messages = [{"role": "user", "content": "a zebra"}, {"role": "user", "content": "a horse"}]
    client.post("/conversations", json={"id": "zoo", "messages": messages})
    return client


def test_without_confirmation_the_answer_is_a_preview(ann: TestClient) -> None:
    preview = ann.post(PATH, json={"text": "zebra"}).json()
    assert (preview["done"], preview["messages"]) == (False, 1)
    assert preview["examples"][0]["excerpt"] == "a zebra"
    report = ann.post(PATH, json={"text": "zebra", "confirm": True}).json()
    assert (report["done"], report["messages"]) == (True, 1)
    messages = ann.get("/conversations/zoo").json()["messages"]
    assert [message["content"] for message in messages] == ["a horse"]


def test_a_selection_concerns_only_the_own_library(world: World, ann: TestClient) -> None:
    other = world.client("somebody else")
    report = other.post(PATH, json={"text": "zebra", "confirm": True}).json()
    assert report["messages"] == 0
    assert other.post(PATH, json={"conversations": ["zoo"], "confirm": True}).status_code == 404
    assert len(ann.get("/conversations/zoo").json()["messages"]) == 2


@pytest.mark.parametrize("body", [{}, {"confirm": True}, {"text": "", "confirm": True}])
def test_an_empty_selection_is_refused(ann: TestClient, body: dict[str, object]) -> None:
    assert ann.post(PATH, json=body).status_code == 400
    assert ann.get("/conversations/zoo").status_code == 200


def test_agents_and_limited_keys_may_not_forget(world: World, user: str) -> None:
    body = {"text": "zebra", "confirm": True}
    assert world.client(user, agent=True).post(PATH, json=body).status_code == 403
    assert world.client(user, ("read",)).post(PATH, json=body).status_code == 403
    assert world.client(user, toolsets=("bus",)).post(PATH, json=body).status_code == 403
    limited = world.client(user, toolsets=("conversations", "knowledge", "bus"))
    assert limited.post(PATH, json=body).status_code == 403
