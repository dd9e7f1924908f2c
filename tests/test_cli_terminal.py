"""The command line as people use it: numbers, short ids, suggestions, terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from selection import few

import recollect
from recollect import Document, Passage
from recollect.cli import main
from recollect.home_folder import RESULTS
from recollect.model.documents import arrange

FIRST = "7cdb59db-3d35-494c-9373-b3219c545e51"
SECOND = "7cdb59aa-0000-494c-9373-b3219c545e52"
ANSWER = "# Fixed\n\nUse **WAL** mode:\nList<String>\n\n```sql\npragma journal_mode = wal\n```\n"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of commands is a terminal with 80 columns, without a pager."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "cat")


@pytest.fixture
def plain_run(run: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Like `run`, with the output as a person sees it: without the codes for bold and dim."""
    is_terminal = "terminal" in request.fixturenames

    def command(*arguments: str, fails: bool = False) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
        return re.sub(r"\x1b\[[0-9;]*m", "", run(*arguments, fails=fails))

    return command


@pytest.fixture
def filled_run(plain_run: Any, place: str) -> Any:
    with recollect.open(place) as library:
        for id_, title in ((FIRST, "The logger is locked"), (SECOND, "A long title " * 12)):
            library.add_conversation(
                id_,
                title,
                project="/home/me/dewdrop",
                metadata={"tags": ["work"]},
                messages=[
                    {"id": f"{id_}-q", "role": "user", "content": "Why is the logger locked?"},
                    {
                        "id": f"{id_}-call",
                        "role": "assistant",
                        "type": "tool_call",
                        "tool": "shell",
                        "content": "grep -rn timeout",
                    },
                    {
                        "id": f"{id_}-result",
                        "role": "tool",
                        "type": "tool_result",
                        "content": "one\ntwo secret lines",
                    },
                    {"id": f"{id_}-a", "role": "assistant", "content": ANSWER},
                ],
            )
    return plain_run


def lines_are_short(output: str, width: int = 80) -> bool:
    return max(map(len, output.splitlines())) <= width


# -- numbers and ids -----------------------------------------------------------


@pytest.mark.both_stores
@pytest.mark.usefixtures("terminal")
def test_a_number_refers_to_the_last_list_or_search(filled_run: Any) -> None:
    listing = filled_run("list")
    assert " 1  7cdb59" in listing and " 2  7cdb59" in listing
    ids = [word for word in listing.split() if word.startswith("7cdb59")]
    assert sorted(ids) == [SECOND[:8], FIRST[:8]]
    for number, id_ in enumerate(ids, 1):
        conversation = json.loads(filled_run("read", str(number), "--json"))
        assert conversation["id"].startswith(id_)
    filled_run("search", "logger locked", "--conversation", FIRST, "--mode", "text")
    assert json.loads(filled_run("read", "1", "--json"))["id"] == FIRST
    assert json.loads(filled_run("related", "1", "--json"))["total"] >= 1


def test_a_number_without_a_list_or_out_of_range_is_an_error(filled_run: Any) -> None:
    assert "nothing was searched or listed yet" in filled_run("read", "1", fails=True)
    filled_run("list")
    assert "The last search or list has 2 results." in filled_run("read", "3", fails=True)
    assert "There is no result 0." in filled_run("read", "0", fails=True)
    filled_run("search", "logger", "--json")
    assert json.loads(filled_run("read", "2", "--json"))["id"], "JSON does not change the numbers"


def test_numbers_are_stored_for_each_library_and_only_for_its_owner(
    filled_run: Any, place: str, user: str
) -> None:
    filled_run("list")
    with recollect.open(place, f"{user}-other") as library:
        library.add_conversation("c")
    other = ["--user", f"{user}-other"]
    assert "nothing was searched" in filled_run("read", "1", *other, fails=True)
    if not place.startswith("postgresql"):
        (file,) = (Path(place) / RESULTS).iterdir()
        assert file.stat().st_mode & 0o077 == 0


def test_the_beginning_of_an_id_is_enough_if_it_is_unique(filled_run: Any) -> None:
    assert json.loads(filled_run("read", FIRST[:8], "--json"))["id"] == FIRST
    assert "Several ids begin with" in filled_run("read", FIRST[:6], fails=True)


# -- terminals and pipes ---------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_results_are_grouped_by_conversation_at_a_terminal(filled_run: Any) -> None:
    output = filled_run("search", "logger sql", "--mode", "text")
    assert output.count("The logger is locked") == 1
    assert " dewdrop" in output and FIRST[:8] in output and FIRST not in output
    assert "2 conversations\n" in output and "recollect read 1" in output
    assert lines_are_short(output)


@pytest.mark.parametrize("words", (["--project", "Dewdrop"], ["in:dewdrop"]))
def test_a_project_is_named_by_its_folder(filled_run: Any, words: list[str]) -> None:
    output = filled_run("search", "logger", *words, "--json")
    assert "/home/me/dewdrop" in output
    assert "/home/me/dewdrop" not in filled_run("search", "logger -in:dewdrop", "--json")


