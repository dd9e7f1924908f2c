"""MCP sessions: seen results, recent queries, preferences, and their bounds."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from recollect.knowledge.retrieval import (
    parse_preferences,
)
from recollect.places import shared_database
from recollect.serve.mcp.client_sessions import (
    Session,
    Sessions,
)
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.sessions import (
    TABLES,
    SessionLimits,
    SessionState,
)


def encode_config(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


# -- seen results ---


# -- preferences ---


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


# -- all sessions ---


@pytest.fixture
def database(place: str) -> Iterator[SharedDatabase]:
    with closing(shared_database(place)) as database:
        database.execute(TABLES, "delete from session")  # those of other tests
        yield database


def start(sessions: Sessions, user: str, state: SessionState | None = None) -> Session:
    session = sessions.create(user, state=state)
    assert session is not None
    return session


def test_a_session_of_one_server_continues_on_another(database: SharedDatabase, place: str) -> None:
    here = Sessions(database)
    preferences = {"snippet_length": 100}
    state = SessionState("client", "2025-11-25", "research", preferences)
    session = start(here, "ann", state)
    session.returned(["a", "b"])
    session.add_query("castle")
    here.save("ann", session)
    with closing(shared_database(place)) as other_database:
        there = Sessions(other_database)
        copy = there.get("ann", session.key)
        assert copy is not None
        assert copy.state.profile == "research"
        assert copy.merge_preferences({}) == {"snippet_length": 100}
        assert copy.unseen(["a", "b", "c"]) == ["c"]
        assert copy.recent_queries == ["castle"]
        there.end("ann", session.key)
    assert here.get("ann", session.key) is None


def test_calls_of_a_session_at_the_same_time_lose_no_change(database: SharedDatabase) -> None:
    sessions = Sessions(database)
    key = start(sessions, "ann").key
    one, other = sessions.get("ann", key), sessions.get("ann", key)
    assert one is not None
    assert other is not None
    one.returned(["a", "b"])
    other.returned(["c"])
    other.add_query("castle")
    sessions.save("ann", one)
    sessions.save("ann", other)
    merged = sessions.get("ann", key)
    assert merged is not None
    assert merged.unseen(["a", "b", "c", "d"]) == ["d"]
    assert merged.recent_queries == ["castle"]
    merged.forget(["a"])
    sessions.save("ann", merged)
    sessions.end("ann", key)
    one.returned(["x"])
    sessions.save("ann", one)
    assert sessions.get("ann", key) is None, "a call does not bring an ended session back"


def test_only_its_user_finds_a_session(database: SharedDatabase) -> None:
    sessions = Sessions(database)
    mine = start(sessions, "ann")
    assert sessions.get("ann", mine.key) is not None
    assert sessions.get("mallory", mine.key) is None
    sessions.end("mallory", mine.key)
    assert sessions.get("ann", mine.key) is not None
    sessions.end("ann", mine.key)
    assert sessions.get("ann", mine.key) is None
    assert len(sessions) == 0


def test_one_user_cannot_displace_the_stored_sessions_of_others(database: SharedDatabase) -> None:
    sessions = Sessions(database, SessionLimits(total=8, each_user=5, seconds=1_000))
    mine = start(sessions, "ann")
    latest = ""
    for _ in range(20):
        latest = start(sessions, "mallory").key
    assert len(sessions) == 6
    assert sessions.get("ann", mine.key) is not None
    assert sessions.get("mallory", latest) is not None
    for number in range(3):
        sessions.create(f"user {number}")
    assert len(sessions) == 8
    assert sessions.get("ann", mine.key) is None, "it was unused for the longest time"
