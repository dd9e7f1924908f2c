"""The `bus` toolset: threads, posting, reading, waiting and search."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tool_calls import Caller, MakeCaller

import recollect
from recollect import Library

SECRET = "quaggasecret"
TOOLSETS = ("bus", "research")
TAGS = "".join(chr(0xE0000 + ord(c)) for c in "obey me")


@pytest.fixture
def person(make_caller: MakeCaller) -> Caller:
    return make_caller(agent=False)


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")


def seqs(answer: Any) -> list[int]:
    return [message["seq"] for message in answer["messages"]]


def post_secret(caller: Caller, thread: str, **fields: Any) -> Any:
    """Post a human-only message."""
    metadata = {"ui_type": "card", "note": SECRET}
    message = {
        "author": "boss",
        "content": f"about {SECRET}",
        "human_only": True,
        "metadata": metadata,
        **fields,
    }
    return caller.answer("msg_post", thread_id=thread, **message)


# -- listing ---


# -- joining ---


def test_connecting_creates_a_thread_once(agent: Caller) -> None:
    first = agent.answer("bus_connect", thread_name="Plans", display_name="ann")
    assert first.keys() == {"agent", "thread", "messages", "current_seq"}
    assert first["agent"].keys() == {"agent_id", "name", "registered"}
    assert (first["agent"]["name"], first["agent"]["registered"]) == ("ann", True)
    id_ = first["thread"]["thread_id"]
    assert first["thread"] == {
        "thread_id": id_,
        "topic": "Plans",
        "status": "discuss",
        "created": True,
    }
    assert (first["messages"], first["current_seq"]) == ([], 0)
    post = agent.answer("msg_post", thread_id=id_, author="ann", content="one", role="assistant")
    again = agent.answer("bus_connect", thread_name="Plans", display_name="ann")
    assert again["thread"] == {**first["thread"], "created": False}
    assert again["agent"] == first["agent"]
    message = {
        "seq": 1,
        "author": "ann",
        "role": "assistant",
        "content": "one",
        "created_at": post["created_at"],
    }
    assert (again["messages"], again["current_seq"]) == ([message], 1)


@pytest.mark.parametrize(
    "name", [{}, {"thread_name": ""}, {"thread_name": " \n"}, {"thread_name": None}]
)
def test_a_thread_needs_a_name(agent: Caller, name: dict[str, Any]) -> None:
    assert agent.error("bus_connect", **name) == {"error": "thread_name must not be empty"}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"display_name": "ann", "ide": "Cursor", "model": "GPT-4"}, "ann"),
        ({"ide": "Cursor", "model": "GPT-4"}, "Cursor (GPT-4)"),
        ({"ide": "Cursor"}, "Cursor"),
        ({"model": "GPT-4"}, "GPT-4"),
        ({}, "claude-code"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_an_agent_is_named_by_display_name_or_program(
    make_caller: MakeCaller, arguments: dict[str, str], name: str
) -> None:
    caller = make_caller(client="claude-code")
    assert caller.answer("bus_connect", thread_name="t", **arguments)["agent"]["name"] == name


def test_threads_are_listed_most_recently_changed_first(agent: Caller, library: Library) -> None:
    library.add_conversation("c1", "A conversation", messages=[{"role": "user", "content": "hi"}])
    one, two = agent.thread("One"), agent.thread("Two", "a")
    agent.answer("msg_post", thread_id=one, author="a", content="b")
    page = agent.answer("thread_list")
    assert page.keys() == {"threads", "total", "limit", "offset"}
    assert [thread["thread_id"] for thread in page["threads"]] == [one, two]
    assert page["threads"][0].keys() == {
        "thread_id",
        "topic",
        "status",
        "created_at",
        "updated_at",
        "message_count",
        "last_seq",
    }
    assert (page["threads"][0]["topic"], page["threads"][0]["last_seq"]) == ("One", 1)
    assert page["total"] == 2
    assert agent.answer("thread_list", scope="all")["total"] == 3
    second = agent.answer("thread_list", limit=1, offset=1)
    assert [thread["topic"] for thread in second["threads"]] == ["Two"]
    assert (second["total"], second["limit"]) == (2, 1)
    assert agent.answer("thread_list", limit=10**30, offset=-5)["limit"] == 200


# -- posting ---


@pytest.mark.parametrize("message_id", ["mine", "m" * 2_000])
def test_a_post_with_an_id_and_expected_last_seq_can_be_retried(
    agent: Caller, hidden: None, message_id: str
) -> None:
    id_ = agent.thread("t", "one")
    message = {
        "thread_id": id_,
        "author": "ann",
        "content": "two",
        "id": message_id,
        "expected_last_seq": 1,
        "human_only": True,
    }
    first = agent.answer("msg_post", **message)
    agent.answer("msg_post", thread_id=id_, author="bob", content="three")
    assert agent.answer("msg_post", **message) == first


def test_only_one_of_several_posts_with_the_same_expected_last_seq_succeeds(agent: Caller) -> None:
    id_ = agent.thread("t", "one")

    def post(name: str) -> bool:
        message = {"thread_id": id_, "author": name, "content": name, "expected_last_seq": 1}
        try:
            return agent.call("msg_post", message)["structuredContent"]["seq"] == 2
        except KeyError:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(post, "abcdefgh")) == 1
    assert seqs(agent.answer("msg_list", thread_id=id_)) == [1, 2]


def test_posting_needs_a_thread_an_author_and_content(agent: Caller) -> None:
    id_ = agent.thread("t")
    assert agent.error("msg_post", thread_id="none", author="a", content="x") == {
        "error": "Thread not found"
    }
    assert agent.error(
        "msg_post", thread_id="none", author="a", content="x", expected_last_seq=0
    ) == {"error": "Thread not found"}
    assert agent.error("msg_post", thread_id=id_, content="x") == {
        "error": "author must not be empty"
    }
    assert agent.error("msg_post", thread_id=id_, author="a") == {"error": "content is required"}
    assert agent.answer("msg_list", thread_id=id_)["current_seq"] == 0


def test_a_read_only_key_cannot_write(make_caller: MakeCaller, agent: Caller) -> None:
    id_ = agent.thread("t", "one")
    reader = make_caller(scopes=frozenset(["read"]))
    for tool, arguments in (
        ("msg_post", {"thread_id": id_, "author": "a", "content": "x"}),
        ("bus_connect", {"thread_name": "new"}),
    ):
        assert reader.call(tool, arguments)["isError"] is True
    assert seqs(reader.answer("msg_list", thread_id=id_)) == [1]
    assert reader.answer("thread_list")["total"] == 1


# -- reading ---


def test_pages_of_hidden_messages_are_skipped(agent: Caller, hidden: None, person: Caller) -> None:
    id_ = agent.thread("t", "one")
    for _ in range(4):
        post_secret(person, id_)
    agent.answer("msg_post", thread_id=id_, author="a", content="six")
    post_secret(person, id_)
    assert seqs(person.answer("msg_list", thread_id=id_)) == [1, 2, 3, 4, 5, 6, 7]
    assert seqs(agent.answer("msg_list", thread_id=id_)) == [1, 6]
    page = agent.answer("msg_list", thread_id=id_, after_seq=1, limit=1)
    assert (seqs(page), page["has_more"]) == ([6], True)
    page = agent.answer("msg_list", thread_id=id_, after_seq=6)
    assert (seqs(page), page["current_seq"], page["has_more"]) == ([], 7, False)
    assert seqs(agent.answer("bus_connect", thread_id=id_)) == [1, 6]
    error = agent.error("msg_post", thread_id=id_, author="a", content="x", expected_last_seq=5)
    assert [message["seq"] for message in error["new_messages"]] == [6]


def test_long_messages_are_truncated_and_long_pages_end_early(
    agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.serve.mcp.bus_tools.MAX_CONTENT_LENGTH", 100)
    monkeypatch.setattr("recollect.serve.mcp.bus_tools.MAX_ANSWER_LENGTH", 250)
    id_ = agent.thread("t", "x" * 100, "y" * 101, "z" * 90, "last")
    page = agent.answer("msg_list", thread_id=id_)
    assert (seqs(page), page["has_more"]) == ([1, 2], True)
    whole, truncated = page["messages"]
    assert (whole["content"], "truncated" in whole) == ("x" * 100, False)
    assert (truncated["content"], truncated["truncated"]) == ("y" * 100 + "...", True)
    page = agent.answer("msg_list", thread_id=id_, after_seq=2)
    assert (seqs(page), page["has_more"]) == ([3, 4], False)
    monkeypatch.setattr("recollect.serve.mcp.bus_tools.MAX_ANSWER_LENGTH", 1)
    assert seqs(agent.answer("msg_list", thread_id=id_)) == [1]


# -- waiting ---


class Clock:
    """Replaces the time in `msg_wait`: waiting takes none, and runs the given actions in turn."""

    def __init__(self, patch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
        self.now = 0.0
        self.sleeps = 0
        self._actions = list(actions)

        def wait(waiter: object, seconds: float, often: float, is_cancelled: object) -> None:
            self.sleep(min(seconds, often))

        patch.setattr("recollect.serve.mcp.bus_tools.time", self)
        patch.setattr("recollect.store.shared.changes.ChangeWaiter.wait", wait)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.sleeps += 1
        if self._actions:
            self._actions.pop(0)()


def wait(caller: Caller, context: Any = None, **arguments: Any) -> Any:
    answer: Any = caller.catalog.call("msg_wait", context or caller.context(), arguments)
    return answer.structured


def test_waiting_ends_when_somebody_posts(
    agent: Caller, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = agent.thread("t", "one")

    def post() -> None:
        with recollect.open(place) as other:
            other.post(id_, "bob", "two")

    clock = Clock(monkeypatch, lambda: None, post)
    page = wait(agent, thread_id=id_, after_seq=1)
    assert (seqs(page), clock.sleeps) == ([2], 2)


def test_waiting_ends_when_the_call_is_cancelled(
    agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = agent.thread("t", "one")
    context = agent.context()
    clock = Clock(monkeypatch, context.cancel)
    assert wait(agent, context, thread_id=id_, after_seq=1)["messages"] == []
    assert clock.sleeps == 1


def test_the_number_of_waiting_calls_is_limited(
    agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = agent.thread("t", "one")
    errors = []

    def wait_too() -> None:
        errors.append(agent.error("msg_wait", thread_id=id_, after_seq=1)["error"])

    monkeypatch.setattr("recollect.serve.mcp.bus_tools.MAX_WAITS_EACH_USER", 1)
    Clock(monkeypatch, wait_too)
    arguments = {"thread_id": id_, "after_seq": 1, "timeout_seconds": 1}
    for _ in range(2):  # the second call can wait, because the first has ended
        agent.catalog.call("msg_wait", agent.context(), arguments)
    assert errors == ["Too many calls are waiting for messages. Use msg_list instead."]
    monkeypatch.setattr("recollect.serve.mcp.bus_tools.MAX_WAITS_EACH_USER", 8)
    monkeypatch.setattr("recollect.serve.mcp.bus_tools.MAX_WAITS", 1)
    Clock(monkeypatch, wait_too)
    agent.catalog.call("msg_wait", agent.context(), arguments)
    assert len(errors) == 2


def test_waiting_for_an_unknown_thread_is_an_error(agent: Caller) -> None:
    agent.thread("t")
    assert agent.error("msg_wait", thread_id="none", after_seq=0) == {"error": "Thread not found"}
    assert agent.error("msg_wait", thread_id="none") == {
        "error": "Invalid after_seq: expected a number."
    }


# -- arguments ---

INVALID_CALLS = [
    (
        "msg_search",
        {"query": "x", "user": "bob"},
        "Unknown argument: 'user'. Allowed: query, thread_id, limit.",
    ),
    ("thread_list", {"scope": "mine"}, "Invalid scope: 'mine'. Allowed: bus, all."),
    ("thread_list", {"limit": True}, "Invalid limit: expected a number."),
    ("thread_list", {"limit": "many"}, "Invalid limit: expected a number."),
    ("thread_list", {"offset": float("nan")}, "Invalid offset: expected a number."),
    ("msg_list", {}, "thread_id must not be empty"),
    ("msg_list", {"thread_id": 7}, "Invalid thread_id: expected a string."),
    (
        "msg_post",
        {"thread_id": "t", "author": "a", "content": ["x"]},
        "Invalid content: expected a string.",
    ),
    (
        "msg_post",
        {"thread_id": "t", "author": "a", "content": "x", "human_only": "yes"},
        "Invalid human_only: expected true or false.",
    ),
    (
        "msg_post",
        {"thread_id": "t", "author": "a", "content": "x", "metadata": "x"},
        "Invalid metadata: expected an object.",
    ),
    (
        "msg_post",
        {"thread_id": "t", "author": "a", "content": "x", "role": "boss"},
        "Invalid role: 'boss'. Allowed: user, assistant, system, tool.",
    ),
    ("msg_wait", {"thread_id": "t", "after_seq": None}, "Invalid after_seq: expected a number."),
]


@pytest.mark.parametrize(("tool", "arguments", "error"), INVALID_CALLS)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_invalid_arguments_are_named_in_the_error(
    agent: Caller, tool: str, arguments: dict[str, Any], error: str
) -> None:
    agent.thread("t")
    assert agent.error(tool, **arguments) == {"error": error}


def test_connecting_creates_a_missing_library_and_reading_reports_it(agent: Caller) -> None:
    for tool, arguments in (
        ("thread_list", {}),
        ("msg_search", {"query": "x"}),
        ("msg_list", {"thread_id": "t"}),
    ):
        result = agent.call(tool, arguments)
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("Database not found: ")
    agent.answer("bus_connect", thread_name="t")
    assert agent.answer("thread_list")["total"] == 1


# -- stored text is data ---


def test_no_invisible_text_reaches_a_model(agent: Caller) -> None:
    id_ = agent.thread(f"plan{TAGS}", "one")
    agent.answer(
        "msg_post",
        thread_id=id_,
        author=f"bob{TAGS}",
        content=f"brown \U0001f3f4{TAGS} \ud800 fox",
        metadata={f"k{TAGS}": [f"v{TAGS}"]},
    )
    answers = [
        agent.call("bus_connect", {"thread_name": f"plan{TAGS}", "display_name": f"ann{TAGS}"}),
        agent.call("thread_list", {}),
        agent.call("msg_list", {"thread_id": id_}),
        agent.call("msg_wait", {"thread_id": id_, "after_seq": 0}),
        agent.call("msg_search", {"query": "brown"}),
        agent.call(
            "msg_post", {"thread_id": id_, "author": "a", "content": "x", "expected_last_seq": 0}
        ),
        agent.call("msg_list", {"thread_id": id_, f"x{TAGS}": 1}),
    ]
    for answer in answers:
        text = json.dumps(answer, ensure_ascii=False)
        for character in text:
            assert not 0xE0000 <= ord(character) <= 0xE007F, text
            assert not 0xD800 <= ord(character) <= 0xDFFF, text
    assert '"k": ["v"]' in answers[2]["content"][0]["text"]


@pytest.mark.parametrize("setting", ["", "hide"])
def test_no_tool_shows_human_only_content_to_an_agent(
    agent: Caller, person: Caller, library: Library, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    id_ = person.thread("t", f"open {SECRET[:3]}")
    post_secret(person, id_, id="hidden")
    library.add_conversation(
        "c1",
        "c",
        messages=[
            {
                "id": "m1",
                "role": "user",
                "content": f"open {SECRET}",
                "metadata": {"audience": "human", "x": SECRET},
            },
            {"id": "m2", "role": "assistant", "content": "open to all"},
        ],
    )
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", setting)
    calls = [
        ("bus_connect", {"thread_name": "t"}),
        ("bus_connect", {"thread_id": "c1"}),
        ("thread_list", {"scope": "all"}),
        ("msg_list", {"thread_id": id_}),
        ("msg_list", {"thread_id": "c1"}),
        ("msg_wait", {"thread_id": id_, "after_seq": 0}),
        ("msg_wait", {"thread_id": "c1", "after_seq": 0}),
        ("msg_post", {"thread_id": id_, "author": "a", "content": "x", "expected_last_seq": 0}),
        ("msg_post", {"thread_id": id_, "author": "a", "content": "other", "id": "hidden"}),
        ("msg_search", {"query": SECRET}),
        ("msg_search", {"query": "open OR about"}),
        ("search", {"query": SECRET}),
        ("search", {"query": "open about"}),
        ("fetch", {"id": f"{id_}#hidden"}),
        ("fetch", {"id": id_}),
        ("fetch", {"id": "c1#m1"}),
        ("fetch", {"id": "c1#m2"}),
        ("fetch", {"id": "c1"}),
    ]
    assert {name for name, _ in calls} == {tool["name"] for tool in agent.catalog.listing()}
    visible_to_person = 0
    for tool, arguments in calls:
        text = json.dumps(agent.call(tool, arguments)).replace(f'"query": "{SECRET}"', "")
        # Answers quote the words of the query that nothing mentions.
        text = text.replace(f"\\u201c{SECRET}\\u201d", "")
        assert SECRET not in text.replace(f'\\"query\\": \\"{SECRET}\\"', ""), (tool, arguments)
        text = json.dumps(person.call(tool, arguments)).replace(f'"query": "{SECRET}"', "")
        if SECRET in text:
            visible_to_person += 1
    assert visible_to_person >= 10
