"""`recollect` with the fixtures of the official MCP conformance suite.

    python tests/clients/conformance_server.py serve --port 0
    python tests/clients/conformance_server.py mcp --home FOLDER

The fixtures are one more toolset of the default profile, and replacements for some methods of the
dispatcher. They take the same path through dispatcher and transport as everything else, which is
what the suite tests.
"""

from __future__ import annotations

import sys
from typing import Any

import conformance_handlers

from recollect.__main__ import main
from recollect.serve.mcp.protocol import Dispatcher
from recollect.serve.mcp.toolsets import PROFILES, TOOLSETS, Tool, Toolset

# The suite checks that this schema is listed unchanged: it uses all of JSON Schema 2020-12.
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


def fixture(name: str, description: str, schema: dict[str, Any] | None = None) -> Tool:
    return Tool(name, f"For the conformance suite: {description}.", input_schema=schema)


FIXTURES = Toolset(
    "conformance",
    conformance_handlers.__name__,
    "plain",
    (
        fixture("test_simple_text", "returns text"),
        fixture("test_image_content", "returns an image"),
        fixture("test_audio_content", "returns audio"),
        fixture("test_embedded_resource", "returns a resource"),
        fixture("test_multiple_content_types", "returns text, an image and a resource"),
        fixture("test_error_handling", "fails"),
        fixture("test_tool_with_progress", "reports progress"),
        fixture("test_streaming_elicitation", "reports progress and asks nothing"),
        fixture("test_logging_tool", "sends no log messages"),
        fixture("json_schema_2020_12_tool", "has a schema of 2020-12", SCHEMA_2020),
    ),
)


def install() -> None:
    """Add the fixtures to the server of this process."""
    TOOLSETS[FIXTURES.name] = FIXTURES
    PROFILES["default"] += (FIXTURES.name,)
    for methods in (Dispatcher.HANDSHAKE_METHODS, Dispatcher.STATELESS_METHODS):
        methods.update(conformance_handlers.METHODS)


if __name__ == "__main__":
    install()
    sys.exit(main())
