"""The audit log records who did what, in a chain that shows every change."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import recollect
from recollect import Selection
from recollect.errors import RecollectError
from recollect.places import audit_logs, audit_name, record
from recollect.settings import Limits
from recollect.settings import place as settings_place
from recollect.store import audit_files, audit_log
from recollect.store.audit_log import (
    Actor,
    AuditLogs,
    Entry,
    RecordFilter,
    acting,
    newest_records,
)

CANARY = "zebraquagga"


@pytest.fixture
def logs(place: str) -> Iterator[AuditLogs]:
    logs = audit_logs(place)
    yield logs
    logs.flush()


@pytest.fixture
def name(place: str) -> str:
    return audit_name(settings_place(place), None)


def actions(logs: AuditLogs, name: str) -> list[tuple[Any, ...]]:
    records = newest_records(logs, name, RecordFilter(), 100)
    return [(r["action"], r.get("ids"), r.get("count")) for r in reversed(records)]


def test_deletions_are_recorded_without_content(
    library: recollect.Library, logs: AuditLogs, name: str
) -> None:
    messages = [{"id": str(n), "role": "user", "content": f"{CANARY} {n}"} for n in range(3)]
    library.add_conversation("c1", CANARY, messages=messages)
    library.add_conversation("c2", CANARY, messages=messages)
    note = library.knowledge.create("notes", {"title": CANARY, "content": CANARY})
    library.delete_message("c1", "2")
    library.forget(Selection.of(conversations="c1", text=f"{CANARY} 1"))
    library.delete_conversation("c2")
    library.knowledge.delete("notes", note.id)
    assert actions(logs, name) == [
        ("delete", ["c1", "2"], 1),
        ("forget", ["c1"], 1),
        ("delete", ["c2"], 1),
        ("delete", [note.id], 1),
    ]
    assert CANARY not in "".join(r.text for r in logs.records(name))
    assert logs.verify(name).problems == []


def test_a_record_names_the_key_the_interface_and_the_address(
    library: recollect.Library, logs: AuditLogs, name: str
) -> None:
    library.add_conversation("c1")
    with acting(Actor("ann", "3f9a0c21d4e7", "rest", "192.0.2.7")):
        library.delete_conversation("c1")
    (values,) = newest_records(logs, name, RecordFilter(), 1)
    assert (values["by"], values["key"]) == ("ann", "3f9a0c21d4e7")
    assert (values["interface"], values["address"]) == ("rest", "192.0.2.7")


@pytest.mark.parametrize(("choice", "expected"), [("off", 0), ("changes", 1), ("on", 2)])
def test_the_setting_says_what_is_recorded(
    place: str,
    logs: AuditLogs,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    expected: int,
) -> None:
    monkeypatch.setenv("RECOLLECT_AUDIT", choice)
    with recollect.open(place) as library:
        library.add_conversation("c1")
        record(place, None, Entry.of("search", "search"))
        library.delete_conversation("c1")
    assert len(actions(logs, name)) == expected


def fill(place: str, count: int) -> None:
    for number in range(count):
        record(place, None, Entry.of("delete", "conversation", [f"c{number}"]))


@pytest.fixture
def file(tmp_path: Path, name: str, place: str) -> Path:
    """The file of a log with ten records."""
    fill(place, 10)
    return tmp_path / "home" / "audit" / name / "log.jsonl"


SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@SQLITE
def test_files_are_private(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (file.parent, file.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def with_change(lines: list[str]) -> list[str]:
    return [*lines[:4], lines[4].replace(r"\"c4\"", r"\"c5\""), *lines[5:]]


def with_change_and_hash(lines: list[str]) -> list[str]:
    from recollect.store.audit_log import record_hash

    values = json.loads(lines[4])
    values["record"] = values["record"].replace('"c4"', '"c5"')
    values["hash"] = record_hash(values["number"], values["record"])
    return [*lines[:4], json.dumps(values) + "\n", *lines[5:]]


TAMPERING: dict[str, tuple[Any, str]] = {
    "a changed record": (with_change, "record 5: it was changed"),
    "a changed record with its hash": (with_change_and_hash, "record 6: it does not follow"),
    "a removed record": (lambda lines: lines[:3] + lines[4:], "record 4: it is missing"),
    "a line of garbage": (
        lambda lines: [*lines[:3], "x\n", *lines[4:]],
        "record 4: it was changed",
    ),
    "two removed records": (
        lambda lines: lines[:3] + lines[5:],
        "records 4 to 5: they are missing",
    ),
    "exchanged records": (
        lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
        "record 4: it is missing",
    ),
    "a record twice": (
        lambda lines: [*lines[:5], lines[2], *lines[5:]],
        "record 3: it is in the wrong place, after 5",
    ),
    "a missing end": (lambda lines: lines[:7], "the end is missing: the log ends with record 7"),
    "nothing left": (lambda lines: [], "the end is missing: the log ends with record 0"),
}


@SQLITE
@pytest.mark.parametrize("kind", TAMPERING)
def test_tampering_is_found_where_it_happened(
    file: Path, logs: AuditLogs, name: str, kind: str
) -> None:
    assert logs.verify(name).problems == []
    tamper, problem = TAMPERING[kind]
    file.write_text("".join(tamper(file.read_text().splitlines(keepends=True))))
    assert logs.verify(name).problems[0].startswith(problem)


@SQLITE
def test_a_head_that_cannot_be_read_is_reported(file: Path, logs: AuditLogs, name: str) -> None:
    (file.parent / "head.json").write_text("{")
    (problem,) = logs.verify(name).problems
    assert "head.json: it cannot be read" in problem


@SQLITE
def test_a_change_that_is_not_recorded_in_time_is_an_error(
    logs: AuditLogs, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "_WAIT_SECONDS", 0.01)
    is_over = threading.Event()
    monkeypatch.setattr(logs, "write", lambda *_: is_over.wait())
    try:
        with pytest.raises(RecollectError, match="there is no record of it"):
            logs.record(name, Entry.of("delete"))
    finally:
        is_over.set()


@SQLITE
def test_a_head_that_was_written_down_reveals_a_log_that_was_made_anew(
    file: Path, logs: AuditLogs, name: str, place: str
) -> None:
    head = logs.verify(name).head
    for path in file.parent.iterdir():
        path.unlink()
    fill(place, 12)
    assert logs.verify(name).problems == []
    assert "record 10: it is not the record" in logs.verify(name, head).problems[0]


@SQLITE
def test_an_incomplete_last_line_is_replaced(
    file: Path, logs: AuditLogs, name: str, place: str
) -> None:
    with file.open("a") as text:
        text.write('{"number": 11, "rec')
    fill(place, 1)
    result = logs.verify(name)
    assert (result.records, result.problems) == (11, [])


@SQLITE
def test_the_chain_continues_in_the_next_file_and_the_oldest_are_dropped(
    logs: AuditLogs, name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_files, "LIMITS", Limits(audit_bytes=16_000))
    fill(place, 100)
    result = logs.verify(name)
    assert result.problems == []
    assert result.head.number == 100
    assert 1 < result.first < 90
    folder = tmp_path / "home" / "audit" / name
    assert sum(path.stat().st_size for path in folder.glob("log*")) < 20_000


def test_several_writers_make_one_chain(place: str, logs: AuditLogs, name: str) -> None:
    others = [type(logs)(getattr(logs, "_folder", None) or place) for _ in range(3)]
    threads = []
    for writer in others:
        entries = [Entry.of("delete", "", [str(n)]) for n in range(5)]

        def write(writer: AuditLogs = writer, entries: list[Entry] = entries) -> None:
            for entry in entries:
                writer.record(name, entry)

        threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = logs.verify(name)
    assert (result.records, result.problems) == (15, [])


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_the_application_can_neither_change_nor_delete_rows(place: str, name: str) -> None:
    fill(place, 1)
    with psycopg.connect(place) as connection:
        for statement in ("update recollect.audit set record = ''", "delete from recollect.audit"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute("set local role recollect_app")
                connection.execute(statement)


# -- the command ---


def test_the_command_lists_and_verifies(
    library: recollect.Library, run: Any, tmp_path: Path
) -> None:
    library.add_conversation("c1")
    library.delete_conversation("c1")
    run("export", "--output", str(tmp_path / "export.json"))
    listing = json.loads(run("audit", "log", "--json"))["records"]
    assert [values["action"] for values in listing] == ["export", "delete"]
    assert listing[0]["interface"] == "cli"
    assert json.loads(run("audit", "log", "--action", "delete", "--json"))["records"] == listing[1:]
    assert "export" in run("audit", "log")
    assert "unbroken: 2 records" in run("audit", "log", "verify")
    head = run("audit", "log", "head").split()[-1]
    assert "unbroken" in run("audit", "log", "verify", "--head", head)
    wrong = f"7:{head.partition(':')[2]}"
    output = run("audit", "log", "verify", "--head", wrong, "--json", fails=True)
    assert output == ""
