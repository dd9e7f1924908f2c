"""A server records who reads, searches and exports, and shows users only their own log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import people
import pytest
from people import World
from starlette.testclient import TestClient


@pytest.fixture(params=people.STORES, scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with people.world(request, tmp_path_factory) as world:
        yield world


@pytest.fixture
def ann(world: World, user: str) -> TestClient:
    client = world.client(user)
    messages = [{"role": "user", "content": "a zebra"}]
    client.post("/conversations", json={"id": "zoo", "title": "Animals", "messages": messages})
    return client


def records(client: TestClient, **parameters: str) -> list[dict[str, Any]]:
    listing = client.get("/api/audit", params=parameters).json()["records"]
    return list(reversed(listing))


def test_requests_are_recorded_with_who_what_and_whence(ann: TestClient) -> None:
    ann.get("/conversations/zoo")
    ann.get("/api/v1/search?q=zebra")
    ann.post("/conversations/zoo/export")
    ann.delete("/conversations/zoo")
    log = records(ann)
    assert [(r["action"], r.get("ids")) for r in log] == [
        ("read", ["zoo"]),
        ("search", None),
        ("export", ["zoo"]),
        ("delete", ["zoo"]),
    ]
    assert all(r["key"] and r["interface"] == "rest" and r["address"] for r in log)
    text = str(log)
    assert "zebra" not in text
    assert "Animals" not in text
    assert ann.get("/api/audit/verification").json()["problems"] == []


def test_requests_of_the_console_are_recorded_as_such(world: World, user: str) -> None:
    headers = {"Origin": people.ADDRESS, "Accept": "text/html"}
    with TestClient(world, people.ADDRESS, headers=headers, follow_redirects=False) as browser:
        assert browser.post("/login", data={"key": world.key(user)}).status_code == 303
        assert browser.get("/").status_code == 200
    (record,) = records(world.client(user))
    assert (record["action"], record["interface"]) == ("read", "console")


def test_a_preview_of_forgetting_is_recorded(ann: TestClient) -> None:
    ann.post("/api/forget", json={"text": "zebra"})
    (record,) = records(ann)
    assert (record["action"], record["count"]) == ("search", 1)
    assert "zebra" not in str(record)


def test_refused_requests_are_recorded(world: World, user: str) -> None:
    client = world.client(user, ("read",))
    client.post("/conversations", json={"id": "zoo"})
    assert [r["action"] for r in records(client)] == ["denied"]


def test_tools_are_recorded(world: World, ann: TestClient, user: str) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    call = {"name": "recall_search", "arguments": {"query": "zebra"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    response = ann.post("/mcp", json=body, headers=headers)
    assert response.status_code == 200, response.text
    (record,) = records(ann, action="search")
    assert (record["operation"], record["interface"]) == ("recall_search", "mcp")
    assert "zebra" not in str(record)


def test_users_see_only_their_own_log(world: World, ann: TestClient, user: str) -> None:
    ann.get("/conversations/zoo")
    other = world.client("somebody else")
    assert records(other) == []
    assert other.get("/api/audit", params={"user": user}).status_code == 403
    administrator = world.client("operator", ("read", "admin"))
    assert [r["action"] for r in records(administrator, user=user)] == ["read"]
    agent = world.client(user, agent=True)
    assert agent.get("/api/audit").status_code == 403


def test_new_and_revoked_keys_are_in_the_log_of_their_user(world: World, user: str) -> None:
    administrator = world.client("operator", ("read", "write", "admin"))
    key = administrator.post("/api/keys", json={"user": user, "name": "laptop"}).json()
    administrator.delete(f"/api/keys/{key['id']}")
    log = records(administrator, user=user)
    assert [(r["action"], r["operation"], r["ids"]) for r in log] == [
        ("key", "add", [key["id"]]),
        ("key", "revoke", [key["id"]]),
    ]
    assert key["key"] not in str(log)
