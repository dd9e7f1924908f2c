"""Limited API keys: every route and tool decides for every limit, and no other route leads around.

A key may be limited to scopes (read, write, admin) and to toolsets. `ROUTES` states what each route
needs. A new route fails this test until its row is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from http_service import Server, server
from selection import few
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient

from recollect.serve.identity.principal import Forbidden, Principal
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.toolsets import TOOLSETS, all_tools

PUBLIC, ANY = "public", "any key"
READ, WRITE, ADMIN = "read", "write", "admin"
CONVERSATIONS, BUS, KNOWLEDGE = ("conversations",), ("bus",), ("knowledge",)
BOTH = ("conversations", "knowledge")
EITHER = frozenset(BOTH)
"""A parameter decides which."""
NONE: tuple[str, ...] = ()

ROUTES: dict[str, tuple[str, tuple[str, ...] | frozenset[str]]] = {
    "GET /healthz": (PUBLIC, NONE),
    "GET /readyz": (PUBLIC, NONE),
    "GET /login": (PUBLIC, NONE),
    "POST /login": (PUBLIC, NONE),
    "GET /static/{version}/{name}": (PUBLIC, NONE),
    "GET /service-worker.js": (PUBLIC, NONE),
    "GET /offline": (PUBLIC, NONE),
    "POST /logout": (ANY, NONE),
    "GET /docs": (ANY, NONE),
    "GET /openapi.json": (ANY, NONE),
    "GET /metrics": (ADMIN, NONE),
    "GET /api/keys": (ADMIN, NONE),
    "POST /api/keys": (ADMIN, NONE),
    "DELETE /api/keys/{id}": (ADMIN, NONE),
    "POST /api/keys/{id}/rotate": (ADMIN, NONE),
    "GET /api/audit": (READ, BOTH),
    "GET /api/audit/verification": (READ, BOTH),
    "POST /sessions/{id}/end": (WRITE, CONVERSATIONS),
    # Each tool decides; see the tests of tools.
    "POST /mcp": (ANY, NONE),
    "DELETE /mcp": (ANY, NONE),
    "POST /mcp/{profile}": (ANY, NONE),
    "DELETE /mcp/{profile}": (ANY, NONE),
    "WEBSOCKET /mcp/ws": (ANY, NONE),
    "WEBSOCKET /mcp/{profile}/ws": (ANY, NONE),
    "GET /conversations": (READ, CONVERSATIONS),
    "POST /conversations": (WRITE, CONVERSATIONS),
    "GET /conversations/search/messages": (READ, CONVERSATIONS),
    "GET /conversations/by-session/{session_id:id}": (READ, CONVERSATIONS),
    "GET /conversations/{conversation_id:id}": (READ, CONVERSATIONS),
    "PUT /conversations/{conversation_id:id}": (WRITE, CONVERSATIONS),
    "PATCH /conversations/{conversation_id:id}": (WRITE, CONVERSATIONS),
    "DELETE /conversations/{conversation_id:id}": (WRITE, CONVERSATIONS),
    "POST /conversations/restore": (WRITE, CONVERSATIONS),
    "POST /conversations/messages": (WRITE, CONVERSATIONS),
    "GET /conversations/{conversation_id:id}/export": (READ, CONVERSATIONS),
    "POST /conversations/{conversation_id:id}/export": (READ, CONVERSATIONS),
    "GET /conversations/{conversation_id:id}/messages": (READ, CONVERSATIONS),
    "POST /conversations/{conversation_id:id}/messages": (WRITE, CONVERSATIONS),
    "GET /api/search": (READ, BUS),
    "GET /api/threads": (READ, BUS),
    "POST /api/threads": (WRITE, BUS),
    "GET /api/threads/{thread_id:id}": (READ, BUS),
    "DELETE /api/threads/{thread_id:id}": (WRITE, BUS),
    "GET /api/threads/{thread_id:id}/messages": (READ, BUS),
    "POST /api/threads/{thread_id:id}/messages": (WRITE, BUS),
    "GET /api/v1/search": (READ, CONVERSATIONS),
    "GET /api/v1/related": (READ, CONVERSATIONS),
    "GET /api/v1/stats": (READ, CONVERSATIONS),
    "GET /api/v1/activity": (READ, CONVERSATIONS),
    "GET /api/v1/facets": (READ, CONVERSATIONS),
    "GET /api/v1/index": (READ, CONVERSATIONS),
    "POST /api/v1/index/pause": (WRITE, BOTH),
    "POST /api/v1/index/resume": (WRITE, BOTH),
    "GET /api/v1/changes": (READ, BOTH),
    "POST /api/v1/changes/{number}/undo": (WRITE, BOTH),
    "GET /api/knowledge/search": (READ, KNOWLEDGE),
    "POST /api/knowledge/search": (READ, KNOWLEDGE),
    "GET /api/knowledge/media-types": (READ, KNOWLEDGE),
    "GET /api/knowledge/{source}/search": (READ, KNOWLEDGE),
    "POST /api/knowledge/get": (READ, KNOWLEDGE),
    "GET /api/knowledge/{source}": (READ, KNOWLEDGE),
    "GET /api/knowledge/{source}/{item_id:id}": (READ, KNOWLEDGE),
    "GET /api/knowledge/{source}/{item_id:id}/export": (READ, KNOWLEDGE),
    "GET /api/knowledge/media/{item_id:id}/transcript": (READ, KNOWLEDGE),
    "DELETE /api/knowledge/{source}/{item_id:id}": (WRITE, KNOWLEDGE),
    "POST /api/knowledge/restore": (WRITE, KNOWLEDGE),
    "POST /api/knowledge/notes": (WRITE, KNOWLEDGE),
    "POST /api/knowledge/media": (WRITE, KNOWLEDGE),
    "POST /api/knowledge/characters": (WRITE, KNOWLEDGE),
    "POST /api/knowledge/prompts": (WRITE, KNOWLEDGE),
    "PATCH /api/knowledge/notes/{item_id:id}": (WRITE, KNOWLEDGE),
    "PATCH /api/knowledge/media/{item_id:id}": (WRITE, KNOWLEDGE),
    "PATCH /api/knowledge/characters/{item_id:id}": (WRITE, KNOWLEDGE),
    "PATCH /api/knowledge/prompts/{item_id:id}": (WRITE, KNOWLEDGE),
    "POST /api/forget": (WRITE, BOTH),
    # A file may contain anything.
    "POST /api/imports": (WRITE, BOTH),
    "POST /api/receipts/{number}/undo": (WRITE, BOTH),
    "GET /api/imports": (READ, CONVERSATIONS),
    "GET /api/imports/{job}": (READ, CONVERSATIONS),
    "GET /api/receipts": (READ, CONVERSATIONS),
    "GET /api/events": (READ, CONVERSATIONS),
    "POST /chat": (WRITE, CONVERSATIONS),
    "POST /v1/chat/completions": (WRITE, CONVERSATIONS),
    "POST /v1/responses": (WRITE, CONVERSATIONS),
    "POST /v1/embeddings": (WRITE, CONVERSATIONS),
    "GET /v1/models": (READ, CONVERSATIONS),
    "GET /v1/models/{model:path}": (READ, CONVERSATIONS),
    # These pass on what the server does not record.
    "GET /v1/{path:path}": (WRITE, CONVERSATIONS),
    "POST /v1/{path:path}": (WRITE, CONVERSATIONS),
    "PUT /v1/{path:path}": (WRITE, CONVERSATIONS),
    "PATCH /v1/{path:path}": (WRITE, CONVERSATIONS),
    "DELETE /v1/{path:path}": (WRITE, CONVERSATIONS),
    "GET /": (READ, CONVERSATIONS),
    "GET /c/": (READ, CONVERSATIONS),
    "GET /c/{conversation_id:id}": (READ, CONVERSATIONS),
    "GET /activity": (READ, CONVERSATIONS),
    "GET /imports": (READ, CONVERSATIONS),
    "GET /console/rows": (READ, EITHER),
    "GET /console/sidebar": (READ, EITHER),
    "GET /console/filters": (READ, EITHER),
    "GET /console/hits": (READ, CONVERSATIONS),
    "GET /console/messages": (READ, CONVERSATIONS),
    "GET /console/message": (READ, CONVERSATIONS),
    "GET /console/message-text": (READ, CONVERSATIONS),
    "GET /console/find": (READ, CONVERSATIONS),
    "GET /console/questions": (READ, CONVERSATIONS),
    "GET /console/picture": (READ, CONVERSATIONS),
    "GET /console/tags": (READ, CONVERSATIONS),
    "GET /console/matches": (READ, CONVERSATIONS),
    "GET /console/receipts/{number}": (READ, CONVERSATIONS),
    "GET /console/facets": (READ, CONVERSATIONS),
    "GET /console/preview": (READ, EITHER),
    "GET /console/completions": (READ, CONVERSATIONS),
    "GET /console/names": (READ, CONVERSATIONS),
    "GET /console/palette": (READ, CONVERSATIONS),
    "GET /console/row-index": (READ, CONVERSATIONS),
    "POST /console/edit": (WRITE, CONVERSATIONS),
    "POST /console/undo": (WRITE, BOTH),
    "GET /settings": (READ, CONVERSATIONS),
    "GET /console/settings/{section}": (READ, CONVERSATIONS),
    "GET /console/settings/exclusions/preview": (ADMIN, NONE),
    "POST /console/settings/exclusions/add": (ADMIN, NONE),
    "POST /console/settings/exclusions/remove": (ADMIN, NONE),
    "POST /console/settings/secrets/scan": (READ, BOTH),
    "POST /console/settings/backup/start": (ADMIN, NONE),
    "POST /console/import-found": (WRITE, BOTH),
    "GET /knowledge/{kind}": (READ, KNOWLEDGE),
    "GET /knowledge/{kind}/": (READ, KNOWLEDGE),
    "GET /knowledge/{kind}/{item_id:id}": (READ, KNOWLEDGE),
    "POST /knowledge/{kind}": (WRITE, KNOWLEDGE),
    "POST /knowledge/{kind}/": (WRITE, KNOWLEDGE),
    "POST /knowledge/{kind}/{item_id:id}": (WRITE, KNOWLEDGE),
    "GET /console/item-part": (READ, KNOWLEDGE),
    "GET /console/item-text": (READ, KNOWLEDGE),
    "GET /console/portrait": (READ, KNOWLEDGE),
}

LIMITS: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "read only": (("read",), None),
    "write only": (("write",), None),
    "admin only": (("admin",), None),
    "no toolset": (("read", "write", "admin"), ()),
    "bus": (("read", "write"), ("bus",)),
    "conversations": (("read", "write"), ("conversations",)),
    "knowledge": (("read", "write"), ("knowledge",)),
    "recall": (("read", "write"), ("recall",)),
    "read bus and conversations": (("read",), ("bus", "conversations")),
    "everything": (("read", "write", "admin"), None),
}


def is_allowed(route: str, limit: str) -> bool:
    scope, toolsets = ROUTES[route]
    scopes, own_toolsets = LIMITS[limit]
    if scope not in (PUBLIC, ANY, *scopes):
        return False
    if own_toolsets is None or not toolsets:
        return True
    if isinstance(toolsets, frozenset):
        return not toolsets.isdisjoint(own_toolsets)
    return set(toolsets) <= set(own_toolsets)


def routes_of(app: Any) -> Iterator[str]:
    for route in app.router.routes:
        if isinstance(route, WebSocketRoute):
            yield f"WEBSOCKET {route.path}"
            continue
        for method in route.methods - {"HEAD"}:
            yield f"{method} {route.path}"


def example(template: str) -> str:
    """A path that leads to the route."""
    path = template.replace("{number}", "1").replace("{profile}", "bus")
    path = path.replace("{kind}", "notes").replace("{source}", "notes")
    return re.sub(r"\{[^}]*\}", "x", path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("keys")) as instance:
        yield instance


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server that may be started and stopped, as MCP needs it."""
    with server(tmp_path) as instance:
        yield instance


