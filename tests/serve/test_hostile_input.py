"""Hostile input: no text makes a route fail or is interpreted as anything but data."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from people import World, percent_encode
from starlette.testclient import TestClient

CONTENTS = (
    "state-of-the-art foo.bar in C++ and c#",
    "version 20.04 of a:b, it's 100% a_b",
    "NEAR AND OR NOT near and or not",
)


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[TestClient]:
    """A user with a few messages, shared by the tests of this module."""
    with world.client(f"hostile-{uuid.uuid4()}") as client:
        client.post(
            "/conversations",
            json={"id": "c1", "messages": [{"role": "user", "content": c} for c in CONTENTS]},
        )
        yield client


# -- full-text syntax --------------------------------------------------------

SYNTAX = [
    "*",
    '"',
    "a-b",
    "a:b",
    "NEAR(",
    "AND",
    '"a',
    "a OR",
    "^",
    "-",
    "(((",
    "+",
    "{t}:a",
    "col:",
    "a'b",
    "x\0y",
    "20.04",
    "C++",
    "c#",
    "a*",
    "NOT",
    "a NOT",
    "NOT a",
    ")",
    "()",
    '""',
    "a AND AND b",
    "NEAR(a b",
    "NEAR(a b, )",
    "NEAR(a b, -1)",
    "NEAR(a b, 99999999999999999999)",
    "NEAR/5",
    "a NEAR/x b",
    "content:",
    "content:*",
    "{content}:a",
    "-content:a",
    "a ^b",
    "a + b +",
    "\\",
    '\\"',
    "'",
    ";",
    "--",
    "/*",
    "%",
    "_",
    "$$",
    "&",
    "|",
    "!",
    "a & b | !c",
    "a:*",
    "a:*B",
    "<->",
    "a<->b",
    "\ud7ff",
    "\ufffe",
    "\u202e",
    "\x1b[31m",
    "e" + "\u0301" * 200,
    "🎉",
    "東京",
    "ﬁ",
    "ß",
    "İ",
    "ı",
    " a ",
    "\ta\n",
    "role:",
    "role:admin",
    "before:",
    "before:never",
    "after:9999-99-99",
    "in:",
    "tag:",
    "title:",
    "from:",
    "-role:user",
    "role:user (",
    "a before:2024",
    "title:*",
    'title:"',
    "-" * 100,
    "a " * 60,
    "(" * 100 + "a" + ")" * 100,
    "a OR " * 40 + "a",
    '"' + "a " * 200 + '"',
    "NOT " * 50 + "a",
    "x" * 1_000,
]


def ask(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(path, params=parameters)
    assert answer.status_code in (200, 400), answer.text
    body = answer.json()
    if answer.status_code == 400:
        assert body["error"]["code"] == "VALIDATION_ERROR"
    for leak in (
        "no such column",
        "syntax error at",
        "fts5",
        "tsquery",
        "malformed MATCH",
        "Traceback",
    ):
        assert leak not in answer.text
    return body


@pytest.mark.parametrize("share", [6, pytest.param(1, marks=pytest.mark.full)])
def test_no_query_syntax_makes_a_search_fail(client: TestClient, share: int) -> None:
    """One text in `share` is searched for on every route, and all of them on one."""
    for text in SYNTAX:
        ask(client, "/api/v1/search", q=text)
    for text in SYNTAX[::share]:
        body = ask(client, "/api/search", q=text)
        if text.strip() and "results" in body:
            assert body["query"] == text.strip()
        for mode in ({"group": "conversation"}, {"score": "fts", "hidden": True}):
            ask(client, "/api/v1/search", q=text, **mode)
        ask(client, "/api/v1/search", q=[text, "a"])
        ask(client, "/conversations/search/messages", query=text)
        ask(client, "/conversations", search=text, namespace=text)


def test_punctuation_that_is_not_syntax_is_searched_for(client: TestClient) -> None:
    for text in ("state-of-the-art", "foo.bar", "20.04", "C++", "it's", "100%"):
        assert ask(client, "/api/v1/search", q=text)["hits"], text
        assert ask(client, "/conversations/search/messages", query=text)["total"] == 1, text


OPERATORS = st.sampled_from(
    [
        "AND",
        "OR",
        "NOT",
        "NEAR",
        "NEAR(",
        "(",
        ")",
        '"',
        "*",
        "^",
        "-",
        "+",
        ":",
        ",",
        "a",
        "b*",
        "content:",
        "role:user",
        "before:2024",
        "{",
        "}",
        "5",
        "/",
        "\\",
        "'",
    ]
)
QUERIES = st.one_of(
    st.text(max_size=80),
    st.lists(OPERATORS, max_size=12).map(" ".join),
    st.lists(OPERATORS).map("".join),
)


@given(QUERIES)
def test_no_text_makes_a_search_fail(client: TestClient, text: str) -> None:
    body = ask(client, "/api/search", q=text)
    if "results" in body:
        assert len(body["results"]) <= body["total"]
        for result in body["results"]:
            bare = result["snippet"].replace("<mark>", "").replace("</mark>", "")
            assert "<" not in bare
    ask(client, "/api/v1/search", q=text)


@pytest.mark.parametrize(
    "path", ["/api/search", "/api/v1/search", "/conversations/search/messages"]
)
def test_a_long_query_is_searched_or_rejected(client: TestClient, path: str) -> None:
    name = "query" if path.startswith("/c") else "q"
    for text in ["a " * 20_000, "(a)+$" * 3_000, "x" * 60_000, "é" * 600]:
        assert client.get(path, params={name: text}).status_code in (200, 400)


# -- other languages ---------------------------------------------------------

INJECTIONS = [
    "' OR 1=1--",
    "'; drop table document; --",
    '" OR ""="',
    "%",
    "\\",
    "1; select pg_sleep(5)",
    "$1",
    "?",
    "{{7*7}}",
    "../../../etc/passwd",
    "\r\nX-Evil: 1",
    "\0",
    "null",
    "{}",
    "-1",
    "NaN",
    "9" * 400,
    "<script>alert(1)</script>",
]


@pytest.mark.parametrize("share", [24, pytest.param(1, marks=pytest.mark.full)])
def test_no_parameter_of_any_route_is_interpreted_as_code(
    world: World, client: TestClient, share: int
) -> None:
    """Every parameter gets one text in `share`, in turn."""
    attempts = 0
    parameter_count = 0
    before = client.post("/conversations/c1/export").json()
    for path, operations in world.app.openapi()["paths"].items():
        if path == "/api/events" or path.startswith("/v1/") or "get" not in operations:
            continue
        for parameter in operations["get"].get("parameters", ()):
            parameter_count += 1
            for text in INJECTIONS[parameter_count % share :: share]:
                url = path.replace(f"{{{parameter['name']}}}", percent_encode(text)).replace(
                    "{source}", "chats"
                )
                url = url.replace("{item_id}", "c1")
                others = {"q": "a", "query": "a", "conversation": "c1", "message": "m"}
                parameters = {
                    p["name"]: others[p["name"]]
                    for p in operations["get"]["parameters"]
                    if p["name"] in others
                }
                if parameter["in"] == "query":
                    parameters[parameter["name"]] = text
                answer = client.get(url, params=parameters)
                assert answer.status_code in (200, 400, 403, 404), (url, parameters, answer.text)
                assert "x-evil" not in answer.headers
                assert "root:" not in answer.text
                attempts += 1
    assert attempts > 500 / share
    assert client.post("/conversations/c1/export").json() == before


def test_a_query_that_looks_like_sql_finds_only_itself(client: TestClient) -> None:
    for text in ("' OR 1=1--", "%%%", "a%b", "100_", "\\%"):
        assert ask(client, "/conversations/search/messages", query=text)["total"] == 0, text
        assert ask(client, "/conversations", search=text)["total"] == 0, text
        assert ask(client, "/conversations", namespace=text)["total"] == 0, text
        assert ask(client, "/api/search", q="version", thread_id=text)["total"] == 0, text


# -- dates -------------------------------------------------------------------


# -- headers and paths -------------------------------------------------------


def test_stored_text_never_becomes_a_header(client: TestClient) -> None:
    plain = client.post("/conversations", json={"id": "plain", "title": "Plain"})
    evil = (
        '"\r\nSet-Cookie: a=b\r\nContent-Type: text/html\r\n\r\n'
        "<script>; filename=x.html \u202e\u4e2d"
    )
    created = client.post("/conversations", json={"id": evil, "title": evil, "namespace": evil})
    assert created.status_code == 201
    assert created.headers.keys() == plain.headers.keys()
    for tail in ("", "/export?format=json", "/export?format=txt", "/export?format=md"):
        method = "POST" if tail else "GET"
        answers = [
            client.request(method, f"/conversations/{percent_encode(id_)}{tail}")
            for id_ in ("plain", evil)
        ]
        assert answers[0].headers.keys() == answers[1].headers.keys()
        assert answers[1].headers["content-type"] == "application/json"
        assert answers[1].status_code == 200
    assert client.delete(f"/conversations/{percent_encode(evil)}").json()["conversation_id"] == evil


@pytest.mark.parametrize(
    "path",
    [
        "/conversations/..%2f..%2f..%2fetc%2fpasswd",
        "/static/..%2f..%2fpyproject.toml",
        "/static/%2e%2e/%2e%2e/x",
        "/static//etc/passwd",
        "/static/..%5c..%5cx",
        "/users/default/library.db",
        "/library.db",
        "/keys.db",
        "/uploads/conversations.db",
        "/%2e%2e%2fkeys.db",
    ],
)
def test_no_path_leads_to_a_file_on_disk(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert b"SQLite" not in answer.content
    assert b"root:" not in answer.content
