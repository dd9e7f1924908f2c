"""Every toolset and profile, in the order in which tools are listed.

All transports use these tables, so stdio, HTTP and WebSocket list and answer the same tools.
"""

from __future__ import annotations

from recollect.serve.mcp.tool import Tool, Toolset
from recollect.serve.mcp.tools.bus.definitions import BUS
from recollect.serve.mcp.tools.conversations.definitions import CONVERSATIONS
from recollect.serve.mcp.tools.knowledge.definitions import KNOWLEDGE
from recollect.serve.mcp.tools.memory.definitions import MEMORY
from recollect.serve.mcp.tools.research.definitions import RESEARCH
from recollect.serve.mcp.tools.sources.definitions import SOURCES

TOOLSETS: dict[str, Toolset] = {
    toolset.name: toolset for toolset in (CONVERSATIONS, BUS, KNOWLEDGE, SOURCES, MEMORY, RESEARCH)
}

PROFILES: dict[str, tuple[str, ...]] = {
    "default": ("conversations", "bus", "knowledge", "sources", "memory"),
    "memory": ("memory",),
    "research": ("research", "knowledge", "sources"),
    "letta": ("conversations",),
}
"""The toolsets of each profile. `memory` and `research` both have a tool named `search`, so no
profile has both."""

OMITTED: dict[str, tuple[str, ...]] = {
    "default": ("timeline", "forget"),
    "research": ("notes_write",),
}
"""Tools that a profile leaves out although it has their toolset. Every agent pays for the tools of
`default` in tokens. Clients for deep research require that all tools are read-only."""


def all_tools() -> list[Tool]:
    return [tool for toolset in TOOLSETS.values() for tool in toolset.tools]


def add_toolset(toolset: Toolset, profiles: tuple[str, ...] = ()) -> None:
    """Extend the server: offer another toolset, and add it to these profiles.

    Call this before the first catalog is made. The conformance fixtures in `tests/clients` use it.
    """
    TOOLSETS[toolset.name] = toolset
    for profile in profiles:
        PROFILES[profile] = (*PROFILES.get(profile, ()), toolset.name)
