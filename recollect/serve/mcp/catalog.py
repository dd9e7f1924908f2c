"""Every MCP tool, defined once: what a model reads about it and who answers it.

A tool belongs to a toolset, which is a module beside this one with a class
`Toolset(home, user)`; its methods are named like the tools, take the
arguments and return the text. The module is imported on the first call, so
that listing tools costs nothing.

Descriptions are constants: text that users stored never gets into them.
"""

from __future__ import annotations

import re
import threading
from importlib import import_module
from typing import Any, NamedTuple

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolError(Exception):
    """A call that failed for a reason which the caller may read: the whole text of the answer."""


class Tool(NamedTuple):
    name: str
    toolset: str
    title: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, bool]

    def listed(self, name: str) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        return {
            "name": name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }


READS_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}

# Contract 0: the name, the description and the schema are its own words.
CONVERSATION_SEARCH = Tool(
    name="conversation_search",
    toolset="conversations",
    title="Search past conversations",
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

TOOLS = (CONVERSATION_SEARCH,)


class Catalog:
    """The tools that one server offers, under the names it gives them."""

    def __init__(
        self,
        home: str | None = None,
        user: str | None = None,
        *,
        rename: dict[str, str] | None = None,
        prefix: str = "",
    ) -> None:
        """Raises ValueError when a name is unknown, unusable or given twice."""
        self._home = home
        self._user = user
        self._tools = _named(rename or {}, prefix)
        self._toolsets: dict[str, Any] = {}
        self._opening = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def listing(self) -> list[dict[str, Any]]:
        return [tool.listed(name) for name, tool in self._tools.items()]

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The text that answers a call. Raises ToolError with the text of a failure."""
        tool = self._tools[name]
        answer: str = getattr(self._toolset(tool.toolset), tool.name)(arguments)
        return answer

    def close(self) -> None:
        for toolset in self._toolsets.values():
            toolset.close()

    def _toolset(self, name: str) -> Any:
        with self._opening:
            if name not in self._toolsets:
                module = import_module(f"recollect.serve.mcp.{name}")
                self._toolsets[name] = module.Toolset(self._home, self._user)
            return self._toolsets[name]


def _named(rename: dict[str, str], prefix: str) -> dict[str, Tool]:
    if unknown := sorted(rename.keys() - {tool.name for tool in TOOLS}):
        raise ValueError(f"there is no tool {unknown[0]!r} to rename; tools: {', '.join(t.name for t in TOOLS)}")
    named: dict[str, Tool] = {}
    for tool in TOOLS:
        name = prefix + rename.get(tool.name, tool.name)
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a tool: use 1 to 64 letters, digits, '_' or '-'")
        if name in named:
            raise ValueError(f"two tools would be called {name!r}")
        named[name] = tool
    return named
