"""Every MCP tool, defined once: stdio, HTTP and WebSocket list and answer the same.

What a model reads here are constants: text that users stored never gets into
them. They are short, because every session of every agent pays for them.
"""

from __future__ import annotations

import os

from recollect.serve.mcp.tool import READS_ONLY, Tool
from recollect.serve.mcp.tools import (
    bus_tools,
    knowledge_tools,
    memory_tools,
    research_tools,
    source_tools,
)

# Contract 0: the name, the description and the schema are its own words.
CONVERSATION_SEARCH = Tool(
    name="conversation_search",
    toolset="conversations",
    description=(
        "Search prior conversation history (canonical ChatGPT export). Hybrid-style: text match on content and "
        "titles. Optional filters: roles (user/assistant/tool), start_date and end_date (ISO 8601 inclusive). "
        "Returns matching messages with timestamps and content."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Text to match in message content and conversation titles.",
            },
            "roles": {
                "type": "array",
                "items": {"type": "string", "enum": ["user", "assistant", "tool"]},
                "description": 'Restrict results to messages with these roles. Example: ["user", "assistant"].',
            },
            "start_date": {
                "type": "string",
                "description": (
                    "Start of date range (inclusive), ISO 8601. Date-only (e.g. 2024-01-15) is interpreted as start of "
                    "that day UTC. With time (e.g. 2024-01-15T14:30:00), no timezone suffix is treated as UTC."
                ),
            },
            "end_date": {
                "type": "string",
                "description": (
                    "End of date range (inclusive), ISO 8601. Date-only is interpreted as end of that day UTC. "
                    "Same timezone rules as start_date."
                ),
            },
            "limit": {
                "type": "integer",
                "default": 50,
                "description": "Maximum number of messages to return; clamped to 1..200.",
            },
        },
        "required": [],
        "additionalProperties": False,
    },
    annotations=READS_ONLY,
)

TOOLS: tuple[Tool, ...] = (
    CONVERSATION_SEARCH,
    *bus_tools.TOOLS,
    *knowledge_tools.TOOLS,
    *source_tools.TOOLS,
    *memory_tools.TOOLS,
    *research_tools.TOOLS,
)
"""In the order in which they are listed."""

TOOLSETS = tuple(dict.fromkeys(tool.toolset for tool in TOOLS))

PROFILES: dict[str, tuple[str, ...]] = {
    "default": tuple(name for name in TOOLSETS if name != "research"),
    "memory": ("memory",),
    "research": ("research", "knowledge"),
    "letta": ("conversations",),
}
"""The toolsets of each profile. `research` has a `search` of its own, and `memory` another: no profile has both."""
LEFT_OUT: dict[str, tuple[str, ...]] = {"default": ("timeline", "forget")}
"""Tools that a profile has not, though it has their toolset: every agent pays for those of `default` in tokens."""

if os.environ.get(
    "RECOLLECT_CONFORMANCE"
):  # what the official conformance suite asks for; nobody else sees it
    from recollect.serve.mcp.tools import conformance_tools

    TOOLS += conformance_tools.TOOLS
    TOOLSETS += ("conformance",)
    # The toolset is the tools alone; the profile has the suite's resources and prompts as well (see `protocol`).
    PROFILES["conformance"] = (*PROFILES["default"], "conformance")
