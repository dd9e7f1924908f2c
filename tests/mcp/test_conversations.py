"""`conversation_search` beyond its contract: human-only messages, and which database it reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recollect import Library
from recollect.places import open_existing
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Context, LocalLibrary, ToolError
from recollect.serve.mcp.conversation_search import NO_MATCHES

MASKED = "[human-only content hidden]"


class BorrowedLibrary(Context):
    """A call over HTTP: the service owns the library."""

    def __init__(self, library: Library, **options: Any) -> None:
        super().__init__(**options)
        self._library = library

    @contextmanager
    def library(self, *, create: bool = False) -> Iterator[Library]:
        yield self._library


def search(library: Library, agent: bool = True, **arguments: Any) -> str:
    answer = Catalog().call("conversation_search", BorrowedLibrary(library, agent=agent), arguments)
    assert isinstance(answer, str)
    return answer


def add(library: Library, *messages: dict[str, Any]) -> None:
    library.add_conversation(
        "c1",
        "T",
        messages=[
            {"role": "user", "created_at": f"2026-01-{n + 1:02}", **m}
            for n, m in enumerate(messages)
        ],
    )


SECRETS = [
    {"content": "the secret by visibility", "visibility": "human_only"},
    {"content": "the secret by metadata", "metadata": {"visibility": "Human_Only "}},
    {"content": "the secret by audience", "metadata": {"audience": "human"}},
    {"content": "the secret by name", "metadata": {"human-only": True}},
    {"content": "the secret by a list", "metadata": {"audience": ["human"]}},
]


def test_human_only_messages_are_masked_for_agents(library: Library) -> None:
    add(library, {"content": "said to all"}, *SECRETS)
    for answer in (search(library), search(library, query="secret")):
        assert "secret" not in answer
        assert answer.count(MASKED) == len(SECRETS)
    assert "said to all" in search(library)


def test_a_person_sees_human_only_messages(library: Library) -> None:
    add(library, *SECRETS)
    answer = search(library, agent=False, query="secret")
    assert answer.count("the secret") == len(SECRETS) and MASKED not in answer


def test_hidden_messages_cannot_be_probed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    add(library, {"content": "said to all"}, *SECRETS)
    assert search(library, query="secret") == NO_MATCHES
    assert search(library) == "[2026-01-01 00:00] user (conv: T)\nsaid to all"
    assert "secret" in search(library, agent=False)


def test_older_messages_replace_hidden_ones(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", "hide")
    add(library, {"content": "the oldest"}, {"content": "the older"}, *SECRETS * 5)
    blocks = search(library, limit=2).split("\n\n---\n\n")
    assert [block.split("\n")[1] for block in blocks] == ["the older", "the oldest"]
    assert search(library, limit=1).endswith("the older")


def test_a_user_of_the_service_does_not_search_the_database_in_its_environment(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(library, {"content": "of the library"})
    monkeypatch.setenv("CONVERSATION_DB", str(tmp_path / "somebody's.db"))
    assert "of the library" in search(library)


def test_searching_does_not_create_a_library(place: str) -> None:
    local = LocalLibrary(place)
    with pytest.raises(ToolError, match="Database not found: "):
        Catalog().call("conversation_search", local.context(), {})
    assert open_existing(place) is None
    with local.context().library(create=True) as library:
        add(library, {"content": "the first"})
    answer = Catalog().call("conversation_search", local.context(), {})
    assert isinstance(answer, str) and answer.endswith("the first")
    local.close()


def test_the_calls_of_a_process_share_a_session_and_its_preferences(tmp_path: Path) -> None:
    local = LocalLibrary(str(tmp_path))
    one = local.context()
    other = local.context({"snippet_length": 1e9, "user": "bob", "max_tokens": "x"})
    assert one.session is other.session is not None
    assert (dict(one.config), dict(other.config)) == ({}, {"snippet_length": 1_000})
    assert one.agent and other.user is None
