"""Users cannot read, change or detect the library of another user, by any route, on any store.

The routes come from the app's OpenAPI description, so new routes are tested automatically.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import people
import pytest
from people import World, percent_encode
from starlette.testclient import TestClient

from recollect.errors import InvalidInput

CANARY = "zebraquagga"
JSON = {"content-type": "application/json"}
# Valid bodies for the routes that need one.
BODIES: dict[str, Any] = {
    "/conversations/{conversation_id}": {"title": "x"},
    "/conversations/{conversation_id}/messages": {"role": "user", "content": "mallory was here"},
    "/api/threads/{thread_id}/messages": {"author": "mallory", "content": "mallory was here"},
    "/api/knowledge/notes/{item_id}": {"title": "mallory was here"},
    "/api/knowledge/media/{item_id}": {"title": "mallory was here"},
    "/api/knowledge/characters/{item_id}": {"name": "mallory was here"},
    "/api/knowledge/prompts/{item_id}": {"name": "mallory was here"},
}
KIND = "notes"  # the kind of a document in a path is not secret
ELSEWHERE = {"/v1/models/{model}"}  # models belong to the model server, not to a user


@dataclass
class Belongings:
    """What Alice owns: one id for each path parameter."""

    name: str
    ids: dict[str, str]
    message: str

    def state(self, alice: TestClient) -> str:
        """Everything she owns, as she sees it."""
        paths = (
            "/conversations",
            f"/conversations/by-session/{self.ids['session_id']}",
            "/api/threads?scope=all",
            f"/api/threads/{self.ids['thread_id']}/messages",
            "/api/receipts",
            "/api/imports",
            "/api/v1/facets",
            "/api/v1/activity",
            f"/api/knowledge/{KIND}",
        )
        responses = [alice.get(path).json() for path in paths]
        exported = alice.post(
            f"/conversations/{percent_encode(self.ids['conversation_id'])}/export"
        ).json()
        return json.dumps([*responses, exported], sort_keys=True)


@pytest.fixture
def alice(world: World, user: str) -> TestClient:
    return world.client(user)


@pytest.fixture
def mallory(world: World) -> TestClient:
    """Another user with her own library."""
    client = world.client(f"mallory-{uuid.uuid4()}")
    client.post(
        "/conversations",
        json={"id": "mine", "messages": [{"role": "user", "content": "my own words"}]},
    )
    return client


@pytest.fixture
def belongings(world: World, alice: TestClient, user: str) -> Belongings:
    conversation = alice.post(
        "/conversations",
        json={
            "id": f"a/{uuid.uuid4()}",
            "session_id": f"s-{uuid.uuid4()}",
            "title": f"{CANARY} title",
            "namespace": f"{CANARY}-space",
            "metadata": {"tags": [f"{CANARY}-tag"]},
            "messages": [
                {
                    "id": "m1",
                    "role": "user",
                    "content": f"the {CANARY} word",
                    "model": f"{CANARY}-model",
                }
            ],
        },
    ).json()
    thread = alice.post("/api/threads", json={"topic": f"{CANARY} topic"}).json()["id"]
    alice.post(
        f"/api/threads/{thread}/messages",
        json={"author": f"{CANARY}-bot", "content": f"{CANARY} news"},
    )
    export = {
        "id": f"i-{uuid.uuid4()}",
        "messages": [{"role": "user", "content": f"imported {CANARY}"}],
    }
    job = alice.post("/api/imports?name=chat.json", content=json.dumps(export)).json()["id"]
    clock = threading.Event()
    while alice.get(f"/api/imports/{job}").json()["finished_at"] is None:
        clock.wait(0.02)
    numbers = [receipt["id"] for receipt in alice.get("/api/receipts").json()["receipts"]]
    note = alice.post(
        "/api/knowledge/notes", json={"title": f"{CANARY} note", "content": f"{CANARY} words"}
    ).json()
    key = next(k.id for k in world.service.keys.all_keys() if k.user == user)
    ids = {
        "conversation_id": conversation["id"],
        "session_id": conversation["session_id"],
        "thread_id": thread,
        "job": job,
        "number": str(numbers[0]),
        "id": key,
        "source": KIND,
        "item_id": note["id"],
    }
    return Belongings(user, ids, "m1")


def routes_with_ids(world: World) -> list[tuple[str, str, list[str]]]:
    """Method, path and path parameters of every route with an id in its path."""
    routes = []
    for path, operations in world.app.openapi()["paths"].items():
        for method, operation in operations.items():
            names = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"]
            if set(names) - {"source"} and path not in ELSEWHERE:
                routes.append((method.upper(), path, names))
    return routes


def attempt(client: TestClient, method: str, path: str, values: dict[str, str]) -> tuple[int, str]:
    """The response without request id, time and the requested ids, which always differ."""
    concrete_path = path.format(**{name: percent_encode(value) for name, value in values.items()})
    body = BODIES.get(path) if method in ("POST", "PATCH") else None
    answer = client.request(method, concrete_path, json=body)
    body_json = answer.json()
    body_json.pop("request_id")
    body_json["error"].pop("timestamp")
    body_json["error"]["details"].pop("path")
    text = json.dumps(body_json)
    for value in values.values():
        text = text.replace(json.dumps(value)[1:-1], "…")
    return answer.status_code, text


def test_ids_of_other_users_look_like_unknown_ids_on_every_route(
    world: World, alice: TestClient, mallory: TestClient, belongings: Belongings
) -> None:
    before = belongings.state(alice)
    for method, path, names in routes_with_ids(world):
        existing = {name: belongings.ids[name] for name in names}
        unknown = {name: "987654321" if name == "number" else f"x{uuid.uuid4()}" for name in names}
        unknown |= {"source": KIND} if "source" in names else {}
        status, text = attempt(mallory, method, path, existing)
        assert status in (403, 404), f"{method} {path}: {text}"
        assert (status, text) == attempt(mallory, method, path, unknown), f"{method} {path}"
        assert CANARY not in text
    assert belongings.state(alice) == before


SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("/conversations", {"search": "{}"}),
    ("/conversations", {"namespace": "{}-space"}),
    ("/conversations", {"search": "{}", "limit": 200, "offset": 0, "namespace": "{}-space"}),
    ("/conversations/search/messages", {"query": "{}"}),
    ("/conversations/search/messages", {"query": "{}", "limit": 200, "offset": 0}),
    ("/api/search", {"q": "{}"}),
    ("/api/search", {"q": "{}*", "limit": 200}),
    ("/api/search", {"q": '"the {}" OR {}'}),
    ("/api/search", {"q": "({} NOT mine) OR mine"}),
    ("/api/threads", {"scope": "all", "limit": 200}),
    ("/api/v1/search", {"q": "{}", "mode": "text"}),
    ("/api/v1/search", {"q": "{}", "mode": "both", "group": "conversation", "limit": 200}),
    ("/api/v1/search", {"q": "{}", "score": "fts", "hidden": True}),
    ("/api/v1/search", {"q": "{}*", "offset": 1}),
    ("/api/v1/search", {"q": ["{}", "word"]}),
    ("/api/v1/search", {"q": "word", "project": "{}-space"}),
    ("/api/v1/search", {"q": "word", "tag": "{}-tag"}),
    ("/api/v1/search", {"q": "word in:{}-space"}),
    ("/api/v1/search", {"q": "title:{}"}),
    ("/api/v1/search", {"q": "news from:{}-bot"}),
    ("/api/v1/search", {"q": "news", "author": "{}-bot", "role": ["user", "assistant"]}),
    ("/api/v1/facets", {}),
    ("/api/v1/facets", {"text": "{}"}),
    ("/api/v1/activity", {}),
    ("/api/knowledge/search", {"query": "{}"}),
    ("/api/knowledge/search", {"query": "{}", "sources": ["notes", "chats"], "order_by": "recent"}),
    ("/api/knowledge/notes/search", {"query": "{}"}),
    ("/api/knowledge/notes", {"search": "{}"}),
]


def test_searches_and_counts_cover_only_the_users_own_library(
    alice: TestClient, mallory: TestClient, belongings: Belongings
) -> None:
    for path, parameters in SEARCHES:
        response = search(mallory, path, parameters, CANARY)
        assert response == search(mallory, path, parameters, "xyzzyplugh"), (path, parameters)
        assert "…-" not in response
        assert response != search(alice, path, parameters, CANARY), (path, parameters)


def search(client: TestClient, path: str, parameters: dict[str, Any], word: str) -> str:
    """The response to a search for a word, without the word and the names that the note quotes."""
    pairs = json.dumps(list(parameters.items())).replace("{}", word)
    answer = client.get(path, params=dict(json.loads(pairs)))
    assert answer.status_code == 200, answer.text
    return re.sub(f"“{word}-[a-z]+”", "“…”", answer.text).replace(word, "…")


def test_vector_search_covers_only_the_users_own_library(
    world: World, alice: TestClient, belongings: Belongings, user: str
) -> None:
    other = f"other-{user}"
    mallory = world.client(other)
    mallory.post(
        "/conversations",
        json={"id": "mine", "messages": [{"role": "user", "content": "my own words"}]},
    )
    for name in (user, other):
        with world.service.libraries.borrow(name) as library:
            library.index()
    for q in (f"the {CANARY} word", "word", "news"):
        for mode in ("vector", "both"):
            response = mallory.get("/api/v1/search", params={"q": q, "mode": mode, "limit": 200})
            page = response.json()
            assert {hit["conversation_id"] for hit in page["hits"]} <= {"mine"}
            assert {hit["conversation_id"] for hit in page["nearest"]} <= {"mine"}
            assert CANARY not in str((page["hits"], page["nearest"]))
    assert CANARY in alice.get("/api/v1/search", params={"q": "word", "mode": "vector"}).text


def test_ids_of_other_users_in_parameters_find_nothing(
    alice: TestClient, mallory: TestClient, belongings: Belongings
) -> None:
    conversation, thread = belongings.ids["conversation_id"], belongings.ids["thread_id"]
    for path, existing in (
        ("/conversations/search/messages", {"query": "word", "conversation_id": conversation}),
        ("/api/search", {"q": "word", "thread_id": conversation}),
        ("/api/search", {"q": "news", "thread_id": thread}),
        ("/api/v1/search", {"q": "word", "conversation": conversation}),
        ("/api/v1/related", {"conversation": conversation, "message": belongings.message}),
    ):
        unknown = {
            k: str(uuid.uuid4()) if v in (conversation, thread) else v for k, v in existing.items()
        }
        responses = [mallory.get(path, params=p) for p in (existing, unknown)]
        assert responses[0].status_code == responses[1].status_code
        assert [r.json().get("total", 0) for r in responses] == [0, 0]
        assert CANARY not in responses[0].text
        assert alice.get(path, params=existing).status_code == 200


HEADERS = [
    "X-User",
    "X-User-Id",
    "X-User-ID",
    "X-Forwarded-User",
    "Remote-User",
    "X-Remote-User",
    "X-Owner",
    "From",
    "X-Recollect-User",
    "X-Tenant",
    "X-Auth-Request-User",
    "X-WEBAUTH-USER",
]
PARAMETERS = [
    "user",
    "user_id",
    "owner",
    "tenant",
    "account",
    "library",
    "home",
    "place",
    "db",
    "db_path",
    "_context",
]


def test_only_the_credential_determines_the_user(
    world: World, alice: TestClient, mallory: TestClient, belongings: Belongings
) -> None:
    name = belongings.name
    before = belongings.state(alice)
    for options in (
        {"headers": {header: name for header in HEADERS}},
        {"cookies": {"user": name, "user_id": name}},
    ):
        client = TestClient(
            world, people.ADDRESS, headers=mallory.headers, cookies=options.pop("cookies", None)
        )
        listing = client.get("/conversations", **options).json()
        assert [c["id"] for c in listing["conversations"]] == ["mine"]
        path = f"/conversations/{percent_encode(belongings.ids['conversation_id'])}"
        assert client.get(path, **options).status_code == 404
        assert client.delete(path, **options).status_code == 404
        options["params"] = {**options.get("params", {}), "query": CANARY}
        page = client.get("/conversations/search/messages", **options).json()
        assert page["total"] == 0
    for parameter in PARAMETERS:
        answer = mallory.get("/api/v1/search", params={parameter: name})
        assert answer.status_code == 400, parameter
        assert parameter in answer.json()["detail"]
        # Routes of a contract ignore what they do not know.
        listing = mallory.get("/conversations", params={parameter: name}).json()
        assert [c["id"] for c in listing["conversations"]] == ["mine"], parameter
    for body in BODIES.values():
        for field in (*PARAMETERS, "principal", "agent", "scopes"):
            for path in ("/conversations/mine/messages", "/api/threads/mine/messages"):
                if ("author" in body) == path.startswith("/api"):
                    answer = mallory.post(path, json={**body, field: name})
                    assert answer.status_code == 400, (path, field)
    for field in PARAMETERS:
        for path, body in (
            ("/conversations", {}),
            ("/api/threads", {"topic": "t"}),
            (
                "/conversations/messages",
                {
                    "session_id": "s",
                    "messages": [BODIES["/conversations/{conversation_id}/messages"]],
                },
            ),
        ):
            assert mallory.post(path, json={**body, field: name}).status_code == 400
    twice = (
        b'{"session_id": "mine", "session_id": "'
        + belongings.ids["session_id"].encode()
        + b'", "messages": []}'
    )
    assert mallory.post("/conversations/messages", content=twice, headers=JSON).status_code == 400
    assert belongings.state(alice) == before
    assert len(mallory.get("/conversations").json()["conversations"]) == 1


def test_nothing_is_deleted_without_an_id(
    alice: TestClient, mallory: TestClient, belongings: Belongings
) -> None:
    before = belongings.state(alice)
    own = mallory.get("/conversations").json()
    for tail in (
        "",
        "/",
        "?search=",
        "/*",
        "/%25",
        "/null",
        "/%00",
        "/_",
        "/''",
        "/search/messages?query=a",
    ):
        for body in (None, {}, [], {"ids": []}, {"all": True}):
            for path in ("/conversations", "/api/threads"):
                answer = mallory.request("DELETE", path + tail, json=body)
                assert answer.status_code in (400, 404, 405), path + tail
    assert mallory.get("/conversations").json() == own
    assert belongings.state(alice) == before


NAMES = [
    "../bob",
    "bob/",
    "bob%2f",
    "BOB",
    "bob",
    "b\u00f6b",
    "bo\u0308b",
    "con",
    ".",
    "..",
    "bob\\..",
    "x" * 300,
    "bob\n",
    " bob",
    "bob ",
    "postgres",
    "'; drop table document; --",
    "bob-0123456789abcdef",
    "🎉",
]


def test_user_names_that_look_like_paths_stay_names(world: World) -> None:
    home, siblings, tail = None, [], ""
    if isinstance(world.service.place, Path):
        home = world.service.place
        siblings = sorted(home.parent.iterdir())
    else:
        tail = uuid.uuid4().hex[:8]  # a shared server has users of other tests
    clients = {name: world.client(name + tail) for name in NAMES}
    for name, client in clients.items():
        client.post(
            "/conversations",
            json={"id": "c", "messages": [{"role": "user", "content": f"I am {name!r}"}]},
        )
    for name, client in clients.items():
        messages = client.get("/conversations/c").json()["messages"]
        assert [message["content"] for message in messages] == [f"I am {name!r}"]
    if home:
        assert sorted(home.parent.iterdir()) == siblings
        assert {path.parent.parent for path in home.rglob("library.db")} == {home / "users"}
        assert len([*home.glob("users/*/library.db")]) >= len(NAMES)


@pytest.mark.parametrize("name", ["", "bob\0", "x" * 501])
def test_invalid_user_names_are_rejected(world: World, name: str) -> None:
    with pytest.raises(InvalidInput):
        world.key(name)


def test_concurrent_responses_are_never_mixed_up_between_users(world: World) -> None:
    """Many threads and two users with the same ids: each gets their own data."""
    names = [f"{name}-{uuid.uuid4()}" for name in ("ann", "bob")]
    keys = [{"Authorization": f"Bearer {world.key(name)}"} for name in names]
    with TestClient(world, people.ADDRESS) as client:
        for name, key in zip(names, keys, strict=True):
            message = {"role": "user", "content": f"canary {name}"}
            client.post("/conversations", json={"id": "c", "messages": [message]}, headers=key)

        def ask(number: int) -> bool:
            key, contents = keys[number % 2], []
            for path in ("/conversations/c", "/conversations/search/messages?query=canary") * 8:
                contents += [
                    message["content"]
                    for message in client.get(path, headers=key).json()["messages"]
                ]
            return contents == [f"canary {names[number % 2]}"] * 16

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, range(16)))


@pytest.mark.full
def test_unsupported_methods_reveal_nothing_either(
    world: World, alice: TestClient, mallory: TestClient, belongings: Belongings
) -> None:
    before = belongings.state(alice)
    for path in {path for _, path, _ in routes_with_ids(world)}:
        existing = path.format(
            **{name: percent_encode(value) for name, value in belongings.ids.items()}
        )
        others = {name: "987654321" if name == "number" else "x" for name in belongings.ids}
        unknown = path.format(**others | {"source": KIND})
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            body = {"role": "user", "content": "x", "author": "x"}
            statuses = {
                mallory.request(method, p, json=None if method == "GET" else body).status_code
                for p in (existing, unknown)
            }
            assert len(statuses) == 1, f"{method} {path}: {statuses}"
    assert belongings.state(alice) == before


def test_the_same_id_means_different_conversations_for_different_users(world: World) -> None:
    clients = [world.client(f"{name}-{uuid.uuid4()}") for name in ("ann", "bob")]
    for n, client in enumerate(clients):
        message = {"id": "m", "role": "user", "content": f"I am {n}"}
        body = {"id": "same", "session_id": "s", "messages": [message]}
        assert client.post("/conversations", json=body).status_code == 201
        assert client.post("/api/threads", json={"topic": "same topic"}).status_code == 201
    clients[0].put("/conversations/same?title=Changed")
    clients[1].delete("/conversations/same")
    assert clients[0].get("/conversations/same").json()["messages"][0]["content"] == "I am 0"
    assert clients[1].get("/conversations/same").status_code == 404