def test_every_route_has_a_row(shared: Server) -> None:
    routes = set(routes_of(shared.app))
    assert routes - set(ROUTES) == set(), "write down who may use these"
    assert set(ROUTES) - routes == set(), "these are gone"


@pytest.mark.parametrize("limit", LIMITS)
def test_every_route_decides_for_every_limit(shared: Server, limit: str) -> None:
    scopes, toolsets = LIMITS[limit]
    principal = Principal("ann", frozenset(scopes))
    if toolsets is not None:
        principal = Principal("ann", frozenset(scopes), frozenset(toolsets))
    for route in ROUTES:
        method, _, template = route.partition(" ")
        policy = shared.app.edge.policies.find(method, example(template))
        if is_allowed(route, limit):
            policy.check(principal)
        else:
            with pytest.raises(Forbidden):
                policy.check(principal)


def test_every_route_refuses_a_key_that_may_not_use_it(shared: Server) -> None:
    clients = {limit: shared.client(shared.key(*LIMITS[limit])) for limit in LIMITS}
    for number, route in enumerate(ROUTES):
        limits = [limit for limit in LIMITS if not is_allowed(route, limit)]
        if not limits:
            continue
        method, _, template = route.partition(" ")
        client = clients[limits[number % len(limits)]]
        response = client.request(method, example(template))
        assert response.status_code == 403, route
        assert response.json()["error"]["code"] == "FORBIDDEN"


