"""The `conversations` toolset: `conversation_search`, as its contract defines it.

Name, description and schema are quoted from the contract (docs/contracts/conversation-search.md).
"""

from __future__ import annotations

from recollect.serve.mcp.tool import READ_ONLY, Tool, Toolset

CONVERSATION_SEARCH = Tool(
    name="conversation_search",
    description=(
        "Search prior conversation history (canonical ChatGPT export). Hybrid-style: text match "
        "on content and titles. Optional filters: roles (user/assistant/tool), start_date and "
        "end_date (ISO 8601 inclusive). Returns matching messages with timestamps and content."
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
                "description": (
                    'Restrict results to messages with these roles. Example: ["user", "assistant"].'
                ),
            },
            "start_date": {
                "type": "string",
                "description": (
                    "Start of date range (inclusive), ISO 8601. Date-only (e.g. 2024-01-15) is "
                    "interpreted as start of that day UTC. With time (e.g. 2024-01-15T14:30:00), "
                    "no timezone suffix is treated as UTC."
                ),
            },
            "end_date": {
                "type": "string",
                "description": (
                    "End of date range (inclusive), ISO 8601. Date-only is interpreted as end of "
                    "that day UTC. Same timezone rules as start_date."
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
    annotations=READ_ONLY,
)

CONVERSATIONS = Toolset(
    "conversations", "recollect.serve.mcp.tools.conversations.handlers", (CONVERSATION_SEARCH,)
)
