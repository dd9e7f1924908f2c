"""MCP sessions: seen results, recent queries, preferences, and their bounds."""

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


def encode_config(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# -- seen results ---


def test_returned_results_are_seen() -> None:
    session = Session()
    assert session.unseen(["a", "b", "c"]) == ["a", "b", "c"]
    session.returned(["a", "b"])
    assert session.unseen(["a", "b", "c"]) == ["c"]


def test_results_that_were_not_returned_stay_unseen() -> None:
    session = Session()
    assert session.unseen(["a", "b", "c"]) == ["a", "b", "c"]
    assert session.unseen(["a", "b", "c"]) == ["a", "b", "c"]


def test_some_results_can_be_forgotten() -> None:
    session = Session()
    session.returned(["a", "b", "other"])
    session.forget(["a", "b"])
    assert session.unseen(["other", "a", "b"]) == ["a", "b"], "other results stay seen"
    assert session.unseen([]) == []


def test_the_number_of_seen_results_is_bounded() -> None:
    session = Session()
    for number in range(5):
        session.returned(f"uri-{number}-{index}" for index in range(MAX_SEEN))
    assert len(session._seen) == MAX_SEEN
    assert session.unseen(["uri-0-0", "uri-4-0"]) == ["uri-0-0"]


def test_the_latest_queries_are_remembered_and_shortened() -> None:
    session = Session()
    for number in range(50):
        session.add_query(f"{number} " + "x" * 1_000)
    numbers = [int(query.split()[0]) for query in session.recent_queries]
    assert numbers == list(range(50 - MAX_QUERIES, 50))
    assert {len(query) for query in session.recent_queries} == {MAX_QUERY_LENGTH}


# -- preferences ---


def test_arguments_override_the_session_which_overrides_the_defaults() -> None:
    session = Session()
    session.add_preferences(parse_preferences({"snippet_length": 100, "max_tokens": 1_000}))
    config = session.merge_preferences(parse_preferences({"max_tokens": 2_000}))
    assert preference("snippet_length", 50, config) == 50
    assert preference("snippet_length", None, config) == 100
    assert preference("max_tokens", None, config) == 2_000, "a request overrides its session"
    assert preference("sibling_window", None, config) == DEFAULTS["sibling_window"]
    assert preference("order_by", "recent", config) == "recent"
    assert preference("order_by", "worst", config) == "relevance"


def test_a_base64_config_is_read_and_unknown_keys_are_ignored() -> None:
    settings = {
        "snippet_length": 120,
        "order_by": "recent",
        "user_id": "mallory",
        "_context": {"user": "mallory"},
        "db_paths": ["/etc"],
        "api_key": "rk_x",
        "scopes": ["admin"],
    }
    expected = {"snippet_length": 120, "order_by": "recent"}
    assert parse_preferences(encode_config(settings)) == parse_preferences(settings) == expected
    assert parse_preferences(encode_config(settings).rstrip("=")) == expected
    url_safe = base64.urlsafe_b64encode(json.dumps(settings).encode()).decode()
    assert parse_preferences(url_safe) == expected


@pytest.mark.parametrize(
    "config",
    [
        None,
        "",
        "!",
        "====",
        "\u00e9",
        "W10=",
        encode_config([1]),
        encode_config("x"),
        encode_config(None),
        "[" * 5_000,
        encode_config({"a": "x" * 10**6}),
        base64.b64encode(b"\xff\xfe").decode(),
        base64.b64encode(b"[" * 3_000).decode(),
        7,
        [],
        b"x",
    ],
)
def test_an_invalid_config_is_ignored(config: Any) -> None:
    assert parse_preferences(config) == {}


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
def test_preferences_stay_within_their_bounds(config: dict[str, Any]) -> None:
    for name, value in parse_preferences(config).items():
        if name == "order_by":
            assert value in ORDERS
        else:
            assert NUMBERS[name].least <= value <= NUMBERS[name].most


# -- all sessions ---


def test_only_its_user_finds_a_session() -> None:
    sessions = Sessions()
    mine = sessions.create("ann", client="x")
    assert sessions.get("ann", mine.key) is mine
    assert sessions.get("mallory", mine.key) is None
    assert not sessions.end("mallory", mine.key)
    assert sessions.end("ann", mine.key)
    assert sessions.get("ann", mine.key) is None
    assert not sessions.end("ann", mine.key)
    assert len(sessions) == 0


def test_a_client_chosen_key_belongs_to_its_user() -> None:
    sessions = Sessions()
    assert sessions.get_or_create("ann", "k") is sessions.get_or_create("ann", "k")
    assert sessions.get_or_create("ann", "k") is not sessions.get_or_create("bob", "k")


def test_keys_cannot_be_guessed() -> None:
    sessions = Sessions()
    keys = {sessions.create("ann").key for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 32 and is_key(key) for key in keys)


def test_idle_sessions_expire() -> None:
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


def test_beyond_the_limit_the_least_recently_used_session_is_dropped() -> None:
    sessions = Sessions(limit=3)
    first, second, third = (sessions.create(user) for user in ("ann", "bob", "cid"))
    sessions.get("ann", first.key)
    sessions.create("dan")
    assert sessions.get("bob", second.key) is None
    assert sessions.get("ann", first.key) is first
    assert sessions.get("cid", third.key) is third


def test_one_user_cannot_displace_the_sessions_of_others() -> None:
    sessions = Sessions(limit=100, limit_each_user=10)
    mine = sessions.create("ann")
    for number in range(1_000):
        sessions.create("mallory")
        sessions.get_or_create("mallory", f"{number}")
    assert len(sessions) == 11
    assert sessions.get("ann", mine.key) is mine
    assert len(sessions._keys_by_user["mallory"]) == 10


def test_sessions_are_thread_safe() -> None:
    sessions = Sessions(limit=20, limit_each_user=10)
    errors: list[BaseException] = []

    def work(user: str) -> None:
        try:
            for number in range(300):
                session = sessions.get_or_create(user, str(number % 15))
                session.returned([str(number)])
                session.unseen([str(number), "x"])
                session.add_query("q")
                sessions.end(user, str(number % 7))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in ("ann", "bob", "ann")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(sessions) <= 20
    assert sum(map(len, sessions._keys_by_user.values())) == len(sessions)


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "a\n", "\u00e9", None, 1])
def test_other_characters_and_lengths_are_no_key(key: Any) -> None:
    assert not is_key(key)


@pytest.mark.parametrize("key", ["a", "~" * 128])
def test_up_to_128_visible_ascii_characters_are_a_key(key: str) -> None:
    assert is_key(key)
