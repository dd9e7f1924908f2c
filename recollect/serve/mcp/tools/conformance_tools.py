"""The tools that the official conformance suite calls, offered only where RECOLLECT_CONFORMANCE is set."""

from __future__ import annotations

from typing import Any

from recollect.serve.mcp.tool import READS_ONLY, Tool

# What must be listed as it is written here: a schema of 2020-12 with all that it may hold.
SCHEMA_2020: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _fixture(name: str, description: str, schema: dict[str, Any] | None = None) -> Tool:
    return Tool(
        name=name,
        toolset="conformance",
        description=f"For the conformance suite. {description}.",
        input_schema=schema or {"type": "object", "properties": {}, "additionalProperties": False},
        annotations=READS_ONLY,
    )


TOOLS: tuple[Tool, ...] = (
    _fixture("test_simple_text", "Answers a text"),
    _fixture("test_image_content", "Answers an image"),
    _fixture("test_audio_content", "Answers a sound"),
    _fixture("test_embedded_resource", "Answers a resource"),
    _fixture("test_multiple_content_types", "Answers a text, an image and a resource"),
    _fixture("test_error_handling", "Fails"),
    _fixture("test_tool_with_progress", "Tells how far it is"),
    _fixture("test_streaming_elicitation", "Tells how far it is, and asks nothing"),
    _fixture("test_logging_tool", "Writes no log to the client"),
    _fixture("json_schema_2020_12_tool", "Has a schema of 2020-12", SCHEMA_2020),
)
