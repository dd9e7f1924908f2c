"""The REST routes of the Bus (docs/contracts/bus.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from clauses import proves
from rest_client import Client
from slow_database import MESSAGES, slow_searches

from recollect.model.audience import MASK
from recollect.serve.http.service import Service

FIELDS = {
    "message_id",
    "thread_id",
    "thread_topic",
    "author",
    "seq",
    "created_at",
    "snippet",
    "metadata",
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")


def thread(
    client: Client, topic: str, *contents: str, author: str = "cursor-agent", **fields: Any
) -> str:
    thread_id: str = client.post("/api/threads", json={"topic": topic}).json()["id"]
    for content in contents:
        answer = post(client, thread_id, author=author, content=content, **fields)
        assert answer.status_code == 201, answer.text
    return thread_id


def post(client: Client, thread_id: str, **message: Any) -> Any:
    return client.post(f"/api/threads/{quote(thread_id, safe='')}/messages", json=message)


def search(client: Client, q: str, **parameters: Any) -> dict[str, Any]:
    client.settle()
    answer = client.get("/api/search", params={"q": q, **parameters})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def text_of(snippet: str) -> str:
    """The text of a snippet, without marks and escapes."""
    return unescape(re.sub("</?mark>", "", snippet))


def contents(client: Client, q: str, **parameters: Any) -> list[str]:
    """The snippets of the results without marks, in alphabetical order."""
    return sorted(text_of(r["snippet"]) for r in search(client, q, **parameters)["results"])


# -- GET /api/search ----------------------------------------------------------


@proves("C2-01")
@pytest.mark.parametrize(
    "parameters", [{}, {"q": ""}, {"q": "  \t\n "}, {"limit": 5}, {"thread_id": "x"}]
)
def test_a_query_is_required(client: Client, parameters: dict[str, Any]) -> None:
    answer = client.get("/api/search", params=parameters)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "Query parameter 'q' must not be empty"


@proves("C2-02")
@pytest.mark.every_state
@pytest.mark.every_store
def test_a_search_covers_all_threads_or_only_one(client: Client) -> None:
    first = thread(client, "One", "consensus one")
    thread(client, "Two", "consensus two")
    client.post(
        "/conversations",
        json={"id": "c1", "messages": [{"role": "user", "content": "consensus three"}]},
    )
    everything = ["consensus one", "consensus three", "consensus two"]
    assert contents(client, "consensus") == everything
    assert contents(client, "consensus", thread_id="") == everything
    assert contents(client, "consensus", thread_id=first) == ["consensus one"]
    assert contents(client, "consensus", thread_id="c1") == ["consensus three"]
    empty = {"results": [], "total": 0, "query": "consensus"}
    assert search(client, "consensus", thread_id="nobody") == empty


@proves("C2-03", "C2-05")
@pytest.mark.every_state
def test_the_limit_is_clamped_and_the_total_is_exact(client: Client) -> None:
    messages = [{"role": "user", "content": f"performance {n}"} for n in range(205)]
    client.post("/conversations", json={"id": "c1", "messages": messages})
    page = search(client, "performance")
    assert (len(page["results"]), page["total"]) == (50, 205)
    for limit, count in ((5, 5), (0, 1), (-1, 1), (200, 200), (201, 200), (10**30, 200)):
        page = search(client, "performance", limit=limit)
        assert (len(page["results"]), page["total"]) == (count, 205), limit
    for limit in ("x", "", "1.5", "NaN"):
        answer = client.get("/api/search", params={"q": "performance", "limit": limit})
        assert answer.status_code == 400, limit


@proves("C2-04", "C2-07")
@pytest.mark.every_state
def test_the_answer_has_the_documented_fields(client: Client) -> None:
    thread_id = thread(client, "My Thread Topic", "nothing here")
    answer = post(
        client,
        thread_id,
        author="cursor-agent-abc123",
        role="assistant",
        content="the quick brown fox jumps",
        metadata={"ui_type": "card"},
    ).json()
    page = search(client, "  brown ")
    assert page.keys() == {"results", "total", "query"}
    assert (page["total"], page["query"]) == (1, "brown")
    (result,) = page["results"]
    assert result.keys() == FIELDS
    assert result == {
        "message_id": answer["msg_id"],
        "thread_id": thread_id,
        "thread_topic": "My Thread Topic",
        "author": "cursor-agent-abc123",
        "seq": 2,
        "created_at": answer["created_at"],
        "snippet": "the quick <mark>brown</mark> fox jumps",
        "metadata": {"ui_type": "card"},
    }
    assert TIME.fullmatch(result["created_at"])


@proves("C2-06")
@pytest.mark.every_state
def test_the_best_match_comes_first(client: Client) -> None:
    thread(
        client,
        "T",
        "angular " + "and many other words that do not matter " * 20,
        "angular angular angular",
        "here is angular, once, in a message that is a bit longer than the best one",
    )
    order = [r["seq"] for r in search(client, "angular")["results"]]
    assert order == [2, 3, 1]


@proves("C2-08")
def test_a_search_that_takes_too_long_is_stopped_and_the_next_one_works(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [{"role": "user", "content": "a common word"} for _ in range(MESSAGES)]
    client.post("/conversations", json={"id": "c1", "messages": messages})
    with slow_searches(str(service.place), monkeypatch):
        answer = client.get("/api/search?q=common")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "Database operation timeout"
    assert answer.json()["error"]["code"] == "UNAVAILABLE"
    assert int(answer.headers["retry-after"]) > 0
    assert search(client, "common")["total"] == MESSAGES


@proves("C2-09")
@pytest.mark.every_state
def test_a_message_is_found_at_once_and_no_longer_after_it_is_deleted(client: Client) -> None:
    thread_id = thread(client, "T", "first")
    for n in range(3):
        post(client, thread_id, author="a", content=f"immediately {n}")
        assert search(client, "immediately")["total"] == n + 1
    client.delete(f"/api/threads/{thread_id}")
    assert search(client, "immediately")["total"] == 0


@proves("C2-10")
@pytest.mark.every_state
def test_only_content_is_searched(client: Client) -> None:
    thread_id = thread(client, "Zebra topic", "nothing", author="giraffe")
    post(
        client,
        thread_id,
        id="okapi",
        author="lion",
        content="nothing either",
        metadata={"note": "tapir"},
    )
    for word in (
        "zebra",
        "topic",
        "giraffe",
        "okapi",
        "lion",
        "tapir",
        "user",
        thread_id.split("-")[0],
    ):
        assert search(client, word)["total"] == 0, word
    assert search(client, "nothing")["total"] == 2
    assert contents(client, "zebra OR nothing") == ["nothing", "nothing either"]
    assert search(client, "nothing NOT zebra")["total"] == 2


# -- query syntax -------------------------------------------------------------

SENTENCES = (
    "Angular signals are fast",
    "signals of angular momentum",
    "we performed well",
    "performance matters",
    "the deployment strategy failed",
    "strategy without a plan",
    "naïve Café",
)


@pytest.fixture
def searchable(client: Client) -> Client:
    thread(client, "T", *SENTENCES)
    return client


def assert_matches(client: Client, q: str, *numbers: int) -> None:
    assert contents(client, q) == sorted(SENTENCES[n] for n in numbers), q


@proves("C2-11", "C2-12", "C2-13", "C2-14", "C2-15", "C2-16")
@pytest.mark.every_state
def test_expressions_match_as_documented(searchable: Client) -> None:
    for q, numbers in {
        "angular": (0, 1),
        "angular signals": (0, 1),
        "signals angular": (0, 1),
        "angular nothing": (),
        '"angular signals"': (0,),
        '"signals angular"': (),
        '"deployment strategy"': (4,),
        "perform*": (2, 3),
        "perform": (),
        "performance": (3,),
        "deployment AND strategy": (4,),
        "deployment OR plan": (4, 5),
        "strategy NOT deployment": (5,),
        "(angular OR strategy) AND (fast OR plan)": (0, 5),
        "angular AND fast OR plan": (0, 5),
        "angular and signals": (),
        "content:angular": (0, 1),
        "content : angular": (0, 1),
        'content:"angular signals"': (0,),
        "ANGULAR Signals": (0, 1),
        "cafe": (6,),
        "CAFÉ": (6,),
        "NAIVE": (6,),
        "strategies": (),
        "matter": (),
        "NEAR(angular fast, 5)": (0,),
        "angular + signals": (0,),
        "perform *": (2, 3),
        '"perf" *': (2, 3),
        "angular + sig *": (0,),
        "{content author} : angular": (0, 1),
        "- author : angular": (0, 1),
    }.items():
        assert_matches(searchable, q, *numbers)


MALFORMED = [
    "*",
    '"',
    '"angular',
    "angular AND",
    "OR",
    "NOT",
    "AND angular",
    "NOT angular",
    "(angular",
    "angular)",
    "()",
    "(((",
    "NEAR(",
    "author:cursor",
    "thread_id:x",
    "- content : angular",
    "{content topic}:angular",
    "angular -signals",
    "angular AND *",
    "^",
    "+",
    '""',
    "- angular (",
    "content:",
    ":",
    "* *",
    "angular OR OR signals",
]


@proves("C2-17")
@pytest.mark.every_state
def test_a_malformed_expression_matches_nothing_and_warns(searchable: Client) -> None:
    for q in MALFORMED:
        page = search(searchable, q)
        assert (page["results"], page["total"], page["query"]) == ([], 0, q.strip()), q
        assert page["warning"], q
        assert page.keys() == {"results", "total", "query", "warning"}


# -- snippets -----------------------------------------------------------------


@proves("C2-18", "C2-19", "C2-20")
@pytest.mark.every_state
def test_a_snippet_has_at_most_twenty_words_around_the_match(client: Client) -> None:
    before, after = (" ".join(f"{side}{n}" for n in range(40)) for side in ("b", "a"))
    for content, ellipses in (
        (f"{before} needle {after}", (True, True)),
        (f"needle {after}", (False, True)),
        (f"{before} needle", (True, False)),
        ("a needle in a haystack", (False, False)),
    ):
        thread_id = thread(client, f"ellipses {ellipses}", content)
        (result,) = search(client, "needle", thread_id=thread_id)["results"]
        snippet = result["snippet"]
        assert (snippet.startswith("…"), snippet.endswith("…")) == ellipses
        assert "<mark>needle</mark>" in snippet
        words = text_of(snippet).strip("…").split()
        assert len(words) <= 20
        assert text_of(snippet).strip("…") in content


EVIL = [
    "needle </mark><img src=x onerror=alert(1)>",
    "<script>alert('needle')</script>",
    "&lt;b&gt; needle &amp; <b>",
    'needle" onmouseover="alert(1)',
    "<mark>needle</mark>",
    "needle <mark",
    "<svg/onload=alert(1)> needle",
    "[x](javascript:alert(1)) needle",
]


@proves("C2-21")
def test_no_markup_of_a_message_survives_in_a_snippet(client: Client) -> None:
    for n, content in enumerate(EVIL):
        thread_id = thread(client, f"<b>{n}</b>", content, author="<i>evil</i>")
        (result,) = search(client, "needle", thread_id=thread_id)["results"]
        snippet = result["snippet"]
        assert snippet.count("<mark>needle</mark>") == 1
        assert not re.search("[<>\"']", snippet.replace("<mark>needle</mark>", ""))
        assert text_of(snippet) == content
        assert (result["thread_topic"], result["author"]) == (f"<b>{n}</b>", "<i>evil</i>")


# -- human-only messages ------------------------------------------------------

MARKS: list[dict[str, Any]] = [
    {"human_only": True},
    {"human_only": True, "metadata": {"visibility": "all", "audience": "everybody"}},
    {"metadata": {"visibility": "human_only"}},
    {"metadata": {"visibility": " Human_Only "}},
    {"metadata": {"audience": "human"}},
    {"metadata": {"audience": "HUMAN\t", "visibility": "all"}},
    {"metadata": {"human_only": True}},
    {"metadata": {"Human-Only": "yes"}},
    {"metadata": {"audience": ["human"]}},
    {"metadata": {"audience": "humans"}},
]


@proves("C2-22", "C2-23", "C2-24")
@pytest.mark.every_state
@pytest.mark.parametrize(
    "mark", [*MARKS[:3], *(pytest.param(mark, marks=pytest.mark.full) for mark in MARKS[3:])]
)
def test_a_human_only_message_is_masked_for_agents(
    client: Client, agent: Client, mark: dict[str, Any]
) -> None:
    thread_id = thread(client, "T", "a secret word", "a common word")
    answer = post(client, thread_id, author="boss", content="a secret raise", **mark)
    assert answer.status_code == 201
    assert contents(client, "secret") == ["a secret raise", "a secret word"]
    page = search(agent, "secret")
    assert page["total"] == 2
    assert sorted(r["snippet"] for r in page["results"]) == [MASK, "a <mark>secret</mark> word"]
    messages = agent.get(f"/api/threads/{thread_id}/messages").json()["messages"]
    assert [(m["content"], m["human_only"]) for m in messages] == [
        ("a secret word", False),
        ("a common word", False),
        (MASK, True),
    ]
    visible = client.get(f"/api/threads/{thread_id}/messages").json()["messages"]
    assert [(m["content"], m["human_only"]) for m in visible][2] == ("a secret raise", True)


@proves("C2-22", "C2-24")
@pytest.mark.parametrize(
    "mark",
    [
        {"visibility": "human_only"},
        {"metadata": {"audience": ["human"]}},
        *(
            pytest.param({"metadata": metadata}, marks=pytest.mark.full)
            for metadata in (
                {"visibility": "HUMAN_ONLY"},
                {"audience": " Human"},
                {"human_only": True},
            )
        ),
    ],
)
@pytest.mark.parametrize("route", ["conversation", "message", "interaction", "restore"])
def test_every_route_masks_a_human_only_message_whichever_route_saved_it(
    client: Client, agent: Client, mark: dict[str, Any], route: str
) -> None:
    message = {"id": "m1", "role": "user", "content": "a secret raise", **mark}
    id_ = save(client, route, message)
    assert client.get(f"/conversations/{id_}").json()["messages"][0]["content"] == "a secret raise"
    for method, path in (
        ("GET", "/api/search?q=secret"),
        ("GET", "/api/v1/search?q=secret"),
        ("GET", "/conversations/search/messages?query=secret"),
        ("GET", f"/conversations/{id_}"),
        ("GET", f"/api/threads/{id_}/messages"),
        ("POST", f"/conversations/{id_}/export?format=json"),
        ("POST", f"/conversations/{id_}/export?format=txt"),
        ("POST", f"/conversations/{id_}/export?format=md"),
    ):
        answer = agent.request(method, path)
        assert answer.status_code == 200, (path, answer.text)
        assert MASK in answer.text, path
        assert "raise" not in answer.text, path


def save(client: Client, route: str, message: dict[str, Any]) -> str:
    """Save a conversation with one message through one of the routes, and return its id."""
    title = {"title": "A title"}
    if route == "message":
        client.post("/conversations", json={"id": "c1", **title})
        answer = client.post("/conversations/c1/messages", json=message)
    elif route == "interaction":
        body = {"session_id": "c1", "messages": [message], **title}
        answer = client.post("/conversations/messages", json=body)
    else:
        answer = client.post("/conversations", json={"id": "c1", "messages": [message], **title})
    assert answer.status_code == 201, answer.text
    if route == "restore":
        removal = client.delete("/conversations/c1", params={"undo": True}).json()
        answer = client.post("/conversations/restore", json=removal["conversation"])
        assert answer.status_code == 201, answer.text
    id_: str = client.get("/conversations").json()["conversations"][0]["id"]
    return id_


@proves("C2-25")
def test_an_agent_sees_only_some_metadata_of_a_human_only_message(
    client: Client, agent: Client
) -> None:
    thread_id = thread(client, "T")
    public = {
        "visibility": "human_only",
        "audience": "human",
        "ui_type": "card",
        "handoff_target": "ann",
        "target_admin_id": "7",
        "source_message_id": "m",
        "decision_type": "yes",
    }
    post(
        client,
        thread_id,
        author="boss",
        content="hush",
        metadata={**public, "salary": 5, "reason": "secret"},
    )
    hidden = public | {"content_hidden": True, "content_hidden_reason": "human_only"}
    assert search(agent, "hush")["results"][0]["metadata"] == hidden
    (message,) = agent.get(f"/api/threads/{thread_id}/messages").json()["messages"]
    assert message["metadata"] == hidden
    assert search(client, "hush")["results"][0]["metadata"]["salary"] == 5


# -- threads ------------------------------------------------------------------


@proves("C2-26")
def test_a_thread_is_created_once_for_each_topic(client: Client) -> None:
    response = client.post(
        "/api/threads", json={"topic": "Release 1.0", "metadata": {"status": "review"}}
    )
    assert response.status_code == 201
    body = response.json()
    assert body.keys() == {
        "id",
        "thread_id",
        "topic",
        "status",
        "created_at",
        "updated_at",
        "message_count",
        "last_seq",
        "metadata",
    }
    assert body["id"] == body["thread_id"]
    assert (body["topic"], body["status"], body["last_seq"]) == ("Release 1.0", "review", 0)
    again = client.post("/api/threads", json={"topic": "Release 1.0"})
    assert (again.status_code, again.json()) == (200, body)
    assert client.post("/api/threads", json={"topic": "release 1.0"}).status_code == 201
    for invalid in (
        {},
        {"topic": ""},
        {"topic": "   "},
        {"topic": 5},
        {"topic": "x" * 501},
        {"topic": "x", "user": "y"},
    ):
        assert client.post("/api/threads", json=invalid).status_code == 400


@proves("C2-27")
def test_threads_are_listed_with_an_exact_total(client: Client) -> None:
    client.post("/conversations", json={"id": "c1", "title": "A chat"})
    ids = [thread(client, f"Topic {n}", "hello", "again") for n in range(3)]
    page = client.get("/api/threads", params={"limit": 2}).json()
    assert page.keys() == {"threads", "total", "limit", "offset"}
    assert [t["id"] for t in page["threads"]] == ids[:0:-1]
    assert (page["total"], page["limit"], page["offset"]) == (3, 2, 0)
    assert [t["last_seq"] for t in page["threads"]] == [2, 2]
    assert [t["id"] for t in client.get("/api/threads?offset=2").json()["threads"]] == ids[:1]
    every = client.get("/api/threads?scope=all").json()
    assert every["total"] == 4
    assert {t["topic"] for t in every["threads"]} == {"A chat", "Topic 0", "Topic 1", "Topic 2"}
    assert client.get("/api/threads?scope=mine").status_code == 400
    post(client, ids[0], author="a", content="now")
    assert client.get("/api/threads").json()["threads"][0]["id"] == ids[0]


@proves("C2-28")
def test_a_thread_can_be_read_and_deleted(client: Client) -> None:
    thread_id = thread(client, "T", "hello")
    summary = client.get(f"/api/threads/{thread_id}").json()
    assert (summary["topic"], summary["message_count"], summary["last_seq"]) == ("T", 1, 1)
    assert client.get(f"/conversations/{thread_id}").json()["messages"][0]["content"] == "hello"
    removal = client.delete(f"/api/threads/{thread_id}").json()
    assert (removal["success"], removal["thread_id"]) == (True, thread_id)
    for answer in (
        client.get(f"/api/threads/{thread_id}"),
        client.delete(f"/api/threads/{thread_id}"),
        client.get(f"/api/threads/{thread_id}/messages"),
        post(client, thread_id, author="a", content="x"),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (404, "Thread not found")
    assert client.get("/api/threads").json()["total"] == 0


@proves("C2-29")
def test_posting_returns_the_number_in_the_thread(client: Client) -> None:
    thread_id, other = thread(client, "T"), thread(client, "Other", "noise")
    for n in range(1, 4):
        answer = post(client, thread_id, author="a", content=f"message {n}")
        assert answer.status_code == 201
        assert answer.json().keys() == {"msg_id", "thread_id", "seq", "created_at"}
        assert (answer.json()["thread_id"], answer.json()["seq"]) == (thread_id, n)
    assert post(client, other, author="a", content="x").json()["seq"] == 2


@proves("C2-29")
@pytest.mark.parametrize(
    "invalid",
    [
        {},
        {"author": "a"},
        {"content": "x"},
        {"author": "", "content": "x"},
        {"author": "a", "content": None},
        {"author": "a", "content": "x", "seq": 5},
        {"author": "a", "content": "x", "human_only": "yes"},
        {"author": "a", "content": "x", "role": ""},
        {"author": "a", "content": "x", "metadata": []},
    ],
)
def test_an_invalid_message_is_refused(client: Client, invalid: dict[str, Any]) -> None:
    thread_id = thread(client, "T")
    assert post(client, thread_id, **invalid).status_code == 400
    assert client.get(f"/api/threads/{thread_id}").json()["last_seq"] == 0


@proves("C2-30")
def test_messages_are_read_in_order_after_a_seq(client: Client) -> None:
    thread_id = thread(client, "T", *(f"message {n}" for n in range(1, 6)))

    def read_page(**parameters: Any) -> tuple[list[int], int, bool]:
        page = client.get(f"/api/threads/{thread_id}/messages", params=parameters).json()
        assert page.keys() == {"messages", "current_seq", "has_more"}
        assert all(m["content"] == f"message {m['seq']}" for m in page["messages"])
        return [m["seq"] for m in page["messages"]], page["current_seq"], page["has_more"]

    assert read_page() == ([1, 2, 3, 4, 5], 5, False)
    assert read_page(limit=2) == ([1, 2], 5, True)
    assert read_page(after_seq=2, limit=2) == ([3, 4], 5, True)
    assert read_page(after_seq=4) == ([5], 5, False)
    assert read_page(after_seq=5) == ([], 5, False)
    assert read_page(after_seq=10**30) == ([], 5, False)
    assert read_page(after_seq=-3, limit=0) == ([1], 5, True)
    first = client.get(f"/api/threads/{thread_id}/messages").json()["messages"][0]
    assert first | {"id": "", "created_at": ""} == {
        "id": "",
        "thread_id": thread_id,
        "author": "cursor-agent",
        "role": "user",
        "content": "message 1",
        "seq": 1,
        "created_at": "",
        "metadata": None,
        "human_only": False,
    }
    assert client.get(f"/api/threads/{thread_id}/messages?after_seq=x").status_code == 400


@proves("C2-24")
@pytest.mark.parametrize("setting", ["", "hide"])
def test_no_route_corrects_a_word_to_one_of_human_only_messages(
    client: Client, agent: Client, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    thread_id = thread(client, "T", "the launch is near")
    post(client, thread_id, author="boss", content="chrysoberyl for 40 euros", human_only=True)
    client.settle()
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", setting)
    seen = 0
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, name in query_parameters(methods):
            parameters = {name: "launch chrysoberil"}
            answer = agent.request(method, path, params=parameters)
            assert "chrysoberyl" not in answer.text.lower(), (path, answer.text)
            seen += "chrysoberyl" in client.request(method, path, params=parameters).text.lower()
    assert seen >= 2


def query_parameters(methods: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for method, operation in methods.items():
        for parameter in operation.get("parameters", []):
            if parameter["name"] in ("q", "query", "text"):
                yield method, parameter["name"]