def test_pipes_get_messages_and_lines_with_whole_ids(filled_run: Any) -> None:
    output = filled_run("search", "why logger", "--mode", "text", "--limit", "1")
    assert f"recollect read {FIRST} --message {FIRST}-q" in output or SECOND in output
    fields = [line.split("\t") for line in filled_run("list").splitlines()]
    assert {row[0] for row in fields} == {FIRST, SECOND}
    assert {len(row) for row in fields} == {5}
    assert {row[2] for row in fields} == {"4"}


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("width", few(range(30, 81, 5), 4))
def test_a_list_shows_titles_on_a_narrow_terminal(
    filled_run: Any, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    output = filled_run("list")
    assert "The logger is locked" in output and "A long title" in output
    assert lines_are_short(output, width)
    assert ("messages" in output) == (width >= 60)
    assert (FIRST[:6] in output) == (width >= 50)


@pytest.mark.usefixtures("terminal")
def test_read_renders_markdown_and_folds_tools(filled_run: Any) -> None:
    output = filled_run("read", FIRST)
    assert "**WAL**" not in output and "```" not in output
    assert "List<String>" in output and "pragma journal_mode = wal" in output
    assert "▸ shell grep -rn timeout" in output and "↳ 2 lines: one two" in output
    assert "--tools shows them" in output
    assert "\ntwo secret lines" in filled_run("read", FIRST, "--tools")


@pytest.mark.usefixtures("terminal")
def test_read_starts_shortly_before_the_hit(plain_run: Any, place: str) -> None:
    passages = tuple(
        Passage(f"m{n}", "user", f"line {n}." + (" zebra" if n == 230 else "")) for n in range(300)
    )
    with recollect.open(place) as library:
        library._store.save([arrange(Document("recollect", "long", "Long", passages=passages))])
    plain_run("search", "zebra")
    output = plain_run("read", "1")
    assert "From message 229 of 300" in output
    assert "line 227." not in output and "▶ user" in output
    assert "line 299." in output, "all that follows is shown, page by page"


@pytest.mark.full
def test_a_long_conversation_is_shown_in_a_pager(filled_run: Any, place: str) -> None:
    """In a real terminal: the pager gets the conversation, and may quit before its end."""
    script = "import sys; print('PAGED', len(sys.stdin.readline()) > 0)"
    environment = os.environ | {"PAGER": f'{sys.executable} -c "{script}"', "COLUMNS": "80"}
    command = [sys.executable, "-m", "recollect", "read", FIRST, "--home", place]
    parent, child = pty.openpty()
    process = subprocess.Popen(command, stdout=child, stdin=child, stderr=child, env=environment)
    os.close(child)
    output = b""
    while True:
        try:
            data = os.read(parent, 4096)
        except OSError:  # the terminal is closed
            break
        if not data:
            break
        output += data
    assert process.wait() == 0, output
    assert b"PAGED True" in output and b"Traceback" not in output


def test_help_fits_into_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], ["search"], ["list"], ["read"], ["delete"], ["import"], ["service"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        for line in capsys.readouterr().out.splitlines():
            assert len(line) <= 80 or "recollect " in line, line


def test_a_conversation_is_exported_by_its_number(filled_run: Any) -> None:
    first = filled_run("list").split("\t")[0]
    assert json.loads(filled_run("export", "1"))["id"] == first


# -- suggestions and validation --------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serch", "x"], "There is no command 'serch'. Did you mean `recollect search`"),
        (["rm", "x"], "Did you mean `recollect delete`?"),
        (["list", "--limt", "3"], "`recollect list` has no option --limt. Did you mean --limit?"),
        (["list", "extra"], "`recollect list` does not take 'extra'."),
        (["knowledge", "serch"], "Did you mean `recollect knowledge search`?"),
        (["knowledge", "list", "notes", "--tga", "x"], "Did you mean --tag?"),
        (["search", "x", "-role:tool"], "Put a query with a minus in quotes: 'words -role:tool'"),
        (["search", "x", "-staging"], "Put a query with a minus in quotes: 'words -staging'"),
        (["search", "x", "--mode", "txt"], "Did you mean `text`?"),
        (["search", "x", "--limit", "0"], "must be a whole number from 1 to 200, not '0'"),
        (["list", "--limit", "many"], "must be a whole number from 1 to 200, not 'many'"),
        (["list", "--offset", "-1"], "must be a whole number of at least 0, not '-1'"),
    ],
)
def test_a_wrong_word_is_an_error_with_a_suggestion(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments, arguments[0])
    assert end.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--role", "asistant"], "no role 'asistant'. The roles are: assistant, "),
        (["--source", "chat-gpt"], "no source 'chat-gpt'. The sources are: chatgpt, "),
        (["--project", "dew"], "no project 'dew'. The projects are: /home/me/dewdrop."),
        (["--tag", "wrk"], "no tag 'wrk'. The tags are: work."),
    ],
)
def test_unknown_names_are_errors_that_list_the_closest_first(
    filled_run: Any, option: list[str], message: str
) -> None:
    assert message in filled_run("search", "logger", *option, fails=True)
    if option[0] != "--role":
        assert message in filled_run("list", *option, "--json", fails=True)


# -- the state of the library ----------------------------------------------------


def test_without_a_command_the_state_of_the_library_is_shown(run: Any, place: str) -> None:
    assert "recollect setup" in run()
    with recollect.open(place) as library:
        library.add_conversation("c", messages=[{"role": "user", "content": "hello"}])
    output = run()
    assert "1 conversation, 1 message\n" in output
    assert "Last import" in output and "none" in output
    assert "recollect search WORDS" in output and "recollect --help" in output


@pytest.mark.full
def test_an_interrupted_import_is_listed_as_stopped_with_the_command_to_resume(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "my talks.json"
    messages = [{"id": "m", "role": "user", "content": "zebra"}]
    path.write_text(json.dumps({"conversations": [{"id": "c1", "messages": messages}]}))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("recollect.transfer.importing._Run.take", interrupt)
        assert "Interrupted" in run("import", str(path), fails=True)
    listing = run("import", "--list")
    assert "stopped" in listing and f"Resume it with: recollect import '{path}'" in listing
    assert "(stopped)" in run() and "recollect import --list" in run()
    run("import", str(path))
    assert "complete" in run("import", "--list")
