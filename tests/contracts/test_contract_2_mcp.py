"""Contract 2 as agents meet it: `msg_search` and its neighbours, on every store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from clauses import proves
from tool_calls import Caller

from recollect.errors import SearchTimeout
from recollect.library import Library
from recollect.model import MASK

RESULT = {"message_id", "thread_id", "thread_topic", "author", "seq", "created_at", "snippet"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")
NOTHING = {"results": [], "total": 0}


@pytest.fixture
def agent(place: str) -> Iterator[Caller]:
    caller = Caller(place, "bus")
    yield caller
    caller.close()


@pytest.fixture
def person(place: str) -> Iterator[Caller]:
    caller = Caller(place, "bus", agent=False)
    yield caller
    caller.close()


def search(caller: Caller, query: str, **arguments: Any) -> Any:
    return caller.answer("msg_search", query=query, **arguments)


def found(caller: Caller, query: str, **arguments: Any) -> list[str]:
    return sorted(
        re.sub("</?mark>", "", result["snippet"])
        for result in search(caller, query, **arguments)["results"]
    )


# -- msg_search ----------------------------------------------------------------


@proves("C2-31")
def test_the_tool_takes_a_query_a_thread_and_a_limit(agent: Caller) -> None:
    tool = next(tool for tool in agent.catalog.listing() if tool["name"] == "msg_search")
    schema = tool["inputSchema"]
    assert {name: given["type"] for name, given in schema["properties"].items()} == {
        "query": "string",
        "thread_id": "string",
        "limit": "integer",
    }
    assert (schema["required"], schema["additionalProperties"]) == (["query"], False)
    assert schema["properties"]["limit"]["default"] == 50
    assert tool["annotations"]["readOnlyHint"] is True
    agent.thread("t")
    assert "'scope'" in agent.error("msg_search", query="x", scope="all")["error"]


@proves("C2-32")
def test_the_answer_has_exactly_the_shape_of_the_page(agent: Caller) -> None:
    id_ = agent.thread("My Thread Topic", "nothing here")
    posted = agent.answer(
        "msg_post",
        thread_id=id_,
        author="cursor-agent-abc123",
        content="the quick brown fox jumps",
        metadata={"ui_type": "card"},
    )
    page = search(agent, "  brown ")
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
    }
    assert TIME.fullmatch(result["created_at"])


@proves("C2-33")
def test_the_limit_is_capped_and_the_total_is_true(agent: Caller, library: Library) -> None:
    library.add_conversation(
        "c1", messages=[{"role": "user", "content": f"performance {n}"} for n in range(205)]
    )
    for asked, given in (
        (None, 50),
        (5, 5),
        (0, 1),
        (-1, 1),
        (200, 200),
        (201, 200),
        (10**30, 200),
        ("7", 7),
    ):
        page = search(agent, "performance", limit=asked)
        assert (len(page["results"]), page["total"]) == (given, 205), asked
    for wrong in ("x", True, [5], {}):
        assert agent.error("msg_search", query="performance", limit=wrong) == {
            "error": "Invalid limit: expected a number."
        }


@proves("C2-34")
@pytest.mark.parametrize(
    "asked", [{}, {"query": ""}, {"query": " \t\n"}, {"query": None}, {"limit": 5}]
)
def test_an_empty_query_is_an_error_before_anything_is_searched(
    agent: Caller, library: Library, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr(Library, "exact", None)
    assert agent.error("msg_search", **asked) == {"error": "query must not be empty"}


@proves("C2-35")
@pytest.mark.parametrize("query", ["*", '"open', "a AND", "(a", "a )", "NEAR(a", "author:bob"])
def test_a_malformed_expression_finds_nothing(agent: Caller, library: Library, query: str) -> None:
    library.add_conversation(
        "c1", messages=[{"role": "user", "content": "a state of the art, open, bob"}]
    )
    assert search(agent, query) == {**NOTHING, "query": query}


@proves("C2-36")
def test_a_timeout_is_never_an_empty_result(
    agent: Caller, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object, **__: object) -> None:
        raise SearchTimeout("details that nobody needs")

    monkeypatch.setattr(Library, "exact", slow)
    assert agent.error("msg_search", query="x") == {"error": "Database operation timeout"}


@pytest.mark.both_stores
@proves("C2-37")
def test_every_thread_is_searched_or_one(agent: Caller, library: Library) -> None:
    first = agent.thread("One", "consensus one")
    agent.thread("Two", "consensus two")
    library.add_conversation("c1", messages=[{"role": "user", "content": "consensus three"}])
    everything = ["consensus one", "consensus three", "consensus two"]
    assert found(agent, "consensus") == found(agent, "consensus", thread_id="") == everything
    assert found(agent, "consensus", thread_id=first) == ["consensus one"]
    assert search(agent, "consensus", thread_id="nobody") == {**NOTHING, "query": "consensus"}


@proves("C2-38")
def test_the_syntax_of_the_page_works(agent: Caller, library: Library) -> None:
    agent.thread(
        "t", "angular signals", "signals of an Angular app", "performance tests", "performing well"
    )
    for query, contents in (
        ("ANGULAR", ["angular signals", "signals of an Angular app"]),
        ('"angular signals"', ["angular signals"]),
        ("perform*", ["performance tests", "performing well"]),
        ("angular NOT app", ["angular signals"]),
        (
            "(app OR tests) AND (angular OR performance)",
            ["performance tests", "signals of an Angular app"],
        ),
        ("content:well", ["performing well"]),
    ):
        assert found(agent, query) == contents, query


@proves("C2-39")
def test_snippets_are_short_marked_and_escaped(agent: Caller) -> None:
    words = " ".join(f"w{n}" for n in range(40))
    agent.thread("t", f"{words} <img src=x onerror=alert(1)> brown & <mark>fake</mark> {words}")
    (result,) = search(agent, "brown")["results"]
    assert result["snippet"].startswith("…")
    assert result["snippet"].endswith("…")
    assert result["snippet"].count("<") == 2
    assert "<mark>brown</mark> &amp; &lt;mark&gt;fake" in result["snippet"]


@proves("C2-40")
def test_a_human_only_message_is_counted_and_masked(agent: Caller, person: Caller) -> None:
    id_ = agent.thread("t", "the launch is public")
    for given in (
        {"human_only": True},
        {"metadata": {"visibility": "human_only"}},
        {"metadata": {"audience": "human"}},
    ):
        person.answer(
            "msg_post", thread_id=id_, author="boss", content="the launch is quagga", **given
        )
    page = search(agent, "launch")
    assert page["total"] == 4
    assert sorted(result["snippet"] for result in page["results"]) == [
        MASK,
        MASK,
        MASK,
        "the <mark>launch</mark> is public",
    ]
    assert [result["snippet"] for result in search(agent, "quagga")["results"]] == [MASK] * 3
    assert search(person, "quagga")["results"][0]["snippet"] == "the launch is <mark>quagga</mark>"


@proves("C2-41")
def test_with_the_setting_hide_nothing_tells_of_it(
    agent: Caller, person: Caller, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    id_ = agent.thread("t", "the launch is public")
    for given in ({"human_only": True}, {"metadata": {"audience": " HUMAN "}}):
        person.answer(
            "msg_post", thread_id=id_, author="boss", content="the launch is quagga", **given
        )
    library.add_conversation(
        "c1",
        messages=[
            *({"role": "user", "content": f"launch {n}"} for n in range(205)),
            *(
                {"role": "user", "content": "launch quagga", "visibility": "human_only"}
                for _ in range(205)
            ),
        ],
    )
    for _ in range(2):
        page = search(agent, "launch")
        assert (page["total"], len(page["results"])) == (206, 50)
        assert all("launch" in result["snippet"] for result in page["results"])
        assert len(search(agent, "launch", limit=200)["results"]) == 200
        assert (
            search(agent, "launch NOT quagga")["total"]
            == search(agent, "launch OR quagga")["total"]
            == 206
        )
        assert search(agent, "quagga") == {**NOTHING, "query": "quagga"}
        assert search(person, "launch")["total"] == 413
        library.index()  # what was sealed is found another way


# -- its neighbours --------------------------------------------------------------


@proves("C2-42")
def test_bus_connect_gives_the_id_of_a_thread(agent: Caller) -> None:
    joined = agent.answer("bus_connect", thread_name="My Thread Topic", ide="Cursor", model="GPT-4")
    assert joined["agent"]["name"] == "Cursor (GPT-4)"
    assert joined["thread"]["created"] is True
    id_ = joined["thread"]["thread_id"]
    agent.answer("msg_post", thread_id=id_, author="Cursor (GPT-4)", content="deployment strategy")
    (result,) = search(agent, "deployment strategy", thread_id=id_)["results"]
    assert (result["thread_topic"], result["author"]) == ("My Thread Topic", "Cursor (GPT-4)")
    again = agent.answer("bus_connect", thread_name="My Thread Topic")
    assert (again["thread"]["thread_id"], again["thread"]["created"], again["current_seq"]) == (
        id_,
        False,
        1,
    )
    assert again["messages"][0].keys() == {"seq", "author", "role", "content", "created_at"}


@proves("C2-43")
def test_msg_list_follows_the_same_rules_of_visibility(agent: Caller, person: Caller) -> None:
    id_ = agent.thread("t", "public")
    person.answer(
        "msg_post",
        thread_id=id_,
        author="boss",
        content="quagga",
        human_only=True,
        metadata={"x": "quagga"},
    )
    assert [
        message["content"] for message in agent.answer("msg_list", thread_id=id_)["messages"]
    ] == ["public", MASK]
    masked = agent.answer("msg_list", thread_id=id_, after_seq=1)["messages"][0]
    assert masked["metadata"] == {"content_hidden": True, "content_hidden_reason": "human_only"}
    assert (
        person.answer("msg_list", thread_id=id_, after_seq=1)["messages"][0]["content"] == "quagga"
    )


@proves("C2-44")
def test_msg_post_is_repeated_by_its_id_and_refused_where_others_wrote(agent: Caller) -> None:
    id_ = agent.thread("t", "one")
    given = {"thread_id": id_, "author": "a", "content": "two", "id": "mine"}
    first = agent.answer("msg_post", **given)
    assert (first, first["seq"]) == (agent.answer("msg_post", **given), 2)
    refused = agent.error("msg_post", thread_id=id_, author="b", content="x", expected_last_seq=1)
    assert [message["content"] for message in refused["new_messages"]] == ["two"]
    assert (
        agent.answer("msg_post", thread_id=id_, author="b", content="x", expected_last_seq=2)["seq"]
        == 3
    )


@proves("C2-45")
def test_msg_wait_gives_what_is_new_or_an_empty_list(agent: Caller) -> None:
    id_ = agent.thread("t", "one", "two")
    new = agent.answer("msg_wait", thread_id=id_, after_seq=1, timeout_seconds=60)
    assert [message["content"] for message in new["messages"]] == ["two"]
    assert agent.answer("msg_wait", thread_id=id_, after_seq=2, timeout_seconds=0)["messages"] == []
