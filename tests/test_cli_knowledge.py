"""Notes, media, characters and prompts on the command line: text for people, JSON for programs."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from recollect.cli import main

SRT = (
    "1\n00:00:01,000 --> 00:00:04,000\nWater the tomatoes early.\n\n"
    "2\n00:01:10,000 --> 00:01:19,000\nNever at noon.\n\n"
)


FORMATS = {
    "notes": ("md", "txt", "json"),
    "media": ("txt", "md", "json", "srt", "vtt"),
    "characters": ("json",),
    "prompts": ("json", "md", "txt"),
}


@pytest.fixture
def run(place: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "stdin", pipe(""))

    def command(*arguments: str, fails: bool = False) -> str:
        code = main(["knowledge", *arguments, "--home", place])
        out, err = capfd.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command


@pytest.fixture
def garden(run: Any, tmp_path: Path) -> dict[str, str]:
    """Add an item of every kind. Returns their IDs."""
    film = tmp_path / "film.srt"
    film.write_text(SRT)

    def add(*arguments: str) -> str:
        id_: str = json.loads(run("add", *arguments, "--json"))["id"]
        return id_

    return {
        "notes": add(
            "notes", "Beds", "--text", "The tomatoes stand in bed four.", "--tag", "garden"
        ),
        "media": add("media", "A film", "--transcript", str(film), "--set", "media_type=video"),
        "characters": add(
            "characters", "Rosa", "--set", "description=She grows tomatoes.", "--tag", "farm"
        ),
        "prompts": add("prompts", "Planner", "--set", "user_prompt=Plan the tomatoes."),
    }


def pipe(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


class Terminal(io.TextIOWrapper):
    def __init__(self, input_text: str = "") -> None:
        super().__init__(io.BytesIO(input_text.encode()), encoding="utf-8")

    def isatty(self) -> bool:
        return True


def editor(folder: Path, program: str) -> str:
    """The command of an editor that runs a program on the file."""
    path = folder / "editor.py"
    path.write_text(f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{program}\n")
    return shlex.join([sys.executable, str(path)])


# -- finding and reading -------------------------------------------------------


def test_a_search_lists_every_kind_with_a_command_to_read_it(
    run: Any, garden: dict[str, str]
) -> None:
    output = run("search", "tomatoes")
    for kind, id_ in garden.items():
        assert f"recollect knowledge read {kind} {id_}" in output
    assert "1 to 4 of 4" in output
    assert "#garden" in output
    assert "No results." in run("search", "zeppelin")


def test_a_result_in_a_transcript_has_a_time(run: Any, garden: dict[str, str]) -> None:
    output = run("search", "noon", "--in", "media")
    assert "video" in output
    assert "0:01:10" in output
    assert f"recollect knowledge read media {garden['media']} --at 70" in output
    assert "Never at noon." in run("read", "media", garden["media"], "--at", "70")


def test_searches_can_be_filtered(run: Any, garden: dict[str, str]) -> None:
    def kinds(*arguments: str) -> list[str]:
        return sorted(
            r["source"]
            for r in json.loads(run("search", "tomatoes", *arguments, "--json"))["results"]
        )

    assert kinds() == ["characters", "media", "notes", "prompts"]
    assert kinds("--in", "note", "--in", "prompts") == ["notes", "prompts"]
    assert kinds("--in", "notes", "--tag", "shed") == []
    assert kinds("--in", "media", "--type", "pdf") == []
    assert kinds("--in", "media", "--after", "2999-01-01") == []
    assert kinds("--in", "prompts", "--field", "name") == []
    assert len(kinds("--limit", "1", "--offset", "1")) == 1
    assert "soon" in run("search", "tomatoes", "--after", "soon", fails=True)


def test_items_are_listed_by_kind(run: Any, garden: dict[str, str]) -> None:
    output = run("list", "notes")
    assert "Beds" in output
    assert garden["notes"] in output
    assert output.count("\n") == 1
    assert "video" in run("list", "media")
    result = json.loads(run("list", "characters", "--tag", "farm", "--json"))
    assert [(item["id"], item["tags"], item["version"]) for item in result["items"]] == [
        (garden["characters"], ["farm"], 1)
    ]
    assert run("list", "notes", "--search", "nothing") == ""
    assert "media only" in run("list", "notes", "--type", "pdf", fails=True)
    assert json.loads(run("types", "--json")) == {"types": [{"media_type": "video", "count": 1}]}
    assert "video" in run("types")


def test_items_of_every_kind_can_be_read(run: Any, garden: dict[str, str]) -> None:
    assert "The tomatoes stand in bed four." in run("read", "notes", garden["notes"])
    assert "She grows tomatoes." in run("read", "characters", "rosa")
    assert "Plan the tomatoes." in run("read", "prompt", "Planner")
    note = json.loads(run("read", "notes", garden["notes"], "--json"))
    assert note["content"] == "The tomatoes stand in bed four."
    assert "Note not found: nowhere" in run("read", "notes", "nowhere", fails=True)


def test_a_long_text_is_read_around_a_match_or_in_parts(run: Any) -> None:
    text = (
        " ".join(f"Sentence number {n} is about nothing." for n in range(4_000))
        + " Here grow the tomatoes."
    )
    note = json.loads(run("add", "notes", "Long", "--text", text, "--json"))["id"]
    assert "Continue with --offset 100000" in run("read", "notes", note)
    assert "tomatoes" in run("read", "notes", note, "--offset", "100000")
    excerpt = json.loads(run("read", "notes", note, "--query", "tomatoes", "--json"))["content"]
    assert "tomatoes" in excerpt
    wider = json.loads(
        run("read", "notes", note, "--query", "tomatoes", "--max-tokens", "900", "--json")
    )["content"]
    assert len(excerpt) < len(wider) <= 3_600
    assert run("read", "notes", note, "--mode", "snippet").count("Sentence") < 20


def test_a_transcript_is_printed_or_written(
    run: Any, garden: dict[str, str], tmp_path: Path
) -> None:
    assert run("transcript", garden["media"]) == "Water the tomatoes early.\nNever at noon.\n"
    assert "00:01:10" in run("transcript", garden["media"], "--timestamps")
    transcript_json = json.loads(run("transcript", garden["media"], "--format", "json"))
    assert transcript_json["segments"][1]["text"] == "Never at noon."
    target = tmp_path / "out.srt"
    run("transcript", garden["media"], "--format", "srt", "--output", str(target))
    assert target.read_text() == SRT


def test_stored_items_cannot_control_the_terminal(run: Any) -> None:
    note = json.loads(
        run("add", "notes", "A\x1b[31mred", "--text", "tomatoes \x1b]0;title\x07 [bold]x", "--json")
    )["id"]
    for output in (run("search", "tomatoes"), run("read", "notes", note), run("list", "notes")):
        assert "\x1b[31m" not in output
        assert "\x07" not in output
    assert "[bold]x" in run("read", "notes", note)


# -- writing -------------------------------------------------------------------


def test_content_comes_from_options_files_or_standard_input(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Added Compost, version 1." in run("add", "notes", "--text", "# Compost\nTurn it.")
    (tmp_path / "idea.md").write_text("An idea.", encoding="utf-8-sig")
    note = json.loads(run("add", "notes", "Idea", "--file", str(tmp_path / "idea.md"), "--json"))[
        "id"
    ]
    assert json.loads(run("read", "notes", note, "--json"))["content"] == "An idea."
    monkeypatch.setattr(sys, "stdin", pipe("From a pipe."))
    note = json.loads(run("add", "notes", "Piped", "--json"))["id"]
    assert json.loads(run("read", "notes", note, "--json"))["content"] == "From a pipe."
    (tmp_path / "rosa.txt").write_text("She grows things.")
    run(
        "add",
        "characters",
        "Rosa",
        "--set",
        f"description=@{tmp_path / 'rosa.txt'}",
        "--set",
        'alternate_greetings=["Hi"]',
    )
    rosa = json.loads(run("read", "characters", "Rosa", "--json"))["content"]
    assert (rosa["description"], rosa["alternate_greetings"]) == ("She grows things.", "Hi")


def test_invalid_writes_are_errors(run: Any, garden: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\xff\xfe\xfa")
    for arguments, error in (
        (("add", "notes"), "needs a title or a content"),
        (("add", "prompts", "P", "--text", "x"), "--set user_prompt=@FILE"),
        (("add", "prompts", "--set", "user_prompt=x"), "needs a name"),
        (("add", "notes", "N", "--set", "colour=red"), "no field 'colour'"),
        (("add", "notes", "N", "--set", "title"), "FIELD=VALUE"),
        (("add", "notes", "N", "--file", str(tmp_path / "x.bin")), "UTF-8"),
        (("add", "notes", "N", "--file", str(tmp_path / "nowhere")), "cannot be read"),
        (
            ("delete", "notes", garden["notes"], "--yes", "--keep", str(tmp_path / "no/where")),
            "cannot be written",
        ),
        (("add", "characters", "N", "--set", "card=x"), "JSON"),
        (("edit", "notes", garden["notes"]), "nothing to change"),
        (("edit", "notes", "nowhere", "--title", "x"), "Note not found"),
        (("delete", "notes", garden["notes"]), "--yes"),
    ):
        assert error in run(*arguments, fails=True)
    assert "The tomatoes stand" in run("read", "notes", garden["notes"])
    with pytest.raises(SystemExit):
        run("add", "chats", "x")


def test_an_edit_changes_only_the_given_fields(run: Any, garden: dict[str, str]) -> None:
    assert "Changed Beds, version 2." in run("edit", "notes", garden["notes"], "--tag", "soil")
    result = json.loads(
        run("edit", "notes", garden["notes"], "--title", "New", "--version", "2", "--json")
    )
    assert (result["title"], result["tags"], result["version"]) == ("New", ["soil"], 3)
    assert "The tomatoes stand" in run("read", "notes", garden["notes"])
    error = run("edit", "notes", garden["notes"], "--text", "Mine.", "--version", "2", fails=True)
    assert "version 3" in error
    saved_file = Path(error.partition("Your text was saved to ")[2].strip().removesuffix("."))
    assert saved_file.read_text() == "Mine."
    saved_file.unlink()


@pytest.mark.full
def test_an_editor_opens_in_a_terminal(
    run: Any, garden: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert "EDITOR" in run("add", "notes", "Journal", fails=True)
    monkeypatch.setenv("EDITOR", editor(tmp_path, "file.write_text(file.read_text() + ' More.')"))
    note = json.loads(run("add", "notes", "Journal", "--json"))["id"]
    assert json.loads(run("read", "notes", note, "--json"))["content"] == " More."
    run("edit", "notes", garden["notes"])
    assert "four. More." in run("read", "notes", garden["notes"])
    monkeypatch.setenv(
        "EDITOR", editor(tmp_path, "file.write_text(file.read_text().replace('Never', 'Only'))")
    )
    run("edit", "media", garden["media"])
    edited_srt = run("transcript", garden["media"], "--format", "srt")
    assert edited_srt.rstrip() == SRT.replace("Never", "Only").rstrip()
    monkeypatch.setenv("EDITOR", editor(tmp_path, "pass"))
    run("edit", "media", garden["media"])
    monkeypatch.setenv("EDITOR", editor(tmp_path, "sys.exit(1)"))
    assert "Nothing was changed" in run("edit", "media", garden["media"], fails=True)
    assert json.loads(run("read", "media", garden["media"], "--json"))["meta"]["version"] == 2


# -- deleting and exporting ------------------------------------------------------


def test_delete_asks_first_and_the_backup_can_be_imported(
    run: Any, garden: dict[str, str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert "Nothing was deleted" in run("delete", "notes", garden["notes"], fails=True)
    backup = tmp_path / "kept.json"
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert f"recollect import {backup}" in run(
        "delete", "notes", garden["notes"], "--keep", str(backup)
    )
    assert "not found" in run("read", "notes", garden["notes"], fails=True)
    assert main(["import", str(backup), "--home", place]) == 0
    assert "The tomatoes stand in bed four." in run("read", "notes", garden["notes"])
    deletion = json.loads(run("delete", "prompts", "Planner", "--yes", "--json"))
    assert deletion["deleted"] == garden["prompts"]


def test_every_kind_is_exported_in_every_format(
    run: Any, garden: dict[str, str], tmp_path: Path
) -> None:
    for kind, formats in FORMATS.items():
        for format in formats:
            target = tmp_path / f"{kind}.{format}"
            run("export", kind, garden[kind], "--format", format, "--output", str(target))
            assert target.stat().st_size > 20
    assert "title: Beds" in run("export", "notes", garden["notes"])
    assert run("export", "media", garden["media"], "--format", "srt") == SRT
    assert "is not one of" in run("export", "notes", garden["notes"], "--format", "png", fails=True)