def test_a_route_without_a_policy_prevents_the_start(shared: Server) -> None:
    from recollect.serve.http.edge import Edge

    @shared.app.get("/undeclared")
    def undeclared() -> str:
        return ""

    routes = shared.app.router.routes
    try:
        with pytest.raises(LookupError, match="/undeclared has no policy"):
            Edge(shared.app, shared.service, routes)
    finally:
        routes.pop()


# -- the same documents by other routes ---


@pytest.fixture(scope="module")
def library(shared: Server) -> dict[str, str]:
    """The ids of a conversation, a thread of the bus and a note."""
    client = shared.client(shared.key())
    body = {"id": "talk", "messages": [{"id": "m1", "role": "user", "content": "zebra talk"}]}
    client.post("/conversations", json=body)
    thread = client.post("/api/threads", json={"topic": "plans"}).json()["thread_id"]
    message = {"author": "ann", "content": "zebra thread"}
    client.post(f"/api/threads/{thread}/messages", json=message)
    note = client.post("/api/knowledge/notes", json={"title": "n", "content": "zebra note"})
    return {"conversation": "talk", "thread": thread, "note": note.json()["id"]}


def test_a_key_for_the_bus_reaches_only_threads(shared: Server, library: dict[str, str]) -> None:
    client = shared.client(shared.key(toolsets=["bus"]))
    hits = client.get("/api/search?q=zebra").json()
    assert [hit["thread_id"] for hit in hits["results"]] == [library["thread"]]
    assert hits["total"] == 1
    listing = client.get("/api/threads?scope=all").json()
    assert [thread["id"] for thread in listing["threads"]] == [library["thread"]]
    assert listing["total"] == 1
    message = {"author": "eve", "content": "hello"}
    assert client.post(f"/api/threads/{library['thread']}/messages", json=message).is_success
    missing = client.get("/api/threads/nowhere").json()["detail"]
    for id in (library["conversation"], library["note"]):
        for response in (
            client.get(f"/api/threads/{id}"),
            client.get(f"/api/threads/{id}/messages"),
            client.get(f"/api/search?q=zebra&thread_id={id}"),
            client.post(f"/api/threads/{id}/messages", json=message),
            client.delete(f"/api/threads/{id}"),
        ):
            assert (response.status_code, response.json()["detail"]) == (404, missing)
    everyone = shared.client(shared.key())
    assert everyone.get(f"/conversations/{library['conversation']}").is_success
    assert everyone.get("/api/search?q=zebra").json()["total"] == 2


