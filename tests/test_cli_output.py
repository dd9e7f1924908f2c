"""Where the output of commands goes: encodings, files, pipes; and arguments that would be lost."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recollect.cli import main

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run_with_conversation(run: Any, tmp_path: Path) -> Any:
    message = {"id": "m", "role": "user", "content": "zebra \ud800 日本 “x” …"}
    conversation = {"id": "c1", "title": "Zebras – “x”", "messages": [message]}
    (tmp_path / "x.json").write_text(json.dumps({"conversations": [conversation]}))
    run("import", str(tmp_path / "x.json"), "--no-index")
    return run


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_text_that_a_terminal_cannot_show_is_printed_with_question_marks(
    run_with_conversation: Any, place: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (
        ["search", "zebra"],
        ["list"],
        ["read", "c1"],
        ["export", "c1", "--format", "md"],
        ["rename", "c1", "“y”"],
    ):
        output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", output)
        assert main([*words, "--home", place], words[0]) == 0
        output.flush()
        assert b"?" in output.buffer.getvalue() or encoding == "utf-8"  # type: ignore[attr-defined]


# -- exports ---


def test_an_export_to_a_dash_is_printed(
    run_with_conversation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(run_with_conversation("export", "--output", "-"))["conversations"]
    assert run_with_conversation("export", "c1", "--format", "md", "-o", "-").startswith("# ")
    assert "folder" in run_with_conversation("export", "--format", "md", "-o", "-", fails=True)
    assert not (tmp_path / "-").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_an_export_that_fails_leaves_no_file(run: Any, place: str, tmp_path: Path) -> None:
    import resource

    message = {"id": "m", "role": "user", "content": "zebra " * 30_000}
    conversation = {"id": "c1", "title": "Zebras", "messages": [message]}
    (tmp_path / "x.json").write_text(json.dumps({"conversations": [conversation]}))
    run("import", str(tmp_path / "x.json"), "--no-index")
    target = tmp_path / "out" / "library.json"
    target.parent.mkdir()
    process = subprocess.run(
        [sys.executable, "-m", "recollect", "export", "-o", str(target), "--home", place],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert process.returncode == 1
    assert process.stderr.startswith("recollect: ")
    assert list(target.parent.iterdir()) == []


def test_conversations_with_similar_ids_are_exported_to_files_of_their_own(
    run: Any, tmp_path: Path
) -> None:
    ids = ["a:b", "a-b", "a/b", "A b", f"{'x' * 70}1", f"{'x' * 70}2"]
    conversations = [
        {"id": id_, "title": "Same", "messages": [{"id": "m", "role": "user", "content": id_}]}
        for id_ in ids
    ]
    (tmp_path / "x.json").write_text(json.dumps({"conversations": conversations}))
    run("import", str(tmp_path / "x.json"), "--no-index")
    run("export", "--format", "txt", "--output", str(tmp_path / "out"))
    texts = [path.read_text() for path in (tmp_path / "out").iterdir()]
    assert len(texts) == len(ids)
    assert all(any(id_ in text for text in texts) for id_ in ids)
    names = {path.name.casefold() for path in (tmp_path / "out").iterdir()}
    assert len(names) == len(ids)


# -- paths ---


@pytest.mark.parametrize(
    "words",
    [
        ["import", "~no-such-user/export.zip"],
        ["watch", "--once", "--folder", "~no-such-user"],
        ["backup", "--folder", "~no-such-user/backups"],
        ["export", "--output", "~no-such-user/x.json"],
        ["knowledge", "add", "notes", "--file", "~no-such-user/x.md"],
        ["import", ""],
        ["import", " "],
    ],
)
def test_a_path_that_makes_no_sense_is_reported_in_a_sentence(
    run_with_conversation: Any, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run_with_conversation(*words, fails=True).startswith("recollect: ")
    assert list(Path().iterdir()) == []
    assert json.loads(run_with_conversation("stats", "--json"))["imports"] == 1


def test_an_empty_home_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(EXAMPLES / "codex"), "--home", ""], "import") == 1
    assert capsys.readouterr().err.startswith("recollect: A path is empty.")
    assert list(tmp_path.iterdir()) == []


# -- importing ---


def test_paths_are_refused_where_they_would_be_ignored(run: Any) -> None:
    run("import", str(EXAMPLES / "codex"), "--no-index")
    for words in (["--undo", "1", "2"], ["--list", "x.zip"], ["--undo", "1", "--list"]):
        assert "recollect: " in run("import", *words, fails=True)
    assert json.loads(run("stats", "--json"))["messages"]
