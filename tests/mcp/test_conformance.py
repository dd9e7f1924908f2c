"""The fixtures of the conformance suite are there for whoever asks by name, and for nobody else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp_server import command, request, running

from recollect.serve.mcp.definitions import PROFILES, TOOLS

ASKED = [
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


def test_nobody_is_offered_them_unasked() -> None:
    assert "conformance" not in PROFILES
    assert not [tool.name for tool in TOOLS if tool.toolset == "conformance"]


def test_they_go_the_way_of_all_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_CONFORMANCE", "1")
    with running("--home", str(tmp_path), "--profile", "conformance") as server:
        server.send(*ASKED)
        answers: dict[int, Any] = {answer["id"]: answer for answer in server.finish()}
    listed = [tool["name"] for tool in answers[1]["result"]["tools"]]
    assert {"conversation_search", "test_simple_text", "json_schema_2020_12_tool"} <= set(listed)
    assert [block["type"] for block in answers[2]["result"]["content"]] == [
        "text",
        "image",
        "resource",
    ]
    assert "structuredContent" not in answers[2]["result"]
    assert answers[3]["result"]["isError"] is True
    assert '"id": "123"' in answers[4]["result"]["contents"][0]["text"]
    assert "arg1='hello', arg2='world'" in answers[5]["result"]["messages"][0]["content"]["text"]
    assert answers[6]["error"]["code"] == -32602
    assert "test://static-binary" in [
        resource["uri"] for resource in answers[7]["result"]["resources"]
    ]
    assert {"recall", "test_simple_prompt"} <= {
        prompt["name"] for prompt in answers[8]["result"]["prompts"]
    }
    assert len(answers[9]["result"]["resourceTemplates"]) == 6


def test_without_the_variable_there_is_no_such_profile() -> None:
    done = subprocess.run(
        command("--profile", "conformance"), capture_output=True, text=True, timeout=60, input=""
    )
    assert done.returncode == 2
    assert "conformance" in done.stderr