def test_a_key_for_conversations_reaches_no_notes(shared: Server, library: dict[str, str]) -> None:
    client = shared.client(shared.key(toolsets=["conversations"]))
    note = library["note"]
    assert client.get(f"/conversations/{library['thread']}").is_success
    body = {"role": "user", "content": "hello"}
    for response in (
        client.get(f"/conversations/{note}"),
        client.get(f"/conversations/by-session/{note}"),
        client.put(f"/conversations/{note}?title=other"),
        client.delete(f"/conversations/{note}"),
        client.post(f"/conversations/{note}/export"),
        client.post(f"/conversations/{note}/messages", json=body),
        client.post("/conversations/messages", json={"session_id": note, "messages": [body]}),
        client.post("/conversations", json={"session_id": note, "messages": [body]}),
        client.get(f"/conversations/search/messages?query=zebra&conversation_id={note}"),
        client.get(f"/c/{note}"),
        client.get(f"/c/?id={note}"),
        client.get(f"/console/messages?id={note}"),
        client.get(f"/console/tags?id={note}"),
        client.get(f"/console/matches?id={note}&q=zebra"),
        client.get("/api/v1/search?q=zebra&kind=note"),
        client.get("/?q=zebra&kind=notes"),
    ):
        assert response.status_code in (403, 404), response.url
        assert "zebra note" not in response.text
    for path in ("/api/v1/search?q=zebra", "/?q=zebra", "/conversations/search/messages?query=ze"):
        response = client.get(path)
        assert response.is_success
        assert "zebra note" not in response.text
    document = {"id": "x", "kind": "note", "title": "t", "messages": [{"content": "zebra"}]}
    assert not client.post("/conversations/restore", json=document).is_success
    everyone = shared.client(shared.key())
    assert everyone.get(f"/api/knowledge/notes/{note}").json()["content"] == "zebra note"


