"""Contract 2, message search on a bus of agents: every promise of the page, on every store."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from clauses import proves
from starlette.testclient import TestClient

from recollect.errors import SearchTimeout
from recollect.library import Library
from recollect.model import MASK

RESULT = {
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
    client: TestClient, topic: str, *contents: str, author: str = "cursor-agent", **more: Any
) -> str:
    id_: str = client.post("/api/threads", json={"topic": topic}).json()["id"]
    for content in contents:
        posted = post(client, id_, author=author, content=content, **more)
        assert posted.status_code == 201, posted.text
    return id_


def post(client: TestClient, thread_id: str, **message: Any) -> Any:
    return client.post(f"/api/threads/{quote(thread_id, safe='')}/messages", json=message)


def search(client: TestClient, q: str, **parameters: Any) -> dict[str, Any]:
    answer = client.get("/api/search", params={"q": q, **parameters})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def plain(snippet: str) -> str:
    """A snippet as a person reads it."""
    return unescape(re.sub("</?mark>", "", snippet))


def found(client: TestClient, q: str, **parameters: Any) -> list[str]:
    return sorted(plain(r["snippet"]) for r in search(client, q, **parameters)["results"])


# -- GET /api/search ---------------------------------------------------------


@proves("C2-01")
@pytest.mark.parametrize(
    "asked", [{}, {"q": ""}, {"q": "  \t\n "}, {"limit": 5}, {"thread_id": "x"}]
)
def test_a_query_is_required(client: TestClient, asked: dict[str, Any]) -> None:
    answer = client.get("/api/search", params=asked)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "Query parameter 'q' must not be empty"


@pytest.mark.both_stores
@proves("C2-02")
def test_every_thread_is_searched_or_one(client: TestClient) -> None:
    first = thread(client, "One", "consensus one")
    thread(client, "Two", "consensus two")
    client.post(
        "/conversations",
        json={"id": "c1", "messages": [{"role": "user", "content": "consensus three"}]},
    )
    assert found(client, "consensus") == ["consensus one", "consensus three", "consensus two"]
    assert found(client, "consensus", thread_id=first) == ["consensus one"]
    assert found(client, "consensus", thread_id="c1") == ["consensus three"]
    assert found(client, "consensus", thread_id="") == [
        "consensus one",
        "consensus three",
        "consensus two",
    ]
    assert search(client, "consensus", thread_id="nobody") == {
        "results": [],
        "total": 0,
        "query": "consensus",
    }


@proves("C2-03", "C2-05")
def test_the_limit_is_clamped_and_the_total_is_true(client: TestClient) -> None:
    messages = [{"role": "user", "content": f"performance {n}"} for n in range(205)]
    client.post("/conversations", json={"id": "c1", "messages": messages})
    for asked, given in (
        (None, 50),
        (5, 5),
        (0, 1),
        (-1, 1),
        (200, 200),
        (201, 200),
        (10**30, 200),
    ):
        page = search(client, "performance", **({} if asked is None else {"limit": asked}))
        assert (len(page["results"]), page["total"]) == (given, 205), asked
    for wrong in ("x", "", "1.5", "NaN"):
        assert (
            client.get("/api/search", params={"q": "performance", "limit": wrong}).status_code
            == 400
        )


@pytest.mark.both_stores
@proves("C2-04", "C2-07")
def test_the_answer_has_the_shape_of_the_page(client: TestClient) -> None:
    id_ = thread(client, "My Thread Topic", "nothing here")
    posted = post(
        client,
        id_,
        author="cursor-agent-abc123",
        role="assistant",
        content="the quick brown fox jumps",
        metadata={"ui_type": "card"},
    ).json()
    page = search(client, "  brown ")
    assert page.keys() == {"results", "total", "query"}
    assert (page["total"], page["query"]) == (1, "brown")
    (result,) = page["results"]
    assert result.keys() == RESULT
    assert result == {
        "message_id": posted["msg_id"],
        "thread_id": id_,
        "thread_topic": "My Thread Topic",
        "author": "cursor-agent-abc123",
        "seq": 2,
        "created_at": posted["created_at"],
        "snippet": "the quick <mark>brown</mark> fox jumps",
        "metadata": {"ui_type": "card"},
    }
    assert TIME.fullmatch(result["created_at"])


@proves("C2-04", "C2-07")
def test_a_message_without_a_name_or_metadata_shows_its_role_and_null(client: TestClient) -> None:
    client.post(
        "/conversations", json={"id": "c1", "messages": [{"role": "assistant", "content": "brown"}]}
    )
    (result,) = search(client, "brown")["results"]
    assert (result["author"], result["metadata"], result["seq"]) == ("assistant", None, 1)


@proves("C2-06")
def test_the_best_match_comes_first(client: TestClient) -> None:
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
def test_a_search_that_takes_too_long_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object, **__: object) -> None:
        raise SearchTimeout("The search took longer than a second.")

    monkeypatch.setattr(Library, "exact", slow)
    answer = client.get("/api/search?q=brown")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "Database operation timeout"
    assert answer.json()["error"]["code"] == "UNAVAILABLE"
    assert int(answer.headers["retry-after"]) > 0


@proves("C2-09")
def test_a_message_is_found_at_once_and_not_after_it_was_deleted(client: TestClient) -> None:
    id_ = thread(client, "T", "first")
    for n in range(3):
        post(client, id_, author="a", content=f"immediately {n}")
        assert search(client, "immediately")["total"] == n + 1
    client.delete(f"/api/threads/{id_}")
    assert search(client, "immediately")["total"] == 0


@proves("C2-10")
def test_only_contents_are_searched(client: TestClient) -> None:
    id_ = thread(client, "Zebra topic", "nothing", author="giraffe")
    post(
        client, id_, id="okapi", author="lion", content="nothing either", metadata={"note": "tapir"}
    )
    for word in ("zebra", "topic", "giraffe", "okapi", "lion", "tapir", "user", id_.split("-")[0]):
        assert search(client, word)["total"] == 0, word
    assert search(client, "nothing")["total"] == 2
    assert found(client, "zebra OR nothing") == ["nothing", "nothing either"]
    assert search(client, "nothing NOT zebra")["total"] == 2


# -- query syntax ------------------------------------------------------------

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
def sentences(client: TestClient) -> TestClient:
    thread(client, "T", *SENTENCES)
    return client


def expect(client: TestClient, q: str, *numbers: int) -> None:
    assert found(client, q) == sorted(SENTENCES[n] for n in numbers), q


@proves("C2-11", "C2-12", "C2-13", "C2-14", "C2-15", "C2-16")
def test_expressions_mean_what_the_page_says(sentences: TestClient) -> None:
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
    }.items():
        expect(sentences, q, *numbers)


@proves("C2-16")
@pytest.mark.parametrize(
    ("content", "q"),
    [
        ("ПРИВЕТ, мир", "привет"),
        ("ΚΌΣΜΕ καλημέρα", "κόσμε"),
        ("deploy/prod.yaml:42", "prod"),
        ("foo.bar(baz)", "baz"),
        ("don't panic", "panic"),
        ("今日は東京タワーに行きました", "東京タワー"),
    ],
)
def test_words_end_at_space_and_punctuation_in_any_alphabet(
    client: TestClient, content: str, q: str
) -> None:
    thread(client, "T", "something else", content)
    assert found(client, q) == [content]


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
    "{content author}:angular",
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
def test_a_malformed_expression_finds_nothing_and_says_why(sentences: TestClient) -> None:
    for q in MALFORMED:
        page = search(sentences, q)
        assert (page["results"], page["total"], page["query"]) == ([], 0, q.strip()), q
        assert page["warning"], q
        assert page.keys() == {"results", "total", "query", "warning"}


# -- snippets ----------------------------------------------------------------


@proves("C2-18", "C2-19", "C2-20")
def test_a_snippet_shows_twenty_words_around_what_matched(client: TestClient) -> None:
    before, after = (" ".join(f"{side}{n}" for n in range(40)) for side in ("b", "a"))
    for content, cut in (
        (f"{before} needle {after}", (True, True)),
        (f"needle {after}", (False, True)),
        (f"{before} needle", (True, False)),
        ("a needle in a haystack", (False, False)),
    ):
        id_ = thread(client, f"cut at {cut}", content)
        (result,) = search(client, "needle", thread_id=id_)["results"]
        snippet = result["snippet"]
        assert (snippet.startswith("…"), snippet.endswith("…")) == cut
        assert "<mark>needle</mark>" in snippet
        words = plain(snippet).strip("…").split()
        assert len(words) <= 20
        assert plain(snippet).strip("…") in content


@proves("C2-19")
def test_every_word_that_matched_is_marked(client: TestClient) -> None:
    thread(client, "T", "The brown Fox saw a brownish FOX")
    (result,) = search(client, "brown fox")["results"]
    assert (
        result["snippet"]
        == "The <mark>brown</mark> <mark>Fox</mark> saw a brownish <mark>FOX</mark>"
    )


@proves("C2-18")
def test_a_long_message_has_a_short_snippet(client: TestClient) -> None:
    for content in (
        "x" * 300_000 + " needle",
        "needle " * 30_000,
        "needle" + "!" * 100_000,
        "a\n" * 100_000 + "needle",
    ):
        client.post(
            "/conversations",
            json={"id": content[-9:], "messages": [{"role": "user", "content": content}]},
        )
    results = search(client, "needle")["results"]
    assert len(results) == 4
    assert all(len(r["snippet"]) < 5_000 for r in results)


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
def test_no_markup_of_a_message_survives_in_a_snippet(client: TestClient) -> None:
    for n, content in enumerate(EVIL):
        id_ = thread(client, f"<b>{n}</b>", content, author="<i>evil</i>")
        (result,) = search(client, "needle", thread_id=id_)["results"]
        snippet = result["snippet"]
        assert snippet.count("<mark>needle</mark>") == 1
        assert not re.search("[<>\"']", snippet.replace("<mark>needle</mark>", ""))
        assert plain(snippet) == content
        assert (result["thread_topic"], result["author"]) == (f"<b>{n}</b>", "<i>evil</i>")


# -- human-only messages -----------------------------------------------------

MARKS: list[dict[str, Any]] = [
    {"human_only": True},
    {"metadata": {"visibility": "human_only"}},
    {"metadata": {"visibility": "Human_Only"}},
    {"metadata": {"audience": "human"}},
    {"metadata": {"audience": "HUMAN"}},
]


@proves("C2-22", "C2-23", "C2-24")
@pytest.mark.parametrize("mark", MARKS)
def test_a_message_for_people_is_masked_for_agents(
    client: TestClient, agent: TestClient, mark: dict[str, Any]
) -> None:
    id_ = thread(client, "T", "a secret word", "a common word")
    assert post(client, id_, author="boss", content="a secret raise", **mark).status_code == 201
    assert found(client, "secret") == ["a secret raise", "a secret word"]
    page = search(agent, "secret")
    assert page["total"] == 2
    assert sorted(r["snippet"] for r in page["results"]) == [MASK, "a <mark>secret</mark> word"]
    shown = agent.get(f"/api/threads/{id_}/messages").json()["messages"]
    assert [(m["content"], m["human_only"]) for m in shown] == [
        ("a secret word", False),
        ("a common word", False),
        (MASK, True),
    ]
    seen = client.get(f"/api/threads/{id_}/messages").json()["messages"]
    assert [(m["content"], m["human_only"]) for m in seen][2] == ("a secret raise", True)


@proves("C2-22")
@pytest.mark.parametrize(
    "mark",
    [
        {},
        {"human_only": False},
        {"metadata": {"visibility": "all"}},
        {"metadata": {"audience": "humans"}},
        {"metadata": {"audience": ["human"]}},
        {"metadata": {"visibility": None}},
    ],
)
def test_other_messages_are_for_everybody(
    client: TestClient, agent: TestClient, mark: dict[str, Any]
) -> None:
    id_ = thread(client, "T")
    post(client, id_, author="boss", content="an open word", **mark)
    assert found(agent, "open") == ["an open word"]


@proves("C2-25")
def test_an_agent_sees_only_some_metadata_of_a_message_for_people(
    client: TestClient, agent: TestClient
) -> None:
    id_ = thread(client, "T")
    told = {
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
        id_,
        author="boss",
        content="hush",
        metadata={**told, "salary": 5, "reason": "secret"},
    )
    hidden = told | {"content_hidden": True, "content_hidden_reason": "human_only"}
    assert search(agent, "hush")["results"][0]["metadata"] == hidden
    assert agent.get(f"/api/threads/{id_}/messages").json()["messages"][0]["metadata"] == hidden
    assert search(client, "hush")["results"][0]["metadata"]["salary"] == 5


# -- threads -----------------------------------------------------------------


@proves("C2-26")
def test_a_thread_is_known_by_its_topic(client: TestClient) -> None:
    made = client.post(
        "/api/threads", json={"topic": "Release 1.0", "metadata": {"status": "review"}}
    )
    assert made.status_code == 201
    shown = made.json()
    assert shown.keys() == {
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
    assert shown["id"] == shown["thread_id"]
    assert (shown["topic"], shown["status"], shown["last_seq"]) == ("Release 1.0", "review", 0)
    again = client.post("/api/threads", json={"topic": "Release 1.0"})
    assert (again.status_code, again.json()) == (200, shown)
    assert client.post("/api/threads", json={"topic": "release 1.0"}).status_code == 201
    for wrong in (
        {},
        {"topic": ""},
        {"topic": "   "},
        {"topic": 5},
        {"topic": "x" * 501},
        {"topic": "x", "user": "y"},
    ):
        assert client.post("/api/threads", json=wrong).status_code == 400


@proves("C2-27")
def test_threads_are_listed_with_a_true_total(client: TestClient) -> None:
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
def test_a_thread_can_be_read_and_deleted(client: TestClient) -> None:
    id_ = thread(client, "T", "hello")
    shown = client.get(f"/api/threads/{id_}").json()
    assert (shown["topic"], shown["message_count"], shown["last_seq"]) == ("T", 1, 1)
    assert client.get(f"/conversations/{id_}").json()["messages"][0]["content"] == "hello"
    assert client.delete(f"/api/threads/{id_}").json() == {"success": True, "thread_id": id_}
    for answer in (
        client.get(f"/api/threads/{id_}"),
        client.delete(f"/api/threads/{id_}"),
        client.get(f"/api/threads/{id_}/messages"),
        post(client, id_, author="a", content="x"),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (404, "Thread not found")
    assert client.get("/api/threads").json()["total"] == 0


@proves("C2-29")
def test_posting_gives_the_place_in_the_thread(client: TestClient) -> None:
    id_, other = thread(client, "T"), thread(client, "Other", "noise")
    for n in range(1, 4):
        posted = post(client, id_, author="a", content=f"message {n}")
        assert posted.status_code == 201
        assert posted.json().keys() == {"msg_id", "thread_id", "seq", "created_at"}
        assert (posted.json()["thread_id"], posted.json()["seq"]) == (id_, n)
    assert post(client, other, author="a", content="x").json()["seq"] == 2


@proves("C2-29")
def test_a_message_posted_again_is_stored_once(client: TestClient) -> None:
    id_ = thread(client, "T", "before")
    message = {
        "id": "m1",
        "author": "a",
        "content": "hello",
        "metadata": {"x": 1},
        "reply_to": "m0",
    }
    first = post(client, id_, **message)
    post(client, id_, author="b", content="between")
    again = post(client, id_, **message)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert post(client, id_, **(message | {"content": "else"})).status_code == 409
    shown = client.get(f"/api/threads/{id_}/messages").json()["messages"]
    assert [m["content"] for m in shown] == ["before", "hello", "between"]
    assert shown[1]["metadata"] == {"x": 1, "reply_to": "m0"}


@proves("C2-29")
@pytest.mark.parametrize(
    "wrong",
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
def test_what_is_no_message_is_refused(client: TestClient, wrong: dict[str, Any]) -> None:
    id_ = thread(client, "T")
    assert post(client, id_, **wrong).status_code == 400
    assert client.get(f"/api/threads/{id_}").json()["last_seq"] == 0


@proves("C2-30")
def test_messages_are_read_in_order_after_a_seq(client: TestClient) -> None:
    id_ = thread(client, "T", *(f"message {n}" for n in range(1, 6)))

    def read(**asked: Any) -> tuple[list[int], int, bool]:
        page = client.get(f"/api/threads/{id_}/messages", params=asked).json()
        assert page.keys() == {"messages", "current_seq", "has_more"}
        assert all(m["content"] == f"message {m['seq']}" for m in page["messages"])
        return [m["seq"] for m in page["messages"]], page["current_seq"], page["has_more"]

    assert read() == ([1, 2, 3, 4, 5], 5, False)
    assert read(limit=2) == ([1, 2], 5, True)
    assert read(after_seq=2, limit=2) == ([3, 4], 5, True)
    assert read(after_seq=4) == ([5], 5, False)
    assert read(after_seq=5) == ([], 5, False)
    assert read(after_seq=10**30) == ([], 5, False)
    assert read(after_seq=-3, limit=0) == ([1], 5, True)
    shown = client.get(f"/api/threads/{id_}/messages").json()["messages"][0]
    assert shown | {"id": "", "created_at": ""} == {
        "id": "",
        "thread_id": id_,
        "author": "cursor-agent",
        "role": "user",
        "content": "message 1",
        "seq": 1,
        "created_at": "",
        "metadata": None,
        "human_only": False,
    }
    assert client.get(f"/api/threads/{id_}/messages?after_seq=x").status_code == 400


@proves("C2-30")
def test_a_hundred_messages_are_read_unless_told_otherwise(client: TestClient) -> None:
    messages = [{"role": "user", "content": f"message {n}"} for n in range(250)]
    client.post("/conversations", json={"id": "a/b", "messages": messages})
    page = client.get("/api/threads/a%2Fb/messages").json()
    assert ([m["seq"] for m in page["messages"]], page["has_more"]) == ([*range(1, 101)], True)
    page = client.get("/api/threads/a%2Fb/messages?limit=1000&after_seq=20").json()
    assert ([m["seq"] for m in page["messages"]], page["has_more"]) == ([*range(21, 221)], True)
