"""The MCP tools of the Bus (docs/contracts/bus.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from clauses import proves
from selection import few
from slow_database import MESSAGES, slow_searches
from states import settle
from tool_calls import Caller

from recollect import Library

MASK = "[human-only content hidden]"

FIELDS = {"message_id", "thread_id", "thread_topic", "author", "seq", "created_at", "snippet"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")
NO_RESULTS = {"results": [], "total": 0}


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
    with caller.context().library() as library:
        settle(library)
    return caller.answer("msg_search", query=query, **arguments)


def contents(caller: Caller, query: str, **arguments: Any) -> list[str]:
    """The snippets of the results without marks, in alphabetical order."""
    return sorted(
        re.sub("</?mark>", "", result["snippet"])
        for result in search(caller, query, **arguments)["results"]
    )


# -- msg_search ---------------------------------------------------------------


@proves("C2-31")
def test_the_tool_takes_a_query_a_thread_and_a_limit(agent: Caller) -> None:
    tool = next(tool for tool in agent.catalog.listing() if tool["name"] == "msg_search")
    schema = tool["inputSchema"]
    assert {name: rule["type"] for name, rule in schema["properties"].items()} == {
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
@pytest.mark.every_state
@pytest.mark.every_store
def test_the_answer_has_exactly_the_documented_fields(agent: Caller) -> None:
    thread_id = agent.thread("My Thread Topic", "nothing here")
    receipt = agent.answer(
        "msg_post",
        thread_id=thread_id,
        author="cursor-agent-abc123",
        content="the quick brown fox jumps",
        metadata={"ui_type": "card"},
    )
    page = search(agent, "  brown ")
    assert page.keys() == {"results", "total", "query"}
    assert (page["total"], page["query"]) == (1, "brown")
    (result,) = page["results"]
    assert result.keys() == FIELDS
    assert result == {
        "message_id": receipt["msg_id"],
        "thread_id": thread_id,
        "thread_topic": "My Thread Topic",
        "author": "cursor-agent-abc123",
        "seq": 2,
        "created_at": receipt["created_at"],
        "snippet": "the quick <mark>brown</mark> fox jumps",
    }
    assert TIME.fullmatch(result["created_at"])


@proves("C2-33")
@pytest.mark.every_state
def test_the_limit_is_clamped_and_the_total_is_exact(agent: Caller, library: Library) -> None:
    library.add_conversation(
        "c1", messages=[{"role": "user", "content": f"performance {n}"} for n in range(205)]
    )
    for limit, count in (
        (None, 50),
        (5, 5),
        (0, 1),
        (-1, 1),
        (200, 200),
        (201, 200),
        (10**30, 200),
        ("7", 7),
    ):
        page = search(agent, "performance", limit=limit)
        assert (len(page["results"]), page["total"]) == (count, 205), limit
    for invalid in ("x", True, [5], {}):
        assert agent.error("msg_search", query="performance", limit=invalid) == {
            "error": "Invalid limit: expected a number."
        }


@proves("C2-34")
@pytest.mark.parametrize(
    "parameters", [{}, {"query": ""}, {"query": " \t\n"}, {"query": None}, {"limit": 5}]
)
def test_an_empty_query_is_an_error_before_anything_is_searched(
    agent: Caller, library: Library, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    monkeypatch.setattr(Library, "match_expression", None)
    assert agent.error("msg_search", **parameters) == {"error": "query must not be empty"}


@proves("C2-35")
@pytest.mark.every_state
@pytest.mark.parametrize("query", few(["*", '"open', "a AND", "(a", "a )", "NEAR(a", "author:bob"]))
def test_a_malformed_expression_matches_nothing(
    agent: Caller, library: Library, query: str
) -> None:
    library.add_conversation(
        "c1", messages=[{"role": "user", "content": "a state of the art, open, bob"}]
    )
    assert search(agent, query) == {**NO_RESULTS, "query": query}


@proves("C2-36")
def test_a_timeout_is_an_error_and_the_next_search_works(
    agent: Caller, library: Library, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [{"role": "user", "content": "a common word"} for _ in range(MESSAGES)]
    library.add_conversation("c1", messages=messages)
    with slow_searches(place, monkeypatch):
        error = agent.error("msg_search", query="common")
    assert error == {"error": "Database operation timeout"}
    assert search(agent, "common")["total"] == MESSAGES


@proves("C2-37")
@pytest.mark.every_state
def test_a_search_covers_all_threads_or_only_one(agent: Caller, library: Library) -> None:
    first = agent.thread("One", "consensus one")
    agent.thread("Two", "consensus two")
    library.add_conversation("c1", messages=[{"role": "user", "content": "consensus three"}])
    everything = ["consensus one", "consensus three", "consensus two"]
    assert contents(agent, "consensus") == contents(agent, "consensus", thread_id="") == everything
    assert contents(agent, "consensus", thread_id=first) == ["consensus one"]
    assert search(agent, "consensus", thread_id="nobody") == {**NO_RESULTS, "query": "consensus"}


@proves("C2-38")
@pytest.mark.every_state
def test_the_documented_syntax_works(agent: Caller, library: Library) -> None:
    agent.thread(
        "t", "angular signals", "signals of an Angular app", "performance tests", "performing well"
    )
    for query, matches in (
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
        assert contents(agent, query) == matches, query


@proves("C2-39")
@pytest.mark.every_state
def test_snippets_are_short_marked_and_escaped(agent: Caller) -> None:
    words = " ".join(f"w{n}" for n in range(40))
    agent.thread("t", f"{words} <img src=x onerror=alert(1)> brown & <mark>fake</mark> {words}")
    (result,) = search(agent, "brown")["results"]
    assert result["snippet"].startswith("…")
    assert result["snippet"].endswith("…")
    assert result["snippet"].count("<") == 2
    assert "<mark>brown</mark> &amp; &lt;mark&gt;fake" in result["snippet"]


@proves("C2-40")
@pytest.mark.every_state
def test_a_human_only_message_is_counted_and_masked(agent: Caller, person: Caller) -> None:
    thread_id = agent.thread("t", "the launch is public")
    for mark in (
        {"human_only": True},
        {"metadata": {"visibility": "human_only"}},
        {"metadata": {"audience": "human"}},
        {"metadata": {"human_only": True}},
        {"metadata": {"audience": ["human"]}},
    ):
        person.answer(
            "msg_post", thread_id=thread_id, author="boss", content="the launch is quagga", **mark
        )
    page = search(agent, "launch")
    assert page["total"] == 6
    assert sorted(result["snippet"] for result in page["results"]) == [
        *[MASK] * 5,
        "the <mark>launch</mark> is public",
    ]
    assert [result["snippet"] for result in search(agent, "quagga")["results"]] == [MASK] * 5
    assert search(person, "quagga")["results"][0]["snippet"] == "the launch is <mark>quagga</mark>"


@proves("C2-41")
@pytest.mark.every_state
def test_with_the_setting_hide_a_human_only_message_cannot_be_guessed(
    agent: Caller, person: Caller, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    thread_id = agent.thread("t", "the launch is public")
    for mark in (
        {"human_only": True},
        {"metadata": {"audience": " HUMAN "}},
        {"metadata": {"human_only": True}},
    ):
        person.answer(
            "msg_post", thread_id=thread_id, author="boss", content="the launch is quagga", **mark
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
    page = search(agent, "launch")
    assert (page["total"], len(page["results"])) == (206, 50)
    assert all("launch" in result["snippet"] for result in page["results"])
    assert len(search(agent, "launch", limit=200)["results"]) == 200
    for query in ("launch NOT quagga", "launch OR quagga"):
        assert search(agent, query)["total"] == 206, query
    assert search(agent, "quagga") == {**NO_RESULTS, "query": "quagga"}
    assert search(person, "launch")["total"] == 414


# -- other tools --------------------------------------------------------------


@proves("C2-42")
def test_bus_connect_returns_the_thread_of_a_topic(agent: Caller) -> None:
    connection = agent.answer(
        "bus_connect", thread_name="My Thread Topic", ide="Cursor", model="GPT-4"
    )
    assert connection["agent"]["name"] == "Cursor (GPT-4)"
    assert connection["thread"]["created"] is True
    thread_id = connection["thread"]["thread_id"]
    agent.answer(
        "msg_post", thread_id=thread_id, author="Cursor (GPT-4)", content="deployment strategy"
    )
    (result,) = search(agent, "deployment strategy", thread_id=thread_id)["results"]
    assert (result["thread_topic"], result["author"]) == ("My Thread Topic", "Cursor (GPT-4)")
    again = agent.answer("bus_connect", thread_name="My Thread Topic")
    assert again["thread"]["thread_id"] == thread_id
    assert (again["thread"]["created"], again["current_seq"]) == (False, 1)
    assert again["messages"][0].keys() == {"seq", "author", "role", "content", "created_at"}


@proves("C2-43")
def test_msg_list_follows_the_same_visibility_rules(agent: Caller, person: Caller) -> None:
    thread_id = agent.thread("t", "public")
    person.answer(
        "msg_post",
        thread_id=thread_id,
        author="boss",
        content="quagga",
        human_only=True,
        metadata={"x": "quagga"},
    )
    messages = agent.answer("msg_list", thread_id=thread_id)["messages"]
    assert [message["content"] for message in messages] == ["public", MASK]
    hidden = agent.answer("msg_list", thread_id=thread_id, after_seq=1)["messages"][0]
    assert hidden["metadata"] == {"content_hidden": True, "content_hidden_reason": "human_only"}
    (visible,) = person.answer("msg_list", thread_id=thread_id, after_seq=1)["messages"]
    assert visible["content"] == "quagga"


@proves("C2-44")
def test_msg_post_stores_an_id_once_and_fails_if_others_wrote(agent: Caller) -> None:
    thread_id = agent.thread("t", "one")
    message = {"thread_id": thread_id, "author": "a", "content": "two", "id": "mine"}
    first = agent.answer("msg_post", **message)
    assert (first, first["seq"]) == (agent.answer("msg_post", **message), 2)
    other = {"thread_id": thread_id, "author": "b", "content": "x"}
    error = agent.error("msg_post", **other, expected_last_seq=1)
    assert [message["content"] for message in error["new_messages"]] == ["two"]
    assert agent.answer("msg_post", **other, expected_last_seq=2)["seq"] == 3


@proves("C2-45")
def test_msg_wait_returns_new_messages_or_an_empty_list(agent: Caller) -> None:
    thread_id = agent.thread("t", "one", "two")
    new = agent.answer("msg_wait", thread_id=thread_id, after_seq=1, timeout_seconds=60)
    assert [message["content"] for message in new["messages"]] == ["two"]
    none = agent.answer("msg_wait", thread_id=thread_id, after_seq=2, timeout_seconds=0)
    assert none["messages"] == []