# -- the console ---

# What each route of the console does, and the same over REST.
TWINS = {
    "GET /?q=zebra&kind=conversations": "GET /api/v1/search?q=zebra",
    "GET /?q=zebra&kind=notes": "GET /api/knowledge/notes/search?query=zebra",
    "GET /": "GET /conversations",
    "GET /c/?id={conversation}": "GET /conversations/{conversation}",
    "GET /c/{conversation}": "GET /conversations/{conversation}",
    "GET /c/{note}": "GET /conversations/{note}",
    "GET /activity": "GET /api/v1/activity",
    "GET /imports": "GET /api/receipts",
    "GET /console/rows": "GET /conversations",
    "GET /console/rows?kind=notes": "GET /api/knowledge/notes",
    "GET /console/sidebar?kind=conversations": "GET /conversations",
    "GET /console/sidebar?kind=notes": "GET /api/knowledge/notes",
    "GET /console/filters": "GET /api/v1/facets",
    "GET /console/filters?kind=notes": "GET /api/knowledge/notes",
    "GET /console/hits?q=zebra&kind=conversations": "GET /api/v1/search?q=zebra",
    "GET /console/hits?q=zebra&kind=notes": "GET /api/v1/search?q=zebra&kind=note",
    "GET /console/messages?id={conversation}": "GET /conversations/{conversation}/messages",
    "GET /console/messages?id={note}": "GET /conversations/{note}/messages",
    "GET /console/message?id={conversation}&m=m1": "GET /conversations/{conversation}",
    "GET /console/message-text?id={note}&m=x": "GET /conversations/{note}/messages?after=x",
    "GET /console/message-text?id={conversation}&m=m1": "GET /conversations/{conversation}",
    "GET /console/find?id={conversation}&text=zebra": "GET /conversations/{conversation}",
    "GET /console/questions?id={conversation}": "GET /conversations/{conversation}",
    "GET /console/picture?id={note}&m=x&n=0": "GET /conversations/{note}",
    "GET /console/tags?id={conversation}": "GET /conversations/{conversation}",
    "GET /console/matches?id={conversation}&q=zebra": "GET /api/v1/search?q=zebra",
    "GET /console/receipts/{receipt}": "GET /api/receipts",
    "GET /console/facets?q=zebra": "GET /api/v1/facets",
    "GET /console/preview?id={conversation}": "GET /conversations/{conversation}",
    "GET /console/preview?id={note}&kind=notes": "GET /api/knowledge/notes/{note}",
    "GET /console/completions?text=source:": "GET /api/v1/facets",
    "GET /console/names?facet=projects": "GET /api/v1/facets",
    "GET /console/palette?text=z": "GET /conversations",
    "GET /console/row-index?id={conversation}": "GET /conversations",
    "POST /console/edit?id={conversation}&action=pin": "PUT /conversations/{conversation}?title=t",
    "POST /console/edit?id={note}&action=pin": "PUT /conversations/{note}?title=n",
    "POST /console/undo?number={change}": "POST /api/v1/changes/{change}/undo",
    "GET /settings": "GET /api/v1/stats",
    "GET /console/settings/library": "GET /api/v1/stats",
    "GET /console/settings/index": "GET /api/v1/index",
    "GET /console/settings/embeddings": "GET /api/v1/index",
    "GET /console/settings/keys": "GET /api/v1/stats",
    "GET /console/settings/backup": "GET /api/keys",
    "GET /console/settings/exclusions": "GET /api/keys",
    "GET /console/settings/exclusions/preview?pattern=x": "GET /api/keys",
    "POST /console/settings/exclusions/add?pattern=x": "GET /api/keys",
    "POST /console/settings/exclusions/remove?pattern=x": "GET /api/keys",
    "POST /console/settings/backup/start": "GET /api/keys",
    "POST /console/settings/secrets/scan": "GET /api/v1/stats",
    "GET /knowledge/notes": "GET /api/knowledge/notes",
    "GET /knowledge/notes?new=true": "POST /api/knowledge/notes",
    "GET /knowledge/notes/{note}": "GET /api/knowledge/notes/{note}",
    "GET /knowledge/notes/?id={note}": "GET /api/knowledge/notes/{note}",
    "GET /knowledge/notes/{note}?edit=true": "PATCH /api/knowledge/notes/{note}",
    "POST /knowledge/notes": "POST /api/knowledge/notes",
    "POST /knowledge/notes/{note}": "PATCH /api/knowledge/notes/{note}",
    "POST /knowledge/notes/?id={note}": "PATCH /api/knowledge/notes/{note}",
    "GET /console/item-part?kind=notes&id={note}": "GET /api/knowledge/notes/{note}",
    "GET /console/item-text?kind=notes&id={note}": "GET /api/knowledge/notes/{note}",
    "GET /console/item-text?kind=chats&id={conversation}": "GET /api/knowledge/chats/talk",
    "GET /console/portrait?id={note}": "GET /api/knowledge/characters/{note}",
}
NO_TWIN = {"POST /console/import-found", "GET /console/settings/{section}"}
SCOPES = [scopes for n in (2, 1, 3) for scopes in combinations((READ, WRITE, ADMIN), n)]
KEY_TOOLSETS = [CONVERSATIONS, KNOWLEDGE, None, (), BUS, BOTH, (*BOTH, "bus")]


