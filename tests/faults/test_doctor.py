"""`recollect doctor` finds lost and altered messages, and never reports them as repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import recollect
from recollect import Library
from recollect.cli import main
from recollect.places import library_file
from recollect.store.sqlite.connection import connect
from recollect.transfer.archive import Archive

Doctor = Callable[..., dict[str, Any]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "home")
    url: str = request.getfixturevalue("database")
    return url


@pytest.fixture
def library(home: str, user: str) -> Library:
    """A library with two conversations of three messages."""
    library = recollect.open(home, user, background=False)
    with library:
        for name in ("first", "second"):
            messages = [
                {"id": f"{name}{n}", "role": "user", "content": f"{name} message number {n} here"}
                for n in range(3)
            ]
            library.add_conversation(name, name, messages=messages)
    return library


@pytest.fixture
def doctor(library: Library, home: str, user: str, capsys: pytest.CaptureFixture[str]) -> Doctor:
    def run(*options: str) -> dict[str, Any]:
        status = main(["doctor", "--home", home, "--user", user, "--json", *options])
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert report["healthy"] is (status == 0)
        (record,) = report["libraries"]
        assert isinstance(record, dict)
        return record

    return run


def change(home: str, user: str, sql: str) -> None:
    """Change rows behind the back of the store."""
    if "://" not in home:
        with closing(connect(library_file(Path(home), user))) as db:
            db.execute("pragma foreign_keys = off")
            db.execute(sql)
        return
    with psycopg.connect(home) as server:
        account = "select id from recollect.account where name = %s"
        (owner,) = server.execute(account, [user]).fetchone() or ()
        server.execute(f"set search_path to recollect; set recollect.owner = {owner}")
        server.execute(f"{sql} and owner = {owner}")  # type: ignore[call-overload]


@pytest.mark.both_stores
def test_a_library_without_problems_is_healthy(doctor: Doctor) -> None:
    assert doctor()["healthy"]


def test_a_lost_message_stays_reported_after_a_repair(doctor: Doctor, home: str, user: str) -> None:
    change(home, user, "delete from passage where id = 'first1'")
    (conversation, total, *_) = doctor()["missing"]
    assert conversation == "conversation 'first' has 2 of 3 messages"
    assert "6 messages were counted" in total
    report = doctor("--repair")
    assert conversation in report["missing"]
    assert report["unindexed"] == report["orphaned"] == 0
    assert doctor("--repair")["missing"] == report["missing"]


def test_deleting_a_message_does_not_hide_a_lost_one(doctor: Doctor, home: str, user: str) -> None:
    change(home, user, "delete from passage where id = 'first1'")
    with recollect.open(home, user, background=False) as library:
        library.delete_message("first", "first2")
    assert "conversation 'first' has 1 of 2 messages" in doctor()["missing"]


@pytest.mark.both_stores
def test_an_altered_message_is_found_by_its_digest(doctor: Doctor, home: str, user: str) -> None:
    change(home, user, "update passage set role = 'assistant' where id = 'second2'")
    for options in ((), ("--repair",)):
        (line,) = doctor(*options)["altered"]
        assert line.startswith("message 'second2'") and "checksum" in line


def test_counts_that_are_too_low_are_repaired(doctor: Doctor, home: str, user: str) -> None:
    change(home, user, "update document set passages = 1 where id = 'first'")
    assert doctor()["miscounted"] == 1
    assert doctor("--repair")["healthy"]


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
def test_every_library_of_a_home_is_checked(
    library: Library, home: str, user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with recollect.open(home, "ben", background=False):
        pass
    broken = library_file(Path(home), "carl")
    broken.parent.mkdir()
    broken.write_bytes(b"this is not a database at all" * 100)
    assert main(["doctor", "--home", home, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    states = {Path(record["library"]).parent.name: record for record in report["libraries"]}
    assert len(states) == 3
    assert states["ben"]["healthy"]
    assert "not a database" in states["carl"]["error"]
    assert main(["doctor", "--home", home]) == 1
    output = capsys.readouterr().out
    assert f"recollect salvage {broken}" in output and "recollect restore" in output
    assert "Run `recollect doctor`" not in output


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("content", "problem"), [(b"", "is empty"), (b"no database" * 999, "cannot be read")]
)
def test_damaged_api_keys_are_reported(
    library: Library,
    home: str,
    content: bytes,
    problem: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (Path(home) / "keys.db").write_bytes(content)
    assert main(["doctor", "--home", home, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert problem in report["keys"][0]
    assert (Path(home) / "keys.db").read_bytes() == content


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
def test_damaged_copies_of_transcripts_are_reported(
    doctor: Doctor, home: str, user: str, tmp_path: Path
) -> None:
    name = library_file(Path(home), user).parent.name
    with closing(Archive(Path(home) / "archive" / name)) as archive:
        for n in range(3):
            transcript = tmp_path / f"{n}.jsonl"
            transcript.write_text('{"text": "hello"}\n' * 100)
            archive.keep(transcript, f"tool/{n}", [("test", f"c{n}")])
        assert doctor()["archive"] == []
        damaged, missing, _ = [file.path for file in archive.files()]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    missing.unlink()
    problems = doctor()["archive"]
    assert len(problems) == 2
    assert "is damaged" in problems[0] and "is missing" in problems[1]


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
def test_an_unfinished_move_is_not_reported_as_damage(
    library: Library, home: str, user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(home, user, "insert into derived values ('moving', 1)")
    assert main(["doctor", "--home", home]) == 1
    output = capsys.readouterr().out
    assert "incomplete" in output and "salvage" not in output
