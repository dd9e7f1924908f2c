"""No tool shows an agent a message that only its metadata marks as human-only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tool_calls import MakeCaller

from recollect import Library
from recollect.model.documents import Passage

TOOLSETS = ("recall", "conversations", "sources", "knowledge", "memory")
SECRET = "quaggasecret"
MARKS: list[dict[str, Any]] = [
    {"human_only": True},
    {"Human-Only": "yes"},
    {"audience": ["human"]},
    {"audience": "HUMAN"},
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("recall_search", {"query": SECRET}),
    ("recall_search", {"query": "zebra launch"}),
    ("recall_read", {"id": "c1"}),
    ("recall_read", {"id": "c1#1-3"}),
    ("recall_recent", {}),
    ("recall_timeline", {}),
    ("conversation_search", {}),
    ("conversation_search", {"query": SECRET}),
    ("chats_search", {"query": SECRET}),
    ("chats_search", {"query": "zebra launch"}),
    ("chats_get", {"conversation_id": "c1"}),
    ("knowledge_search", {"query": SECRET}),
    ("knowledge_search", {"query": "zebra launch"}),
    ("knowledge_get", {"source": "chats", "id": "c1", "retrieval": {"mode": "full"}}),
    ("search", {"query": SECRET}),
    ("search", {"query": "zebra launch"}),
    ("read", {"path": "/default/c1.jsonl"}),
]


@pytest.mark.parametrize("mark", MARKS, ids=str)
@pytest.mark.parametrize("setting", ["", pytest.param("hide", marks=pytest.mark.full)])
def test_no_tool_shows_an_agent_a_message_that_is_marked_by_its_metadata(
    make_caller: MakeCaller,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    mark: dict[str, Any],
    setting: str,
) -> None:
    """As older versions stored it: visible to everybody."""
    library.add_conversation("c1", messages=[{"role": "user", "content": "the zebra launch"}])
    hidden = Passage(
        "hidden",
        "user",
        f"We decided: the zebra launch is {SECRET}, for 40 euros.",
        metadata={**mark, "note": SECRET},
    )
    library.add_messages("c1", [hidden, Passage("last", "assistant", "The zebra launch is near.")])
    library.index()
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", setting)
    agent, person = make_caller(), make_caller(agent=False)
    visible_to_person = 0
    for tool, arguments in CALLS:
        result = agent.call(tool, arguments)
        if arguments.get("query") != SECRET:
            assert not result["isError"], (tool, result)
        for item in result["content"]:
            assert f"is {SECRET}" not in item["text"], (tool, arguments)
        assert f"is {SECRET}" not in json.dumps(result), (tool, arguments)
        visible_to_person += f"is {SECRET}" in json.dumps(person.call(tool, arguments))
    assert visible_to_person >= 8