def console_routes() -> set[str]:
    routes = {route for route in ROUTES if re.search(r" /(console|knowledge|c|settings)\b", route)}
    return {*routes, "GET /", "GET /activity", "GET /imports"}


def test_every_route_of_the_console_has_a_twin(shared: Server) -> None:
    find = shared.app.edge.policies.find
    covered = {find(*twin.split("?")[0].split(" ")) for twin in TWINS}
    for route in console_routes() - NO_TWIN:
        method, _, template = route.partition(" ")
        assert find(method, example(template)) in covered, route


@pytest.mark.parametrize(("scopes", "toolsets"), few(product(SCOPES, KEY_TOOLSETS), 3))
def test_the_console_refuses_what_rest_refuses(
    shared: Server,
    library: dict[str, str],
    scopes: tuple[str, ...],
    toolsets: tuple[str, ...] | None,
) -> None:
    client = shared.client(shared.key(scopes, toolsets))
    for route, twin in TWINS.items():
        if is_refused(client, twin, library):
            assert is_refused(client, route, library), route


def is_refused(client: TestClient, route: str, ids: dict[str, str]) -> bool:
    """Whether a key may not use a route, or not with this document."""
    method, _, path = route.partition(" ")
    options: dict[str, Any] = {}
    if method in ("POST", "PATCH", "PUT"):
        options = {"json": {}}
        if path.startswith("/knowledge"):
            options = {"data": {"title": ""}}
        elif "?" in path or "undo" in path:
            options = {}
    response = client.request(method, path.format(change=999, receipt=999, **ids), **options)
    if response.status_code == 404:
        return "Conversation not found" in response.text or "such section" in response.text
    return response.status_code == 403


