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
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.serve.mcp.toolsets import PROFILES
from recollect.settings import place as resolve_place

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


@pytest.mark.parametrize(
    ("mode", "version"),
    [*VERSIONS[:1], *(pytest.param(*v, marks=pytest.mark.full) for v in VERSIONS[1:])],
)
def test_the_python_sdk_talks_to_the_app_without_a_socket(
    place: str, user: str, mode: str, version: str
) -> None:
    service = Service(resolve_place(place), ServiceConfig(rate_per_minute=0))
    text, _ = new_key(service.keys, user, "", ("read",))
    app = make_app(service)
    report = asyncio.run(
        session(HttpUser("http://127.0.0.1:8765", text, user), mode, "/mcp/letta", app)
    )
    assert (report["version"], report["tools"]) == (version, ["conversation_search"])
    assert report["answer"] == ("No matching messages.", False)
    app.state.mcp.close()
    service.drain()
    service.close()


@pytest.mark.parametrize(("mode", "version"), VERSIONS)
def test_the_python_sdk_reads_resources_and_prompts(web: Web, mode: str, version: str) -> None:
    ann = web.new_user()
    web.remember(ann.user, CONTENT, "Travel")

    async def read() -> tuple[str, str]:
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {ann.key}"}, timeout=TIMEOUT
        ) as http:
            transport = streamable_http.streamable_http_client(
                f"{ann.address}/mcp", http_client=http
            )
            async with mcp.Client(transport, mode=mode, read_timeout_seconds=TIMEOUT) as client:
                resource = (await client.list_resources()).resources[0]
                content = await client.read_resource(resource.uri)
                prompt = await client.get_prompt("recall", {"topic": "towers"})
                return content.contents[0].text, prompt.messages[0].content.text

    resource, prompt = asyncio.run(read())
    assert resource.endswith('> The tower in 东京: "café" 🗼\n> second line')
    assert "towers" in prompt


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


def test_the_python_sdk_lists_the_same_tools_over_stdio_and_http(web: Web, tmp_path: Path) -> None:
    ann = web.new_user()

    async def list_tools(client: Any) -> list[Any]:
        async with client:
            return [tool.model_dump() for tool in (await client.list_tools()).tools]

    async def both() -> tuple[list[Any], list[Any]]:
        program, *arguments = command("--home", str(tmp_path / "home"))
        server = mcp.StdioServerParameters(command=program, args=arguments)
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {ann.key}"}, timeout=TIMEOUT
        ) as http:
            transport = streamable_http.streamable_http_client(
                f"{ann.address}/mcp", http_client=http
            )
            remote = mcp.Client(transport, mode="auto")
            local = mcp.Client(server, mode="auto", read_timeout_seconds=TIMEOUT)
            return await list_tools(local), await list_tools(remote)

    over_stdio, over_http = asyncio.run(both())
    assert over_stdio == over_http
