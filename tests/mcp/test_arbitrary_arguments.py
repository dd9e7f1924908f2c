"""Every tool answers arbitrary arguments: valid ones by its schema, and anything else."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_calls import TOOLS as ALL_TOOLS
from tool_calls import MakeCaller

TOOLSETS: tuple[str, ...] = ()
"""Set by each test: two toolsets have a tool of the same name."""
TOOLS = [(tool.toolset, tool) for tool in ALL_TOOLS]
WAITING = ("timeout_ms", "timeout_seconds", "wait_seconds")
"""Arguments that say how long a tool waits. The tests do not wait."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values),
    max_leaves=5,
)
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["castle", '"', "NOT (", "c1", "2026-13-45", "../../etc/passwd", "\x00", "\ud800", "a" * 5_000]
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that are valid by a schema of our tools."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of([values(part) for part in schema[key]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of([values({**schema, "type": one}) for one in kind])
    if kind in ("integer", "number"):
        return st.integers(schema.get("minimum", -10), schema.get("maximum", 10_000))
    if kind == "array":
        return st.lists(values(schema.get("items", {})), max_size=3)
    if kind == "object":
        return arguments(schema)
    return {"string": TEXTS, "boolean": st.booleans()}.get(str(kind), JSON)


def arguments(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = schema.get("properties", {})
    required = {name: values(properties[name]) for name in schema.get("required", ())}
    optional = {name: values(part) for name, part in properties.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


@st.composite
def hostile_arguments(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    """Valid arguments, of which some are replaced by anything, or are unknown."""
    valid = draw(arguments(schema))
    names = st.sampled_from([*schema.get("properties", {}), "user_id", "_context", ""])
    return valid | draw(st.dictionaries(names, JSON, max_size=3))


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("toolset", "tool"), TOOLS, ids=lambda value: getattr(value, "name", value)
)
def test_a_tool_answers_any_arguments_with_a_result_or_a_clear_error(
    make_caller: MakeCaller, toolset: str, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.TOOLSETS", (toolset,))
    caller = make_caller()
    examples = settings(max_examples=max(3, settings.default.max_examples // 2))

    @examples
    @given(arguments(tool.input_schema) | hostile_arguments(tool.input_schema))
    def call(argument_values: dict[str, Any]) -> None:
        request = {name: 0 if name in WAITING else v for name, v in argument_values.items()}
        result = caller.call(tool.name, request)
        texts = [part["text"] for part in result["content"] if part["type"] == "text"]
        assert texts, result
        assert not any(word in texts[0] for word in ("Traceback", "apsw.", 'File "/')), texts[0]
        if result["isError"]:
            assert "structuredContent" not in result
        elif tool.output_schema:
            jsonschema.validate(result["structuredContent"], tool.output_schema)
        json.dumps(result, allow_nan=False)

    call()
