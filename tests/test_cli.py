"""The command line: output for people, and JSON for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.cli import main
from recollect.places import open_existing

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run_with_examples(run: Any) -> Any:
    run("import", *(str(p) for p in EXAMPLES.iterdir() if p.is_dir()))
    return run


def test_import_prints_a_receipt_for_people_and_for_programs(run: Any) -> None:
    assert "Receipt 1" in run("import", str(EXAMPLES / "chatgpt"))
    again = json.loads(run("import", str(EXAMPLES / "chatgpt"), "--json"))
    assert (again["id"], again["files"][0]["messages"]["new"]) == (2, 0)
    assert again["files"][0]["messages"]["same"] > 0


def test_filters_work_from_the_command_line(run_with_examples: Any) -> None:
    everything = json.loads(run_with_examples("search", "the", "--json", "--limit", "200"))
    mine = json.loads(
        run_with_examples(
            "search", "the", "--role", "user", "--source", "chatgpt", "--json", "--limit", "200"
        )
    )
    assert 0 < mine["total"] < everything["total"]
    assert {(h["role"], h["source"]) for h in mine["hits"]} == {("user", "chatgpt")}
    early = json.loads(run_with_examples("search", "the", "--before", "1999-01-01", "--json"))
    assert early["total"] == 0


def test_list_and_read_show_conversations(run_with_examples: Any) -> None:
    listing = json.loads(run_with_examples("list", "--json"))
    assert listing["total"] == len(listing["conversations"])
    first = listing["conversations"][0]
    assert first["title"][:20] in run_with_examples("list")
    assert json.loads(run_with_examples("read", first["id"], "--json"))["messages"]
    assert run_with_examples("read", first["id"])


def test_a_long_conversation_is_read_in_pages(run: Any, place: str) -> None:
    messages = [{"id": f"m{n}", "role": "user", "content": f"text {n}."} for n in range(250)]
    with recollect.open(place) as library:
        library.add_conversation("long", messages=messages)
    first = run("read", "long")
    assert "text 99." in first and "text 100." not in first
    assert "1 to 100 of 250 messages" in first
    assert "recollect read long --offset 100" in first
    last = run("read", "long", "--offset", "200")
    assert "text 249." in last and "201 to 250 of 250" in last and "Continue" not in last
    assert "No more messages; there are 250." in run("read", "long", "--offset", "300")
    branches = run("read", "long", "--branches", "--limit", "2", "--offset", "1")
    assert "text 2." in branches and "--offset 3 --branches" in branches
    page = json.loads(run("read", "long", "--limit", "2", "--offset", "1", "--json"))
    assert [message["id"] for message in page["messages"]] == ["m1", "m2"]
    assert (page["offset"], page["total"]) == (1, 250)


@pytest.mark.both_stores
def test_read_marks_a_hit_in_its_conversation(run_with_examples: Any) -> None:
    hit = json.loads(run_with_examples("search", "asyncio", "--json"))["hits"][0]
    output = run_with_examples(
        "read", hit["conversation_id"], "--message", hit["message_id"], "--around", "0"
    )
    assert "▶" in output
    assert "no message 'ghost'" in run_with_examples(
        "read", hit["conversation_id"], "--message", "ghost", fails=True
    )


def test_an_export_is_imported_without_loss(
    run_with_examples: Any, user: str, tmp_path: Path
) -> None:
    whole = tmp_path / "library.json"
    run_with_examples("export", "-o", str(whole))
    run_with_examples("import", str(whole), "--user", f"{user}-other")
    again = tmp_path / "again.json"
    run_with_examples("export", "--output", str(again), "--user", f"{user}-other")
    assert json.loads(again.read_text()) == json.loads(whole.read_text())


def test_one_conversation_is_exported_in_every_format(
    run_with_examples: Any, tmp_path: Path
) -> None:
    id = json.loads(run_with_examples("list", "--json"))["conversations"][0]["id"]
    assert json.loads(run_with_examples("export", id))["id"] == id
    assert run_with_examples("export", id, "--format", "txt").startswith("Conversation: ")
    assert run_with_examples("export", id, "--format", "md").startswith("# ")
    run_with_examples("export", "--format", "md", "--output", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").glob("*.md"))) >= 5
    assert "--output" in run_with_examples("export", "--format", "txt", fails=True)


def test_an_import_is_listed_and_undone(run_with_examples: Any) -> None:
    assert "complete" in run_with_examples("import", "--list")
    run_with_examples("import", "--undo", "1")
    assert json.loads(run_with_examples("stats", "--json"))["messages"] == 0
    assert json.loads(run_with_examples("import", "--list", "--json"))["receipts"][0]["undone_at"]
    assert "undone" in run_with_examples("import", "--undo", "1", fails=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import"], "Give a file or folder"),
        (["import", "/nowhere/at/all"], "Cannot read"),
        (["search", "x"], "Import something first"),
        (["read", "x"], "Import something first"),
    ],
)
def test_error_messages_say_what_to_do(run: Any, arguments: list[str], message: str) -> None:
    assert message in run(*arguments, fails=True)


def test_reading_never_creates_a_library(run: Any, place: str) -> None:
    run("stats", fails=True)
    assert open_existing(place) is None
    assert not Path(place).exists()


def test_stored_text_cannot_control_the_terminal(run: Any, tmp_path: Path) -> None:
    nasty = "\x1b[31mred\x07 [bold]markup[/] \u202eflip zebra"
    (tmp_path / "x.json").write_text(
        json.dumps(
            {
                "conversations": [
                    {
                        "id": "c1",
                        "title": nasty,
                        "messages": [
                            {"id": "m", "role": "user", "content": nasty, "author": nasty}
                        ],
                    }
                ]
            }
        )
    )
    run("import", str(tmp_path / "x.json"))
    for output in (run("search", "zebra"), run("read", "c1"), run("list")):
        assert not set(output) & set("\x1b\x07\u202e")
        assert "[bold]markup[/]" in output


def test_arguments_may_contain_invalid_utf8(run_with_examples: Any) -> None:
    bad = b"\xff".decode("utf-8", "surrogateescape")
    assert json.loads(run_with_examples("list", "--search", bad, "--json"))["total"] == 0
    page = json.loads(run_with_examples("search", "event loop", "--author", bad, "--json"))
    assert page["total"] == 0
    assert "recollect: " in run_with_examples("read", bad, fails=True)
    assert "recollect: " in run_with_examples("stats", "--user", bad, fails=True)


def test_the_home_option_works_before_and_after_the_command(
    run_with_examples: Any, place: str, user: str
) -> None:
    home = ["--home", place]
    assert main([*home, "stats"]) == main(["stats", *home]) == 0
    assert main([*home, "--user", f"ann-{user}", "stats"]) == 1
    for arguments in ([*home, "mcp"], ["mcp", *home]):
        command = [sys.executable, "-m", "recollect", *arguments]
        process = subprocess.run(
            command,
            input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
            capture_output=True,
            text=True,
        )
        assert json.loads(process.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.both_stores
def test_recollect_runs_as_a_program(place: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "recollect", "--help"], capture_output=True, text=True, check=True
    )
    assert "recollect import" in process.stdout
    process = subprocess.run(
        [sys.executable, "-m", "recollect", "search", "x", "--home", place],
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith("recollect: There is no library")


@pytest.mark.full
def test_a_program_ends_with_its_whole_output_written(run_with_examples: Any, place: str) -> None:
    for arguments in (["list", "--json"], ["search", "event loop"]):
        command = [sys.executable, "-m", "recollect", *arguments, "--home", place]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        assert process.stdout == run_with_examples(*arguments)


@pytest.mark.full
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_program_fails_if_its_output_cannot_be_written(
    run_with_examples: Any, place: str
) -> None:
    for command in (["list", "--json"], ["export"]):
        line = [sys.executable, "-m", "recollect", *command, "--home", place]
        with Path("/dev/full").open("w") as full:
            process = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True)
        assert process.returncode == 1
        assert process.stderr.startswith("recollect: The disk is full")
        assert process.stderr.count("\n") == 1
