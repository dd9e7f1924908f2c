"""No tool shows an agent a message that only its metadata marks as human-only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tool_calls import MakeCaller

from recollect import Library, Passage

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


# Misspellings of words, pairs and names that only human-only messages have.
MISSPELLINGS = {
    "chrysoberil": "chrysoberyl",
    "risoto": "risotto",
    "quaggazebra": "quagga zebra",
    "obrenner": "o brenner",
    "cafehauss": "caféhaus",
}


@pytest.mark.parametrize("setting", ["", "hide"])
def test_no_tool_corrects_a_word_to_one_of_human_only_messages(
    make_caller: MakeCaller, library: Library, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    hidden = "Chrysoberyl and risotto for the quagga-zebra of O'Brenner in the Caféhaus."
    library.add_conversation(
        "c1", messages=[{"role": "user", "content": "the launch is near, cafehaus"}]
    )
    for number in range(4):
        passage = Passage(f"h{number}", "user", hidden, metadata={"audience": "human"})
        library.add_messages("c1", [passage])
    library.knowledge.create("notes", {"title": "Launch", "content": "a launch"})
    library.index()
    monkeypatch.setenv("RECOLLECT_HUMAN_ONLY", setting)
    agent, person = make_caller(), make_caller(agent=False)
    seen_by_person = 0
    for tool in agent.catalog.listing():
        if "query" not in tool["inputSchema"]["properties"]:
            continue
        for typo, word in MISSPELLINGS.items():
            arguments = {"query": f"launch {typo}"}
            assert word not in str(agent.call(tool["name"], arguments)).lower(), tool["name"]
            seen_by_person += word in str(person.call(tool["name"], arguments)).lower()
    assert seen_by_person >= 16