# -- keys that only write ---


def test_a_key_without_the_scope_to_read_reads_nothing(
    shared: Server, library: dict[str, str]
) -> None:
    everyone, writer = shared.client(shared.key()), shared.client(shared.key(["write"]))
    body = {"id": "w", "title": "yak", "messages": [{"id": "m", "role": "user", "content": "yak"}]}
    everyone.post("/conversations", json=body)
    note = everyone.post("/api/knowledge/notes", json={"title": "yak", "content": "yak"}).json()
    item = f"/api/knowledge/notes/{note['id']}"
    for method, path, more in (
        ("POST", "/conversations", {"json": {"id": "w"}}),
        ("PATCH", "/conversations/w", {"json": {"pinned": True}}),
        ("POST", "/console/edit?id=w&action=unpin", {}),
        ("POST", "/api/threads", {"json": {"topic": "plans"}}),
        ("POST", "/api/forget", {"json": {"text": "yak"}}),
        ("PATCH", item, {"json": {"keywords": ["k"]}}),
        ("POST", f"/knowledge/notes/{note['id']}", {"data": {"title": "x", "version": "1"}}),
        ("POST", "/knowledge/notes", {"data": {"title": ""}}),
        ("DELETE", f"{item}?undo=true", {}),
        ("DELETE", "/conversations/w?undo=true", {}),
        ("DELETE", "/conversations/w?trash=true", {}),
        ("POST", "/api/v1/changes/{}/undo", {}),
        ("POST", "/api/v1/index/resume", {}),
        ("POST", "/api/forget", {"json": {"text": "yak", "confirm": True}}),
    ):
        if "{}" in path:
            path = path.format(everyone.get("/api/v1/changes").json()["changes"][0]["number"])
        response = writer.request(method, path, **more)
        assert "yak" not in response.text, (path, response.text)
        if response.status_code == 200:
            assert not {"title", "message_count", "messages", "embedded"} & set(response.json())
    assert not everyone.get("/conversations/search/messages?query=yak").json()["total"]


