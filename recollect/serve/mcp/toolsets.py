"""Every toolset and profile, in the order in which tools are listed.

All transports use these tables, so stdio, HTTP and WebSocket list and answer the same tools.
"""

from __future__ import annotations

from recollect.serve.mcp.tool import Tool, Toolset
from recollect.serve.mcp.tools.bus.definitions import BUS
from recollect.serve.mcp.tools.conversations.definitions import CONVERSATIONS
from recollect.serve.mcp.tools.knowledge.definitions import KNOWLEDGE
from recollect.serve.mcp.tools.memory.definitions import MEMORY
from recollect.serve.mcp.tools.recall.definitions import RECALL
from recollect.serve.mcp.tools.research.definitions import RESEARCH
from recollect.serve.mcp.tools.sources.definitions import SOURCES

TOOLSETS: dict[str, Toolset] = {
    toolset.name: toolset
    for toolset in (RECALL, CONVERSATIONS, BUS, KNOWLEDGE, SOURCES, MEMORY, RESEARCH)
}

PROFILES: dict[str, tuple[str, ...]] = {
    "default": ("recall",),
    "letta": ("conversations",),
    "bus": ("bus",),
    "knowledge": ("knowledge", "sources"),
    "memory": ("memory",),
    "research": ("research", "knowledge", "sources"),
    "all": tuple(TOOLSETS),
}
"""The toolsets of each profile. Every agent pays for the tools of `default` in tokens. `memory` and
`research` both have a tool named `search`; in `all` it is the one of `memory`."""

UNLISTED: dict[str, tuple[str, ...]] = {
    "default": ("conversations", "bus", "knowledge", "sources", "memory")
}
"""Toolsets that a profile answers but does not list. Version 0.1 listed these by default, and
clients, prompts and scripts that call their tools by name go on working."""
OMITTED: dict[str, tuple[str, ...]] = {"research": ("notes_write",)}
"""Tools that a profile leaves out although it has their toolset. Clients for deep research require
that all tools are read-only."""


def all_tools() -> list[Tool]:
    return [tool for toolset in TOOLSETS.values() for tool in toolset.tools]


def add_toolset(toolset: Toolset, profiles: tuple[str, ...] = ()) -> None:
    """Extend the server: offer another toolset, and add it to these profiles.

    Call this before the first catalog is made. The conformance fixtures in `tests/clients` use it.
    """
    TOOLSETS[toolset.name] = toolset
    for profile in profiles:
        PROFILES[profile] = (*PROFILES.get(profile, ()), toolset.name)
