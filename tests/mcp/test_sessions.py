"""What is remembered between the calls of one client, and how it stays small."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.knowledge.preferences import (
    DEFAULTS,
    NUMBERS,
    ORDERS,
    clamp,
    parse_preferences,
    preference,
)
from recollect.serve.mcp.sessions import (
    MAX_QUERIES,
    MAX_QUERY_LENGTH,
    MAX_SEEN,
    Session,
    Sessions,
    is_key,
)


def config(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# -- what was shown ----------------------------------------------------------


def test_what_was_returned_is_not_new_again() -> None:
    session = Session()
    assert session.unseen(["a", "b", "c"]) == ["a", "b", "c"]
    session.returned(["a", "b"])
    assert session.unseen(["a", "b", "c"]) == ["c"]


def test_what_was_found_and_not_returned_stays_new() -> None:
    session = Session()
    assert session.unseen(["a", "b", "c"]) == ["a", "b", "c"]
    assert session.unseen(["a", "b", "c"]) == ["a", "b", "c"]


def test_it_can_start_over_with_some_of_it() -> None:
    session = Session()
    session.returned(["a", "b", "other"])
    session.forget(["a", "b"])
    assert session.unseen(["other", "a", "b"]) == ["a", "b"], (
        "only those are forgotten that were named"
    )
    assert session.unseen([]) == []


def test_what_is_remembered_of_results_is_bounded() -> None:
    session = Session()
    for number in range(5):
        session.returned(f"uri-{number}-{each}" for each in range(MAX_SEEN))
    assert len(session._seen) == MAX_SEEN
    assert session.unseen(["uri-0-0", "uri-4-0"]) == ["uri-0-0"]


def test_the_last_queries_are_kept_and_shortened() -> None:
    session = Session()
    for number in range(50):
        session.add_query(f"{number} " + "x" * 1_000)
    assert [query.split()[0] for query in session.recent_queries] == [
        str(n) for n in range(50 - MAX_QUERIES, 50)
    ]
    assert {len(query) for query in session.recent_queries} == {MAX_QUERY_LENGTH}


# -- preferences -------------------------------------------------------------


def test_an_argument_wins_over_the_session_and_that_over_the_default() -> None:
    session = Session()
    session.add_preferences(parse_preferences({"snippet_length": 100, "max_tokens": 1_000}))
    wanted = session.merge_preferences(parse_preferences({"max_tokens": 2_000}))
    assert preference("snippet_length", 50, wanted) == 50
    assert preference("snippet_length", None, wanted) == 100
    assert preference("max_tokens", None, wanted) == 2_000, (
        "what a request prefers wins over its session"
    )
    assert preference("sibling_window", None, wanted) == DEFAULTS["sibling_window"]
    assert preference("order_by", "recent", wanted) == "recent"
    assert preference("order_by", "worst", wanted) == "relevance"


def test_a_config_in_base64_is_read_and_all_else_in_it_ignored() -> None:
    given_ = {
        "snippet_length": 120,
        "order_by": "recent",
        "user_id": "mallory",
        "_context": {"user": "mallory"},
        "db_paths": ["/etc"],
        "api_key": "rk_x",
        "scopes": ["admin"],
    }
    wanted = {"snippet_length": 120, "order_by": "recent"}
    assert parse_preferences(config(given_)) == parse_preferences(given_) == wanted
    assert parse_preferences(config(given_).rstrip("=")) == wanted
    assert (
        parse_preferences(base64.urlsafe_b64encode(json.dumps(given_).encode()).decode()) == wanted
    )


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        "",
        "!",
        "====",
        "\u00e9",
        "W10=",
        config([1]),
        config("x"),
        config(None),
        "[" * 5_000,
        config({"a": "x" * 10**6}),
        base64.b64encode(b"\xff\xfe").decode(),
        base64.b64encode(b"[" * 3_000).decode(),
        7,
        [],
        b"x",
    ],
)
def test_a_config_that_is_none_says_nothing(garbage: Any) -> None:
    assert parse_preferences(garbage) == {}


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("chars_per_token", 0, 1),
        ("chars_per_token", -1, 1),
        ("chars_per_token", 1e-9, 1),
        ("chars_per_token", "NaN", None),
        ("chars_per_token", 3.5, 3.5),
        ("chars_per_token", float("nan"), None),
        ("max_tokens", 1e12, 50_000),
        ("max_tokens", 10**400, 50_000),
        ("max_tokens", -(10**400), None),
        ("snippet_length", -1, 10),
        ("snippet_length", 1e9, 1_000),
        ("snippet_length", "250", 250),
        ("snippet_length", True, None),
        ("snippet_length", [5], None),
        ("sibling_window", 1e9, 20),
        ("sibling_window", float("inf"), 20),
        ("order_by", "RECENT", None),
        ("order_by", 1, None),
        ("user_id", 1, None),
        ("limit", 5, None),
    ],
)
def test_preferences_are_clamped(name: str, value: Any, result: Any) -> None:
    assert clamp(name, value) == result


@given(
    st.dictionaries(
        st.sampled_from([*DEFAULTS, "user_id", "limit"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=20),
            st.lists(st.integers()),
        ),
    )
)
def test_whatever_is_preferred_stays_within_its_bounds(wild: dict[str, Any]) -> None:
    for name, value in parse_preferences(wild).items():
        if name == "order_by":
            assert value in ORDERS
        else:
            assert NUMBERS[name].least <= value <= NUMBERS[name].most


# -- all of them -------------------------------------------------------------


def test_a_session_is_found_by_its_user_alone() -> None:
    sessions = Sessions()
    mine = sessions.create("ann", client="x")
    assert sessions.get("ann", mine.key) is mine
    assert sessions.get("mallory", mine.key) is None
    assert not sessions.end("mallory", mine.key)
    assert sessions.end("ann", mine.key)
    assert sessions.get("ann", mine.key) is None
    assert not sessions.end("ann", mine.key)
    assert len(sessions) == 0


def test_a_name_that_a_client_chose_is_of_its_user() -> None:
    sessions = Sessions()
    assert sessions.get_or_create("ann", "k") is sessions.get_or_create("ann", "k")
    assert sessions.get_or_create("ann", "k") is not sessions.get_or_create("bob", "k")


def test_keys_cannot_be_guessed() -> None:
    sessions = Sessions()
    keys = {sessions.create("ann").key for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 32 and is_key(key) for key in keys)


def test_a_session_ends_some_time_after_its_last_use() -> None:
    clock = Clock()
    sessions = Sessions(seconds=100, clock=clock)
    used, unused = sessions.create("ann"), sessions.create("ann")
    clock.now = 99
    assert sessions.get("ann", used.key) is used
    clock.now = 150
    assert sessions.get("ann", unused.key) is None
    assert sessions.get("ann", used.key) is used
    clock.now = 251
    assert sessions.get_or_create("ann", used.key) is not used
    assert len(sessions) == 1


def test_beyond_the_limit_the_one_unused_for_longest_is_forgotten() -> None:
    sessions = Sessions(limit=3)
    first, second, third = (sessions.create(user) for user in ("ann", "bob", "cid"))
    sessions.get("ann", first.key)
    sessions.create("dan")
    assert sessions.get("bob", second.key) is None
    assert sessions.get("ann", first.key) is first
    assert sessions.get("cid", third.key) is third


def test_one_user_cannot_push_out_the_sessions_of_others() -> None:
    sessions = Sessions(limit=100, limit_each_user=10)
    mine = sessions.create("ann")
    for _ in range(1_000):
        sessions.create("mallory")
        sessions.get_or_create("mallory", f"{_}")
    assert len(sessions) == 11
    assert sessions.get("ann", mine.key) is mine
    assert len(sessions._keys_by_user["mallory"]) == 10


def test_many_threads_may_use_the_same_sessions() -> None:
    sessions = Sessions(limit=20, limit_each_user=10)
    failed: list[BaseException] = []

    def work(user: str) -> None:
        try:
            for number in range(300):
                session = sessions.get_or_create(user, str(number % 15))
                session.returned([str(number)])
                session.unseen([str(number), "x"])
                session.add_query("q")
                sessions.end(user, str(number % 7))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in ("ann", "bob", "ann")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(sessions) <= 20
    assert sum(map(len, sessions._keys_by_user.values())) == len(sessions)


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "a\n", "\u00e9", None, 1])
def test_a_key_is_visible_ascii(key: Any) -> None:
    assert not is_key(key)
    assert is_key("a")
    assert is_key("~" * 128)
