"""The memory commands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from memories import observe_all

import recollect
from recollect.cli import main


@pytest.fixture
def run(place: str, capfd: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str, fails: bool = False) -> str:
        code = main(["memory", *arguments, "--home", place])
        out, err = capfd.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command


@pytest.fixture
def garden(place: str) -> None:
    """A conversation with an observation of a decision."""
    with recollect.open(place) as library:
        library.add_conversation(
            "s1",
            "Roses\x1b[31m",
            project="/home/me/garden",
            messages=[
                {
                    "role": "user",
                    "content": "We decided to prune the roses in March "
                    "because frost kills the new shoots.",
                    "created_at": "2025-12-01T10:00:00+00:00",
                },
                {
                    "role": "assistant",
                    "content": "Noted: pruning in March.",
                    "created_at": "2025-12-01T10:01:00+00:00",
                },
            ],
        )
        assert observe_all(library) == 1


@pytest.mark.usefixtures("garden")
def test_search_results_lead_to_details_and_to_the_conversation(run: Any) -> None:
    listing = run("search", "prune", "roses", "--project", "garden", "--after", "2025-12-01")
    (id_, *_) = re.findall(r"\*\*ID:\*\* (\S+)", listing)
    details = run("get", id_)
    path, first, last = re.findall(r"`(/\S+)` lines (\d+)-(\d+)", details)[0]
    assert "We decided to prune the roses in March" in run(
        "read", path, "--lines", f"{first}-{last}"
    )
    assert run("read", path, "--lines", "1") == "# Conversation: Roses\n"
    assert run("read", path, "--lines", "3-").startswith("# Date: 2025-12-01\n")
    assert id_ in run("timeline", id_)
    assert id_ in run("timeline", "2025-12-01", "--project", "garden")
    assert "(1 conversation)" in run("search", "roses", "--and", "pruning")


@pytest.mark.usefixtures("garden")
def test_compact_results_are_one_line_each(run: Any) -> None:
    (line,) = run("search", "roses", "--compact").splitlines()
    id_, date, type_ = line.split(" ")[:3]
    assert (date, type_) == ("2025-12-01", "decision:")
    assert "We decided to prune the roses in March" in run("read", id_)


def test_reading_stops_at_the_budget_and_names_the_options(run: Any, place: str) -> None:
    result = {"role": "tool", "type": "tool_result", "tool": "Bash", "content": "ok\nfine"}
    messages = [
        {"role": "user", "content": "Test it."},
        result,
        *({"role": "assistant", "content": f"Step {n} of many."} for n in range(50)),
    ]
    with recollect.open(place) as library:
        library.add_conversation("s1", "Steps", project="p", messages=messages)
    text = run("read", "/p/s1.jsonl", "--max-tokens", "150")
    assert "[Bash, 2 lines]" in text and len(text) <= 4 * 150 + 1
    match = re.search(
        r"\n\n\[Tool results are omitted\. To read them: --tool-results\. "
        r"Lines 1 to \d+ of \d+\. To go on: --lines (\d+-)\]$",
        text.rstrip(),
    )
    assert match is not None, text
    assert run("read", "/p/s1.jsonl", "--lines", match[1]).endswith("Step 49 of many.\n")
    assert "ok\nfine" in run("read", "/p/s1.jsonl", "--tool-results")


@pytest.mark.usefixtures("garden")
def test_every_memory_command_prints_json(run: Any) -> None:
    results = json.loads(run("search", "roses", "--json"))
    id_, path = results["results"][0]["id"], results["results"][0]["path"]
    assert path == "/garden/s1.jsonl"
    assert json.loads(run("get", id_, "--json"))["observations"][0]["path"] == path
    assert json.loads(run("read", path, "--json"))["text"].startswith("# Conversation: ")
    assert json.loads(run("timeline", id_, "--json"))["anchor"] == 0
    assert json.loads(run("forget", id_, "--json"))["deleted"] is False


@pytest.mark.usefixtures("garden")
def test_forget_deletes_nothing_without_yes(run: Any) -> None:
    (id_, *_) = re.findall(r"\*\*ID:\*\* (\S+)", run("search", "roses"))
    assert "--yes" in run("forget", id_)
    assert "--yes" in run("forget", "--project", "garden", "--before", "2025-12-31")
    assert run("forget", id_, "--yes").startswith("Forgot 1 observation")
    assert "Invalid observation ID" in run("get", id_, fails=True)
    assert run("forget", "--path", "/garden/s1.jsonl", "--yes").startswith("Forgot 1 conversation")
    assert "File not found" in run("read", "/garden/s1.jsonl", fails=True)


def test_invalid_memory_commands_are_errors(run: Any, place: str) -> None:
    recollect.open(place).close()
    assert "at least 2 characters" in run("search", "x", fails=True)
    assert "Say what to forget" in run("forget", "--yes", fails=True)
    assert "not a range of lines" in run("read", "/a/b.jsonl", "--lines", "soon", fails=True)
