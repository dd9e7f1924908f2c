"""The baseline for bench.mcp: `conversation_search` on the official SDK.

    python -m bench.plain_mcp lowlevel|mcpserver HOME            over stdio
    python -m bench.plain_mcp lowlevel|mcpserver HOME PORT       over Streamable HTTP, under uvicorn
    python -m bench.plain_mcp lowlevel-json HOME PORT            with JSON responses, no streams

The search is Recollect's own code, so that only the protocol and the transport differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError as Refusal
from mcp.server.stdio import stdio_server

from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import LocalLibrary, ToolError
from recollect.serve.mcp.toolsets import CONVERSATIONS

(TOOL,) = CONVERSATIONS.tools

Search = Callable[[dict[str, Any]], str]


def recollect_search(home: str) -> Search:
    catalog, local = Catalog("letta"), LocalLibrary(home)
    return lambda arguments: str(catalog.call(TOOL.name, local.context(), arguments))


def lowlevel(search: Search) -> Server[Any]:
    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        tool = types.Tool(
            name=TOOL.name, description=TOOL.description, input_schema=TOOL.input_schema
        )
        return types.ListToolsResult(tools=[tool])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        is_error = False
        try:
            text = await anyio.to_thread.run_sync(search, dict(params.arguments or {}))
        except ToolError as error:
            text, is_error = str(error), True
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], is_error=is_error
        )

    return Server("plain", on_list_tools=list_tools, on_call_tool=call_tool)


def mcpserver(search: Search) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("plain", log_level="WARNING")

    def conversation_search(
        query: str = "",
        roles: list[str] | None = None,
        start_date: str | None = None,
        end_date: str | None = None,
        limit: int = 50,
    ) -> str:
        arguments = {
            "query": query,
            "roles": roles,
            "start_date": start_date,
            "end_date": end_date,
            "limit": limit,
        }
        try:
            return search(arguments)
        except ToolError as error:
            raise Refusal(str(error)) from error

    server.add_tool(conversation_search, description=TOOL.description, structured_output=False)
    return server


async def _stdio(server: Server[Any]) -> None:
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def main(kind: str, home: str, port: str = "") -> None:
    search = recollect_search(home)
    server: MCPServer[Any] | Server[Any] = lowlevel(search)
    if kind == "mcpserver":
        server = mcpserver(search)
    if port:
        import uvicorn

        app = server.streamable_http_app(json_response=kind == "lowlevel-json")
        uvicorn.run(app, port=int(port), log_level="error", access_log=False)
    elif isinstance(server, MCPServer):
        server.run("stdio")
    else:
        anyio.run(_stdio, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
