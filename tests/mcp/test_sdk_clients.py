"""The official Python SDK over real sockets. All transports list and answer the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from lazy_import import LazyModule
from mcp_server import command
from websockets.sync.client import connect
from wire import NEW, OLD, TIMEOUT, HttpUser, Web, call, message

import recollect
from recollect.serve.mcp.toolsets import PROFILES

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


@pytest.mark.parametrize(
    "profile",
    [
        "default",
        *(pytest.param(name, marks=pytest.mark.full) for name in PROFILES if name != "default"),
    ],
)
def test_all_transports_list_and_answer_the_same(web: Web, tmp_path: Path, profile: str) -> None:
    ann = web.new_user()
    web.remember(ann.user, CONTENT, "Travel")
    # The stdio server has another library, with the same conversation.
    home = str(tmp_path / "home")
    with recollect.open(home) as library:
        message_ = {"role": "user", "content": CONTENT, "created_at": "2026-01-02T03:04:05Z"}
        library.add_conversation(id="c1", title="Travel", messages=[message_])
    path = "/mcp"
    if profile != "default":
        path = f"/mcp/{profile}"
    tool = {
        "bus": "msg_search",
        "knowledge": "knowledge_search",
        "memory": "search",
        "research": "search",
    }.get(profile, "conversation_search")
    requests = [
        message("tools/list", 1),
        call(tool, 2, query="tower", unknown=1),
        message("prompts/list", 3),
        message("resources/templates/list", 4),
    ]
    if tool == "conversation_search":
        requests.append(call(tool, 5, query="tower"))
    over_http = [ann.post(request, path).json() for request in requests]
    address = ann.address.replace("http", "ws") + path + "/ws"
    with connect(address, additional_headers={"Authorization": f"Bearer {ann.key}"}) as connection:
        over_websocket = []
        for request in requests:
            connection.send(json.dumps(request))
            over_websocket.append(json.loads(connection.recv(TIMEOUT)))
    assert over_websocket == over_http
    assert asyncio.run(over_stdio(home, profile, requests)) == over_http


async def over_stdio(home: str, profile: str, requests: list[dict[str, Any]]) -> list[Any]:
    process = await asyncio.create_subprocess_exec(
        *command("--home", home, "--profile", profile),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=10_000_000,
    )
    assert process.stdin is not None and process.stdout is not None
    answers = []
    for request in requests:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        answers.append(json.loads(await asyncio.wait_for(process.stdout.readline(), TIMEOUT)))
    process.stdin.close()
    await process.wait()
    return answers
