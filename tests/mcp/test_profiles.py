"""Profiles, toolsets and keys: which client sees which tools, and how many tokens that costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.protocol import Dispatcher
from recollect.serve.mcp.toolsets import all_tools

BUS = ["bus_connect", "thread_list", "msg_post", "msg_list", "msg_wait", "msg_search"]
KNOWLEDGE = ["knowledge_search", "knowledge_get"]
SOURCES = [
    "notes_search",
    "notes_get",
    "notes_write",
    "media_search",
    "media_get",
    "media_transcript",
    "chats_search",
    "chats_get",
    "characters_search",
    "characters_get",
    "prompts_search",
    "prompts_get",
]
MEMORY = ["search", "get_observations", "read", "timeline", "forget"]
DEFAULT = ["recall_search", "recall_read", "recall_recent", "recall_timeline", "recall_note"]
UNLISTED = ["conversation_search", *BUS, *KNOWLEDGE, *SOURCES, *MEMORY]
ALL = [*DEFAULT, *UNLISTED, "fetch"]
RESEARCH = ["search", "fetch"]
DEEP_RESEARCH = [*KNOWLEDGE, *(name for name in SOURCES if name != "notes_write"), *RESEARCH]
WRITERS = ["recall_note"]
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "openai-mcp", "version": "1.0.0"},
}


def names(catalog: Catalog) -> list[str]:
    return [tool["name"] for tool in catalog.listing()]


def ask(dispatcher: Dispatcher, method: str, **params: Any) -> Any:
    return dispatcher.handle({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def list_tools(dispatcher: Dispatcher, **params: Any) -> list[str]:
    return [tool["name"] for tool in ask(dispatcher, "tools/list", **params)["result"]["tools"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, DEFAULT),
        ({"profile": "research"}, DEEP_RESEARCH),
        ({"toolsets": ["knowledge", "sources"]}, [*KNOWLEDGE, *SOURCES]),
        ({"profile": "letta"}, ["conversation_search"]),
        ({"toolsets": ["bus"]}, BUS),
        ({"toolsets": ["research", "conversations"]}, ["conversation_search", *RESEARCH]),
        ({"toolsets": ["default"]}, DEFAULT),
        ({"profile": "memory"}, MEMORY),
        ({"toolsets": ["all"]}, ALL),
        ({"profile": "all"}, ALL),
        ({"profile": "bus"}, BUS),
        ({"profile": "knowledge"}, [*KNOWLEDGE, *SOURCES]),
        ({"tools": ["search"]}, ["search"]),
        ({"tools": ["search", "fetch"]}, RESEARCH),
        ({"toolsets": ["bus"], "profile": "research"}, BUS),
        ({"tools": ["fetch", "msg_search"]}, ["msg_search", "fetch"]),
        ({"tools": ["fetch"], "toolsets": ["conversations"]}, ["conversation_search", "fetch"]),
        ({"toolsets": []}, []),
        ({"read_only": True}, [name for name in DEFAULT if name not in WRITERS]),
        ({"read_only": True, "tools": ["msg_post", "msg_list"]}, ["msg_list"]),
        ({"allowed": {"bus"}}, BUS),
        ({"allowed": {"bus"}, "profile": "research"}, []),
        ({"allowed": {"research", "unknown"}, "toolsets": ["all"]}, RESEARCH),
        ({"allowed": set()}, []),
    ],
)
def test_options_select_the_listed_tools(options: dict[str, Any], expected: list[str]) -> None:
    catalog = Catalog(**options)
    assert names(catalog) == expected
    if catalog.profile != "default":
        for tool in all_tools():
            assert (tool.name in catalog) == (tool.name in expected)


def test_the_default_profile_answers_the_tools_that_it_does_not_list() -> None:
    catalog = Catalog()
    assert all(name in catalog for name in UNLISTED)
    assert "fetch" not in catalog
    assert "notes_write" not in Catalog(read_only=True)
    assert "msg_list" not in Catalog(allowed={"recall"})
    assert names(Catalog(allowed={"recall", "bus"})) == DEFAULT


def test_a_tool_that_is_not_offered_cannot_be_called() -> None:
    dispatcher = Dispatcher(Catalog(allowed={"conversations"}))
    for name in ("msg_post", "msg.post", "search", "fetch"):
        assert ask(dispatcher, "tools/call", name=name, arguments={})["error"]["code"] == -32602


# -- deep research ---


def initialize(catalog: Catalog, name: str) -> Dispatcher:
    dispatcher = Dispatcher(catalog)
    client = {"name": name, "version": "1.0.0"}
    ask(dispatcher, "initialize", protocolVersion="2025-06-18", clientInfo=client)
    return dispatcher


def test_openais_client_gets_the_research_profile_by_default() -> None:
    catalog = Catalog()
    dispatcher = initialize(catalog, "openai-mcp")
    assert list_tools(dispatcher) == DEEP_RESEARCH
    assert dispatcher.catalog.profile == "research"
    assert list_tools(initialize(catalog, "openai")) == DEFAULT
    assert list_tools(Dispatcher(catalog)) == DEFAULT


def test_a_second_initialize_replaces_the_first() -> None:
    dispatcher = initialize(Catalog(), "openai-mcp")
    ask(dispatcher, "initialize", protocolVersion="2025-11-25", clientInfo={"name": "codex"})
    assert list_tools(dispatcher) == DEFAULT
    assert dispatcher.client == "codex"


def test_openais_client_gets_no_more_than_its_key_allows() -> None:
    assert list_tools(initialize(Catalog(allowed={"conversations", "bus"}), "openai-mcp")) == []


def test_the_client_name_does_not_matter_in_the_stateless_protocol() -> None:
    dispatcher = initialize(Catalog(), "codex")
    assert list_tools(dispatcher, _meta=MODERN) == DEFAULT
    assert list_tools(Dispatcher(Catalog()), _meta=MODERN) == DEFAULT


# -- cost ---


def tokens(profile: str) -> int:
    """About how many tokens the list costs a model, at four characters per token."""
    return len(json.dumps({"tools": Catalog(profile).listing()}, separators=(",", ":"))) // 4


@pytest.mark.parametrize(
    ("profile", "limit"), [("default", 800), ("research", 3_000), ("letta", 500)]
)
def test_a_list_costs_few_tokens(
    profile: str, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = tokens(profile)
    with capsys.disabled():
        print(f"\ntools/list of the profile {profile}: {cost} tokens")
    assert cost < limit
