"""Record in the audit log what agents read and search with tools."""

from __future__ import annotations

from typing import Any

from recollect import places
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.tool import Tool
from recollect.store.audit_log import READ, SEARCH, Actor, Entry

_ID_ARGUMENTS = ("id", "ids", "conversation_id", "conversation", "thread_id", "message_id", "path")


def tool_actor(context: Context) -> Actor:
    """Who calls a tool; over stdio, the process that started the server."""
    actor = context.actor
    if actor is None:
        return Actor(interface="mcp")
    return actor


def record_call(tool: Tool, context: Context, arguments: dict[str, Any]) -> None:
    """Record a call that reads. Deletions are recorded where they happen."""
    if not tool.is_read_only:
        return
    action = READ
    if "search" in tool.name or "find" in tool.name:
        action = SEARCH
    entry = Entry.of(action, tool.name, _ids(arguments))
    places.record(context.home, context.user, entry)


def _ids(arguments: dict[str, Any]) -> list[str]:
    ids: list[str] = []
    for name in _ID_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, (str, int)):
            ids.append(str(value))
        elif isinstance(value, list):
            ids += [str(item) for item in value if isinstance(item, (str, int))]
    return ids