def test_a_refused_change_has_not_been_made(shared: Server) -> None:
    everyone, writer = shared.client(shared.key()), shared.client(shared.key(["write"]))
    everyone.post("/conversations", json={"id": "kept", "title": "kept"})
    assert writer.delete("/conversations/kept?undo=true").status_code == 403
    assert everyone.get("/conversations/kept").is_success
    changed = writer.patch("/conversations/kept", json={"title": "new"})
    assert changed.json() == {"id": "kept", "session_id": "kept"}
    assert everyone.get("/conversations/kept").json()["title"] == "new"


# -- tools ---


def test_tools_that_show_what_is_stored_need_the_scope_to_read(own: Server) -> None:
    everyone = own.client(own.key())
    thread = everyone.post("/api/threads", json={"topic": "secret"}).json()["thread_id"]
    note = everyone.post("/api/knowledge/notes", json={"title": "secret", "content": "x"}).json()
    message = {"author": "ann", "content": "secret"}
    everyone.post(f"/api/threads/{thread}/messages", json=message)
    with own.client(own.key(["write"])) as client:
        for name, arguments in (
            ("bus_connect", {"thread_id": thread, "display_name": "eve"}),
            ("notes_write", {"note_id": note["id"], "content": "y"}),
            ("msg_post", {"thread_id": thread, "author": "eve", "content": "x"}),
            (
                "msg_post",
                {"thread_id": thread, "author": "e", "content": "x", "expected_last_seq": 0},
            ),
            ("forget", {"project": "default"}),
        ):
            answer = str(call(client, name, profile="/all", **arguments))
            assert "secret" not in answer, name
            assert ("may not read" in answer) == (name in ("bus_connect", "forget")), answer


@pytest.mark.parametrize("limit", LIMITS)
def test_every_tool_decides_for_every_limit(limit: str) -> None:
    scopes, toolsets = LIMITS[limit]
    for profile in ("default", "all", *TOOLSETS):
        try:
            catalog = Catalog(profile, read_only="write" not in scopes, allowed=toolsets)
        except ValueError:
            continue  # the toolset is no profile of its own
        for tool in all_tools():
            is_permitted = toolsets is None or tool.toolset in toolsets
            if not is_permitted or ("write" not in scopes and not tool.is_read_only):
                assert tool not in catalog._tools.values()


def call(client: TestClient, tool: str, /, profile: str = "", **arguments: Any) -> dict[str, Any]:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    answer: dict[str, Any] = client.post(f"/mcp{profile}", json=message).json()
    return answer


def test_bus_tools_reach_only_threads_with_a_key_for_the_bus(
    shared: Server, library: dict[str, str]
) -> None:
    with shared.client(shared.key(toolsets=["bus"])) as client:
        for id in (library["conversation"], library["note"]):
            for name, arguments in (
                ("msg_list", {"thread_id": id}),
                ("msg_wait", {"thread_id": id, "after_seq": 0, "timeout_seconds": 0}),
                ("msg_post", {"thread_id": id, "author": "eve", "content": "x"}),
                ("bus_connect", {"thread_id": id}),
            ):
                result = call(client, name, **arguments)["result"]
                assert result["isError"]
                assert "Thread not found" in result["content"][0]["text"]
        hits = call(client, "msg_search", query="zebra")["result"]["structuredContent"]
        assert [hit["thread_id"] for hit in hits["results"]] == [library["thread"]]
        threads = call(client, "thread_list", scope="all")["result"]["structuredContent"]
        assert [thread["thread_id"] for thread in threads["threads"]] == [library["thread"]]
        assert "error" in call(client, "recall_search", query="zebra")
        message = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
        assert "error" in client.post("/mcp", json=message).json()


def test_a_read_only_key_writes_nothing_over_mcp(own: Server) -> None:
    with own.client(own.key(["read"])) as client:
        for tool in all_tools():
            if not tool.is_read_only:
                assert "error" in call(client, tool.name), tool.name
