"""The fixtures of the conformance suite exist only in the test server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_server import request, running
from tool_calls import TOOLSETS, listings

SERVER = Path(__file__).parents[1] / "clients" / "conformance_server.py"
START = f"""
import runpy, sys
sys.path.insert(0, {str(SERVER.parent)!r})
sys.argv.insert(1, "mcp")
runpy.run_path({str(SERVER)!r}, run_name="__main__")
"""
REQUESTS = [
    request(1, "tools/list"),
    request(2, "tools/call", name="test_multiple_content_types"),
    request(3, "tools/call", name="test_error_handling"),
    request(4, "resources/read", uri="test://template/123/data"),
    request(
        5,
        "prompts/get",
        name="test_prompt_with_arguments",
        arguments={"arg1": "hello", "arg2": "world"},
    ),
    request(6, "prompts/get", name="test_prompt_with_arguments", arguments={"arg1": "hello"}),
    request(7, "resources/list"),
    request(8, "prompts/list"),
    request(9, "resources/templates/list"),
]


def test_the_product_has_no_fixtures() -> None:
    assert "conformance" not in TOOLSETS
    assert not any("conformance" in toolsets for toolsets in listings().values())
    assert not [name for name in sys.modules if name.startswith("recollect.") and "conform" in name]


@pytest.mark.parametrize("options", [(), ("--toolsets", "all")])
def test_fixtures_are_called_like_every_other_tool(tmp_path: Path, options: tuple[str]) -> None:
    with running("--home", str(tmp_path), *options, start=START) as server:
        server.send(*REQUESTS)
        answers: dict[int, Any] = {answer["id"]: answer for answer in server.finish()}
    results = {request_id: answer.get("result") for request_id, answer in answers.items()}
    tools = [tool["name"] for tool in results[1]["tools"]]
    assert {"recall_search", "test_simple_text", "json_schema_2020_12_tool"} <= set(tools)
    assert [block["type"] for block in results[2]["content"]] == ["text", "image", "resource"]
    assert "structuredContent" not in results[2]
    assert results[3]["isError"] is True
    assert '"id": "123"' in results[4]["contents"][0]["text"]
    assert "arg1='hello', arg2='world'" in results[5]["messages"][0]["content"]["text"]
    assert answers[6]["error"]["code"] == -32602
    assert "test://static-binary" in [resource["uri"] for resource in results[7]["resources"]]
    prompts = {prompt["name"] for prompt in results[8]["prompts"]}
    assert {"recall", "test_simple_prompt"} <= prompts
    assert len(results[9]["resourceTemplates"]) == 6


def test_fixtures_can_be_selected_without_the_other_toolsets(tmp_path: Path) -> None:
    with running("--toolsets", "conformance,conversations", start=START) as server:
        server.send(request(1, "tools/list"))
        tools = {tool["name"] for tool in server.receive()["result"]["tools"]}
    assert {"conversation_search", "test_simple_text"} <= tools
    assert "msg_search" not in tools
