"""The catalog: which tools are listed under which names, and how calls reach their handlers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from recollect.errors import SearchTimeout
from recollect.serve.mcp import catalog as catalog_module
from recollect.serve.mcp import toolsets
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Answer, Context, ToolError, TooManyCalls
from recollect.serve.mcp.tool import ADDITIVE, READ_ONLY, Tool, Toolset
from recollect.serve.mcp.toolsets import PROFILES, TOOLSETS, all_tools

EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}


def tool(name: str, annotations: dict[str, bool] = READ_ONLY, dotted: str | None = None) -> Tool:
    return Tool(name, "What it does.", EMPTY, annotations, None, dotted)


class Handlers:
    """Stand-in handlers that echo their arguments."""

    count = 0

    def __init__(self) -> None:
        Handlers.count += 1

    def notes_search(self, context: Context, arguments: dict[str, Any]) -> str:
        return f"searched {arguments}"

    def notes_add(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return Answer("added", {"by": context.user})

    def notes_late(self, context: Context, arguments: dict[str, Any]) -> str:
        raise SearchTimeout("It took too long.")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[Handlers]:
    """One toolset with three tools instead of the real toolsets."""
    tools = (
        tool("notes_search", dotted="notes.search"),
        tool("notes_add", ADDITIVE),
        tool("notes_late"),
    )
    toolset = Toolset("stand_in", __name__, tools)
    monkeypatch.setattr(toolsets, "TOOLSETS", {"stand_in": toolset})
    monkeypatch.setattr(toolsets, "PROFILES", {"default": ("stand_in",), "research": ()})
    monkeypatch.setattr(Handlers, "count", 0)
    return Handlers


def names(catalog: Catalog) -> list[str]:
    return [tool["name"] for tool in catalog.listing()]


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


@pytest.mark.parametrize("definition", all_tools(), ids=lambda tool: f"{tool.toolset}.{tool.name}")
def test_every_tool_has_a_handler(definition: Tool) -> None:
    module = import_module(TOOLSETS[definition.toolset].handlers)
    assert callable(getattr(module.Handlers, definition.name))


def test_no_handler_loads_the_web_service() -> None:
    """The stdio server answers every tool without the modules that only the service needs."""
    modules = ", ".join(toolset.handlers for toolset in TOOLSETS.values())
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


def test_tools_are_listed_in_the_order_of_their_definitions() -> None:
    assert names(Catalog(toolsets=["all"])) == list(
        dict.fromkeys(definition.name for definition in all_tools())
    )
    assert names(Catalog(tools=["msg_list", "conversation_search"])) == [
        "conversation_search",
        "msg_list",
    ]
    assert set().union(*PROFILES.values()) <= set(TOOLSETS)


# -- names ---


@pytest.mark.usefixtures("stand_in")
def test_names_have_underscores_and_can_be_called_with_dots() -> None:
    catalog = Catalog()
    assert names(catalog) == ["notes_search", "notes_add", "notes_late"]
    for name in ("notes_search", "notes.search"):
        assert name in catalog
        assert catalog.call(name, Context(), {"a": 1}) == "searched {'a': 1}"


@pytest.mark.usefixtures("stand_in")
def test_dotted_names_are_listed_on_demand() -> None:
    catalog = Catalog(names="dotted")
    assert names(catalog) == ["notes.search", "notes_add", "notes_late"]
    for name in ("notes_search", "notes.search"):
        assert catalog.call(name, Context(), {}) == "searched {}"


@pytest.mark.usefixtures("stand_in")
def test_a_prefix_and_a_new_name_replace_the_old_name() -> None:
    catalog = Catalog(prefix="my_", rename={"notes.search": "find"})
    assert names(catalog) == ["my_find", "my_notes_add", "my_notes_late"]
    for name in ("notes_search", "my_notes_search", "notes_add"):
        assert name not in catalog
    assert catalog.call("my.find", Context(), {}) == "searched {}"
    assert (catalog.name_of("notes_search"), catalog.name_of("unknown")) == ("my_find", None)


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
        ({"prefix": "a b"}, "is not a valid tool name"),
        ({"prefix": "x" * 60}, "is not a valid tool name"),
    ],
)
def test_invalid_options_are_explained(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Catalog(**options)


# -- calls ---


@pytest.mark.usefixtures("stand_in")
def test_a_structured_answer_is_returned() -> None:
    answer = Catalog().call("notes_add", Context("ann"), {})
    assert isinstance(answer, Answer)
    assert (answer.text, answer.structured) == ("added", {"by": "ann"})


@pytest.mark.usefixtures("stand_in")
def test_a_library_error_becomes_a_tool_error() -> None:
    with pytest.raises(ToolError, match=r"Error: It took too long\."):
        Catalog().call("notes_late", Context(), {})


@pytest.mark.usefixtures("stand_in")
def test_a_call_needs_the_scope_of_its_tool() -> None:
    reader, writer = Context(scopes=frozenset(["read"])), Context(scopes=frozenset(["write"]))
    catalog = Catalog()
    assert catalog.call("notes_search", reader, {}) and catalog.call("notes_add", Context(), {})
    with pytest.raises(ToolError, match=r"may not write\. Its scopes: read"):
        catalog.call("notes_add", reader, {})
    for name in ("notes_search", "notes_add"):  # which may answer with what is stored
        with pytest.raises(ToolError, match="may not read"):
            catalog.call(name, writer, {})


@pytest.mark.usefixtures("stand_in")
def test_every_call_counts_against_the_rate_limit() -> None:
    calls: list[tuple[str, bool]] = []

    class Counting(Context):
        def admit(self, tool: str, *, writes: bool) -> None:
            calls.append((tool, writes))
            if len(calls) > 2:
                raise TooManyCalls(9)

    catalog = Catalog(prefix="my_")
    catalog.call("my_notes_search", Counting(), {})
    catalog.call("my_notes_add", Counting(), {})
    with pytest.raises(TooManyCalls, match="9 seconds"):
        catalog.call("my_notes_search", Counting(), {})
    assert calls == [("notes_search", False), ("notes_add", True), ("notes_search", False)]


def test_variants_share_their_handlers(stand_in: type[Handlers]) -> None:
    catalog = Catalog()
    restricted = catalog.variant(read_only=True)
    catalog.call("notes_search", Context(), {})
    restricted.call("notes_search", Context(), {})
    assert stand_in.count == 1


# -- variants ---


@pytest.mark.usefixtures("stand_in")
def test_a_variant_is_created_once_and_never_offers_more() -> None:
    catalog = Catalog(prefix="my_")
    read_only = catalog.variant(read_only=True)
    assert names(read_only) == ["my_notes_search", "my_notes_late"]
    assert catalog.variant(read_only=True) is read_only
    assert read_only.variant(read_only=False) is read_only
    assert catalog.variant() is catalog
    empty = catalog.variant(allowed=["other"])
    assert names(empty) == [] == names(empty.variant(allowed=["stand_in", "other"]))
    assert names(catalog.variant(allowed={"stand_in"})) == names(catalog)
    with pytest.raises(ValueError, match="no profile"):
        catalog.variant(profile="unknown")


@pytest.mark.usefixtures("stand_in")
def test_the_number_of_variants_is_bounded() -> None:
    catalog = Catalog()
    for number in range(3 * catalog_module.MAX_VARIANTS):
        catalog.variant(allowed=[f"toolset {number}"])
    assert len(catalog._shared._variants) <= catalog_module.MAX_VARIANTS
