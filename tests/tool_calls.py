"""Call MCP tools as a client does: through the dispatcher, without a transport."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema

from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.context import Context, LocalContext, LocalLibrary
from recollect.serve.mcp.protocol import Dispatcher
from recollect.serve.mcp.toolsets import PROFILES, all_tools
from recollect.serve.mcp.toolsets import TOOLSETS as REGISTRY


def definitions(catalog: Catalog | str) -> dict[str, Any]:
    """The definitions of the tools of a catalog or profile, by their names."""
    if isinstance(catalog, str):
        catalog = Catalog(catalog)
    return {tool["name"]: tool for tool in catalog.listing()}


MASK = "[human-only content hidden]"
"""What an agent gets in place of a human-only message."""

TOOLS = all_tools()
TOOLSETS = {name: toolset.tools for name, toolset in REGISTRY.items()}


def listings() -> dict[str, list[str]]:
    """The names of the tools that each profile lists."""
    return {name: [tool["name"] for tool in Catalog(name).listing()] for name in PROFILES}


class Caller:
    """A client that calls the tools of some toolsets; an agent by default."""

    def __init__(
        self, place: str, *toolsets: str, user: str | None = None, **context_options: Any
    ) -> None:
        self._local = LocalLibrary(place, user)
        self._context_options = context_options
        self.catalog = Catalog(toolsets=toolsets)
        self.dispatcher = Dispatcher(self.catalog)

    def close(self) -> None:
        self._local.close()

    def context(self, **options: Any) -> Context:
        return LocalContext(self._local, **{**self._context_options, **options})

    def call(self, tool: str, arguments: dict[str, Any], **options: Any) -> Any:
        """The result of a call, as the client receives it."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = json.loads(json.dumps(self.dispatcher.handle(message, self.context(**options))))
        assert "result" in answer, answer
        return answer["result"]

    def ask(self, method: str, offered: dict[str, Any] | None = None, **params: Any) -> Any:
        """The answer to any request, with the tools that `offered` selects; by default, the usual
        ones."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return Dispatcher(Catalog(**(offered or {}))).handle(request, self.context())

    def answer(self, tool: str, **arguments: Any) -> Any:
        """The structured content of a successful call. Its text content must be the same JSON."""
        result = self.call(tool, arguments)
        assert result["isError"] is False, result
        (content,) = result["content"]
        assert content["type"] == "text"
        assert json.loads(content["text"]) == result["structuredContent"]
        (definition,) = [entry for entry in self.catalog.listing() if entry["name"] == tool]
        jsonschema.validate(result["structuredContent"], definition.get("outputSchema", {}))
        return result["structuredContent"]

    def error(self, tool: str, **arguments: Any) -> Any:
        """The error of a failed call."""
        result = self.call(tool, arguments)
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        (content,) = result["content"]
        return json.loads(content["text"])

    def thread(self, topic: str, *contents: str, **options: Any) -> str:
        """Create a thread with messages from an agent, and return its id."""
        thread_id: str = self.answer("bus_connect", thread_name=topic)["thread"]["thread_id"]
        for content in contents:
            fields = {"thread_id": thread_id, "author": "cursor-agent", "content": content}
            self.answer("msg_post", **fields, **options)
        return thread_id


def new_session() -> Session:
    """A session that remembers what a client has seen, as a transport gives it to its calls."""
    return Session()


def start_client(tools: Any, client: str = "a-test", version: str = "2025-11-25") -> Dispatcher:
    """A client that begins with `initialize`."""
    dispatcher = Dispatcher(tools)
    about = {"protocolVersion": version, "clientInfo": {"name": client, "version": "1"}}
    dispatcher.handle({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
    return dispatcher


MakeCaller = Callable[..., Caller]
"""A fixture that creates clients: its options are those of the context."""
