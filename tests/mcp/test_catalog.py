"""The catalog: which tools are listed under which names, and how calls reach their handlers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Answer, Context, LocalLibrary, ToolError, TooManyCalls
from recollect.serve.mcp.toolsets import TOOLSETS, Tool, all_tools


def names(catalog: Catalog) -> list[str]:
    return [tool["name"] for tool in catalog.listing()]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    with recollect.open(tmp_path) as library:
        library.add_conversation("c1", messages=[{"role": "user", "content": "the walrus"}])
    return LocalLibrary(str(tmp_path)).context()


# -- every tool ---


@pytest.mark.parametrize("definition", all_tools(), ids=lambda tool: f"{tool.toolset}.{tool.name}")
def test_every_tool_can_be_offered_to_every_client(definition: Tool) -> None:
    # Clients add a prefix of their own, and some allow only 64 characters.
    assert re.fullmatch(r"[a-z][a-z_]{1,39}", definition.name)
    assert definition.dotted is None or definition.dotted.replace(".", "_") == definition.name
    assert 20 < len(definition.description) < 600
    assert set(definition.annotations) == {
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    }
    for schema in filter(None, (definition.input_schema, definition.output_schema)):
        assert schema["type"] == "object"
        assert set(schema.get("required", [])) <= set(schema["properties"])
    assert definition.input_schema["additionalProperties"] is False
    assert json.loads(json.dumps(definition.describe(definition.name)))
    assert callable(
        getattr(
            import_module(TOOLSETS[definition.toolset].module),
            definition.handler or definition.name,
        )
    )


def test_no_handler_loads_the_web_service() -> None:
    """The stdio server answers every tool without the modules that only the service needs."""
    modules = ", ".join(toolset.module for toolset in TOOLSETS.values())
    script = f"import {modules}, sys; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    packages = {name.split(".")[0] for name in process.stdout.split()}
    heavy = "pydantic starlette fastapi uvicorn httpx mcp numpy asyncio apsw jinja2"
    assert not packages & set(heavy.split())


def test_no_tool_takes_a_user_or_a_location() -> None:
    for definition in all_tools():
        assert not {"user", "user_id", "owner", "home", "library", "db_path"} & set(
            definition.input_schema["properties"]
        )


# -- names ---


@pytest.mark.parametrize(
    ("options", "listed", "called", "unknown"),
    [
        ({}, "conversation_search", "conversation.search", "history"),
        ({"tools": ["notes_search"]}, "notes_search", "notes.search", "notes"),
        ({"tools": ["notes_search"], "names": "dotted"}, "notes.search", "notes_search", "notes"),
        (
            {"rename": {"conversation.search": "my_find"}},
            "my_find",
            "my.find",
            "conversation_search",
        ),
    ],
)
def test_a_tool_is_called_as_it_is_listed_with_dots_or_underscores(
    context: Context, options: dict[str, Any], listed: str, called: str, unknown: str
) -> None:
    catalog = Catalog(**{"profile": "letta", **options})
    assert names(catalog) == [listed]
    for name in (listed, called):
        assert catalog.call(name, context, {"query": "walrus"})
    assert unknown not in catalog


def test_the_argument_that_gemini_adds_is_ignored(context: Context) -> None:
    arguments = {"query": "walrus", "wait_for_previous": True}
    assert "walrus" in str(Catalog().call("conversation_search", context, arguments))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"profile": "unknown"},
            "no profile 'unknown'; profiles: default, letta, bus",
        ),
        ({"toolsets": ["unknown"]}, "no toolset 'unknown'; toolsets: recall, conversations, bus"),
        ({"tools": ["unknown"]}, "no tool 'unknown'; tools: recall_search"),
        ({"names": "spaced"}, "no 'spaced' names"),
        ({"rename": {"unknown": "x"}}, "no tool 'unknown' to rename"),
        ({"rename": {"conversation_search": "with.dot"}}, "is not a valid tool name"),
        ({"rename": {"conversation_search": ""}}, "is not a valid tool name"),
        (
            {"rename": {"conversation_search": "msg_search"}},
            "two tools would be called 'msg_search'",
        ),
        (
            {"rename": {"conversation_search": "msg.search"}, "names": "dotted"},
            "two tools would be called 'msg_search'",
        ),
        ({"rename": {"conversation_search": "x" * 65}}, "is not a valid tool name"),
    ],
)
def test_invalid_options_are_explained(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Catalog(**options)


# -- calls ---


def test_a_call_needs_the_scope_of_its_tool() -> None:
    reader, writer = Context(scopes=frozenset(["read"])), Context(scopes=frozenset(["write"]))
    catalog = Catalog()
    with pytest.raises(ToolError, match=r"may not write\. Its scopes: read"):
        catalog.call("msg_post", reader, {})
    for name in ("msg_list", "bus_connect"):  # which may answer with what is stored
        with pytest.raises(ToolError, match="may not read"):
            catalog.call(name, writer, {})


def test_every_call_counts_against_the_rate_limit_and_says_so_in_the_words_of_its_contract(
    context: Context,
) -> None:
    calls: list[tuple[str, bool]] = []

    def admit(tool: str, *, writes: bool) -> None:
        calls.append((tool, writes))
        if len(calls) > 2:
            raise TooManyCalls(9)

    context.admit = admit  # type: ignore[method-assign]
    catalog = Catalog()
    assert isinstance(catalog.call("msg_search", context, {"query": "walrus"}), Answer)
    catalog.call("recall_note", context, {"title": "t", "text": "x"})
    for name, text in (
        ("msg_search", '{"error": "Too many calls. Try again in 9 seconds."}'),
        ("recall_recent", "Too many calls. Try again in 9 seconds."),
        ("conversation_search", "Error: Too many calls. Try again in 9 seconds."),
    ):
        with pytest.raises(ToolError, match=re.escape(text)):
            catalog.call(name, context, {"query": "walrus"} if "search" in name else {})
    assert calls[:2] == [("msg_search", False), ("recall_note", True)]


# -- variants ---
