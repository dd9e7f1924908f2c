"""The command line as a person and as a program use it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from recollect.cli import main
from recollect.places import open_existing

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(place: str, capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str, fails: bool = False) -> str:
        code = main([*arguments, "--home", place])
        out, err = capsys.readouterr()
        assert bool(code) == fails, err
        return err if fails else out

    return command


@pytest.fixture
def filled(run: Any) -> Any:
    run("import", *(str(p) for p in EXAMPLES.iterdir() if p.is_dir()))
    return run


def test_import_prints_a_receipt_for_people_and_for_programs(run: Any) -> None:
    assert "Receipt 1" in run("import", str(EXAMPLES / "chatgpt"))
    again = json.loads(run("import", str(EXAMPLES / "chatgpt"), "--json"))
    assert (again["id"], again["files"][0]["messages"]["new"]) == (2, 0)
    assert again["files"][0]["messages"]["same"] > 0


def test_search_prints_hits_and_a_total(filled: Any) -> None:
    found = json.loads(filled("search", "event", "loop", "--json"))
    assert found["total"] == len(found["hits"]) >= 1
    assert {"message_id", "conversation_id", "score", "snippet"} <= found["hits"][0].keys()
    assert "recollect read" in filled("search", "event loop")
    assert "No messages match" in filled("search", "xyzzyplugh")


def test_filters_work_from_the_command_line(filled: Any) -> None:
    everything = json.loads(filled("search", "the", "--json", "--limit", "200"))
    mine = json.loads(
        filled("search", "the", "--role", "user", "--source", "chatgpt", "--json", "--limit", "200")
    )
    assert 0 < mine["total"] < everything["total"]
    assert {(h["role"], h["source"]) for h in mine["hits"]} == {("user", "chatgpt")}
    assert json.loads(filled("search", "the", "--before", "1999-01-01", "--json"))["total"] == 0


def test_stats_count_conversations_and_messages(filled: Any) -> None:
    stats = json.loads(filled("stats", "--json"))
    assert stats["conversations"] >= 5
    assert stats["messages"] > stats["conversations"]
    assert "conversations" in filled("stats")


def test_list_and_read_show_what_is_there(filled: Any) -> None:
    listed = json.loads(filled("list", "--json"))
    assert listed["total"] == len(listed["conversations"])
    first = listed["conversations"][0]
    assert first["title"][:20] in filled("list")
    assert json.loads(filled("read", first["id"], "--json"))["messages"]
    assert filled("read", first["id"])


@pytest.mark.both_stores
def test_read_shows_a_hit_in_its_place(filled: Any) -> None:
    hit = json.loads(filled("search", "asyncio", "--json"))["hits"][0]
    shown = filled("read", hit["conversation_id"], "--message", hit["message_id"], "--around", "0")
    assert "▶" in shown
    assert "no message 'ghost'" in filled(
        "read", hit["conversation_id"], "--message", "ghost", fails=True
    )


def test_an_export_comes_back_without_loss(filled: Any, user: str, tmp_path: Path) -> None:
    whole = tmp_path / "library.json"
    filled("export", "--output", str(whole))
    filled("import", str(whole), "--user", f"{user}-other")
    again = tmp_path / "again.json"
    filled("export", "--output", str(again), "--user", f"{user}-other")
    assert json.loads(again.read_text()) == json.loads(whole.read_text())


def test_one_conversation_is_exported_in_every_format(filled: Any, tmp_path: Path) -> None:
    id = json.loads(filled("list", "--json"))["conversations"][0]["id"]
    assert json.loads(filled("export", id))["id"] == id
    assert filled("export", id, "--format", "txt").startswith("Conversation: ")
    assert filled("export", id, "--format", "md").startswith("# ")
    filled("export", "--format", "md", "--output", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").glob("*.md"))) >= 5
    assert "--output" in filled("export", "--format", "txt", fails=True)


def test_an_import_is_listed_and_taken_back(filled: Any) -> None:
    assert "complete" in filled("import", "--list")
    filled("import", "--undo", "1")
    assert json.loads(filled("stats", "--json"))["messages"] == 0
    assert json.loads(filled("import", "--list", "--json"))["receipts"][0]["undone_at"]
    assert "undone" in filled("import", "--undo", "1", fails=True)


def damage_the_index(place: str, user: str) -> None:
    """Take everything out, and leave something in that should not be there."""
    if "://" in place:
        with psycopg.connect(place) as server:
            (owner,) = (
                server.execute(
                    "select id from recollect.account where name = %s", [user]
                ).fetchone()
                or ()
            )
            server.execute("delete from recollect.passage_text where owner = %s", [owner])
            server.execute(
                "insert into recollect.passage_text (owner, key, document, hidden, opening, sure, whole, length, words)"
                " values (%s, 999999, 1, false, false, true, true, 2, 'left over')",
                [owner],
            )
        return
    (path,) = Path(place).rglob("library.db")
    with closing(apsw.Connection(str(path))) as db:
        db.execute("insert into passage_text (passage_text) values ('delete-all')")
        db.execute(
            "insert into passage_text (rowid, title, content) values (999999, '', 'left over')"
        )


def test_doctor_says_that_everything_agrees_or_what_does_not(
    filled: Any, place: str, user: str
) -> None:
    assert "No problems found" in filled("doctor")
    damage_the_index(place, user)
    filled("doctor", fails=True)
    assert json.loads(filled("doctor", "--repair", "--json"))["healthy"]
    assert json.loads(filled("search", "event loop", "--json"))["total"] >= 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["import"], "Give a file or folder"),
        (["import", "/nowhere/at/all"], "Cannot read"),
        (["search", "x"], "Import something first"),
        (["read", "x"], "Import something first"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(
    run: Any, arguments: list[str], complaint: str
) -> None:
    assert complaint in run(*arguments, fails=True)


def test_reading_never_creates_a_library(run: Any, place: str) -> None:
    run("stats", fails=True)
    assert open_existing(place) is None
    assert not Path(place).exists()


def test_a_bad_date_is_named(filled: Any) -> None:
    assert "'soon' is not a date" in filled("search", "x", "--after", "soon", fails=True)


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
    for shown in (run("search", "zebra"), run("read", "c1"), run("list")):
        assert not set(shown) & set("\x1b\x07\u202e")
        assert "[bold]markup[/]" in shown


def test_lone_surrogates_are_printed_as_json(run: Any, tmp_path: Path) -> None:
    message = {"id": "m", "role": "user", "content": "zebra \ud800 x"}
    (tmp_path / "x.json").write_text(
        json.dumps({"conversations": [{"id": "c1", "title": "t", "messages": [message]}]})
    )
    run("import", str(tmp_path / "x.json"))
    assert json.loads(run("read", "c1", "--json"))["messages"][0]["content"] == "zebra \ud800 x"
    run("read", "c1")


def test_bytes_that_are_no_text_do_no_harm_in_an_argument(filled: Any) -> None:
    bad = b"\xff".decode("utf-8", "surrogateescape")
    assert json.loads(filled("list", "--search", bad, "--json"))["total"] == 0
    assert json.loads(filled("search", "event loop", "--author", bad, "--json"))["total"] == 0
    assert "recollect: " in filled("read", bad, fails=True)
    assert "recollect: " in filled("stats", "--user", bad, fails=True)


def test_the_home_may_be_said_before_the_command_or_after_it(
    filled: Any, place: str, user: str
) -> None:
    home = ["--home", place]
    assert main([*home, "stats"]) == main(["stats", *home]) == 0
    assert main([*home, "--user", f"ann-{user}", "stats"]) == 1
    for arguments in ([*home, "mcp"], ["mcp", *home]):
        command = [sys.executable, "-m", "recollect", *arguments]
        done = subprocess.run(
            command,
            input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
            capture_output=True,
            text=True,
        )
        assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.both_stores
def test_it_runs_as_a_program(place: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "--help"], capture_output=True, text=True, check=True
    )
    assert "recollect import" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "search", "x", "--home", place],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("recollect: There is no library")
