"""The official Python SDK over real sockets. All transports list and answer the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lazy_import import LazyModule
from wire import NEW, OLD, TIMEOUT, HttpUser, Web

httpx2: Any = LazyModule("httpx2")
mcp: Any = LazyModule("mcp")
streamable_http: Any = LazyModule("mcp.client.streamable_http")

CONTENT = 'The tower in 东京: "café" 🗼\nsecond line'
VERSIONS = [("legacy", OLD), ("auto", NEW), (NEW, NEW)]


async def session(who: HttpUser, mode: str, path: str = "/mcp", app: Any = None) -> dict[str, Any]:
    steps: list[float] = []

    async def progress(step: float, total: float | None, text: str | None) -> None:
        steps.append(step)

    headers = {"Authorization": f"Bearer {who.key}"}
    in_process = None
    if app is not None:
        in_process = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT, transport=in_process) as http:
        transport = streamable_http.streamable_http_client(who.address + path, http_client=http)
        async with mcp.Client(transport, mode=mode, read_timeout_seconds=TIMEOUT) as client:
            answer = await client.call_tool(
                "conversation_search", {"query": "东京 tower"}, progress_callback=progress
            )
            error = await client.call_tool("conversation_search", {"limit": "many"})
            with pytest.raises(mcp.MCPError) as unknown:
                await client.call_tool("no_such_tool", {})
            tools = (await client.list_tools()).tools
            return {
                "version": client.session.protocol_version,
                "tools": [tool.name for tool in tools],
                "answer": (answer.content[0].text, answer.is_error),
                "error": error.is_error,
                "unknown": unknown.value.code,
            }


@pytest.mark.full
@pytest.mark.parametrize(("mode", "version"), VERSIONS)
def test_the_python_sdk_lists_and_calls_the_tool(
    web_on_each_store: Web, mode: str, version: str
) -> None:
    ann = web_on_each_store.new_user()
    web_on_each_store.remember(ann.user, CONTENT, "Travel")
    assert asyncio.run(session(ann, mode, "/mcp/letta")) == {
        "version": version,
        "tools": ["conversation_search"],
        "answer": (f"[2026-01-02 03:04] user (conv: Travel)\n{CONTENT}", False),
        "error": True,
        "unknown": -32602,
    }


@pytest.mark.parametrize("mode", ["legacy", NEW])
def test_the_python_sdk_reports_a_wrong_key(web: Web, mode: str) -> None:
    stranger = HttpUser(web.new_user().address, "rk_wrong", "")
    with pytest.raises((mcp.MCPError, ExceptionGroup)):
        asyncio.run(session(stranger, mode))
