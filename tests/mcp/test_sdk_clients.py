"""The official Python SDK talks to the server over real sockets; every transport lists and answers the same."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from websockets.sync.client import connect
from wire import NEW, OLD, PATIENCE, Someone, Web, call, message

import recollect
from recollect.serve.accounts import new_key
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.mcp.toolsets import PROFILES
from recollect.settings import place as placed

START = "from recollect.serve.mcp.transports.stdio import main; import sys; sys.exit(main(sys.argv[1:]))"
CONTENT = 'The tower in 东京: "café" 🗼\nsecond line'
ERAS = [("legacy", OLD), ("auto", NEW), (NEW, NEW)]


async def session(who: Someone, mode: str, path: str = "/mcp", app: Any = None) -> dict[str, Any]:
    steps: list[float] = []

    async def progress(done: float, total: float | None, text: str | None) -> None:
        steps.append(done)

    headers = {"Authorization": f"Bearer {who.key}"}
    inside = None if app is None else httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE, transport=inside) as http:
        transport = streamable_http_client(who.address + path, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE) as client:
            found = await client.call_tool(
                "conversation_search", {"query": "东京 tower"}, progress_callback=progress
            )
            refused = await client.call_tool("conversation_search", {"limit": "many"})
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("no_such_tool", {})
            listed = (await client.list_tools()).tools
            return {
                "version": client.session.protocol_version,
                "tools": [tool.name for tool in listed],
                "found": (found.content[0].text, found.is_error),
                "refused": refused.is_error,
                "unknown": unknown.value.code,
            }


@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_python_sdk_lists_and_calls_the_tool(served: Web, mode: str, version: str) -> None:
    ann = served.someone()
    served.remember(ann.user, CONTENT, "Travel")
    assert asyncio.run(session(ann, mode, "/mcp/letta")) == {
        "version": version,
        "tools": ["conversation_search"],
        "found": (f"[2026-01-02 03:04] user (conv: Travel)\n{CONTENT}", False),
        "refused": True,
        "unknown": -32602,
    }


@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_python_sdk_talks_to_the_app_without_a_socket(
    place: str, user: str, mode: str, version: str
) -> None:
    service = Service(placed(place), ServiceConfig(rate_per_minute=0))
    text, _ = new_key(service.keys, user, "", ("read",))
    app = make_app(service)
    found = asyncio.run(
        session(Someone("http://127.0.0.1:8765", text, user), mode, "/mcp/letta", app)
    )
    assert (found["version"], found["tools"]) == (version, ["conversation_search"])
    assert found["found"] == ("No matching messages.", False)
    app.state.mcp.close()
    service.drain()
    service.close()


@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_python_sdk_reads_resources_and_prompts(web: Web, mode: str, version: str) -> None:
    ann = web.someone()
    web.remember(ann.user, CONTENT, "Travel")

    async def read() -> tuple[str, str]:
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {ann.key}"}, timeout=PATIENCE
        ) as http:
            transport = streamable_http_client(f"{ann.address}/mcp", http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE) as client:
                resource = (await client.list_resources()).resources[0]
                told = await client.read_resource(resource.uri)
                prompt = await client.get_prompt("recall", {"topic": "towers"})
                return told.contents[0].text, prompt.messages[0].content.text

    resource, prompt = asyncio.run(read())
    assert resource.endswith('> The tower in 东京: "café" 🗼\n> second line')
    assert "towers" in prompt


@pytest.mark.parametrize("mode", ["legacy", NEW])
def test_the_python_sdk_is_told_of_a_key_that_is_wrong(web: Web, mode: str) -> None:
    stranger = Someone(web.someone().address, "rk_wrong", "")
    with pytest.raises((MCPError, ExceptionGroup)):
        asyncio.run(session(stranger, mode))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_transport_lists_and_answers_the_same(web: Web, tmp_path: Path, profile: str) -> None:
    """What the library holds is the same, too: the process reads that of the user."""
    ann = web.someone()
    web.remember(ann.user, CONTENT, "Travel")
    home = str(tmp_path / "home")
    with recollect.open(home) as library:
        message_ = {"role": "user", "content": CONTENT, "created_at": "2026-01-02T03:04:05Z"}
        library.add_conversation(id="c1", title="Travel", messages=[message_])
    path = "/mcp" if profile == "default" else f"/mcp/{profile}"
    tool = "search" if profile == "research" else "conversation_search"
    asked = [
        message("tools/list", 1),
        call(tool, 2, query="tower", strange=1),
        message("prompts/list", 3),
        message("resources/templates/list", 4),
    ]
    if profile != "research":
        asked.append(call(tool, 5, query="tower"))
    over_http = [ann.post(each, path).json() for each in asked]
    address = ann.address.replace("http", "ws") + path + "/ws"
    with connect(address, additional_headers={"Authorization": f"Bearer {ann.key}"}) as connection:
        over_websocket = []
        for each in asked:
            connection.send(json.dumps(each))
            over_websocket.append(json.loads(connection.recv(PATIENCE)))
    assert over_websocket == over_http
    assert asyncio.run(over_stdio(home, profile, asked)) == over_http


async def over_stdio(home: str, profile: str, asked: list[dict[str, Any]]) -> list[Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        START,
        "--home",
        home,
        "--profile",
        profile,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=10_000_000,
    )
    assert process.stdin is not None and process.stdout is not None
    found = []
    for each in asked:
        process.stdin.write(json.dumps(each).encode() + b"\n")
        found.append(json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE)))
    process.stdin.close()
    await process.wait()
    return found


def test_the_python_sdk_sees_the_same_over_stdio_and_http(web: Web, tmp_path: Path) -> None:
    ann = web.someone()

    async def listed(client: Client) -> list[Any]:
        async with client:
            return [tool.model_dump() for tool in (await client.list_tools()).tools]

    async def both() -> tuple[list[Any], list[Any]]:
        server = StdioServerParameters(
            command=sys.executable, args=["-c", START, "--home", str(tmp_path / "home")]
        )
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {ann.key}"}, timeout=PATIENCE
        ) as http:
            remote = Client(
                streamable_http_client(f"{ann.address}/mcp", http_client=http), mode="auto"
            )
            return await listed(
                Client(server, mode="auto", read_timeout_seconds=PATIENCE)
            ), await listed(remote)

    local, remote = asyncio.run(both())
    assert local == remote
