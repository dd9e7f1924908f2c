"""kill -9 at any point of any command: nothing is lost, and the command can be run again.

Each command runs once without a kill. Then it is killed at points spread over its whole run, in a
fresh copy of the home folder each time. After a kill, every document is either as it was before the
command or as it is after it, the library is healthy, and running the command again leads to the
same end as the run without a kill.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kills import KILLS

import recollect
from recollect.model.kinds import CONVERSATION
from recollect.places import exists, keys

PROGRAM = Path(__file__).with_name("kill_points.py")
SECRET = "sk-proj-" + "a1B2c3D4e5" * 5

Snapshot = dict[str, tuple[object, ...]]
"""Each document of a library, by its kind and title, with its passages."""


@dataclass(frozen=True)
class Operation:
    """A command and what it needs."""

    command: tuple[str, ...]
    prepare: Callable[[Path], None]
    result: str = "home"
    """The folder whose library the command changes or creates."""


def write_export(path: Path, conversations: int, messages: int) -> None:
    records = []
    for c in range(conversations):
        turns = [
            {"id": f"c{c}m{m}", "role": "user", "content": f"word{c}x{m} {SECRET} {'hum ' * 40}"}
            for m in range(messages)
        ]
        records.append({"id": f"c{c}", "title": f"Conversation {c}", "messages": turns})
    path.write_text(json.dumps({"conversations": records}))


def prepare_export(folder: Path) -> None:
    write_export(folder / "export.json", 12, 8)


def prepare_library(folder: Path) -> None:
    write_export(folder / "export.json", 8, 6)
    with recollect.open(folder / "home") as library:
        library.import_path(folder / "export.json")
        library.index()


def prepare_growth(folder: Path) -> None:
    prepare_library(folder)
    write_export(folder / "export.json", 12, 8)


def prepare_backup(folder: Path) -> None:
    prepare_library(folder)
    succeed(folder, *BACKUP)
    with recollect.open(folder / "home") as library:
        library.add_message("c1", "user", "after the first backup", id="late")


def prepare_restore(folder: Path) -> None:
    prepare_library(folder)
    succeed(folder, *BACKUP)


def prepare_damage(folder: Path) -> None:
    prepare_library(folder)
    (database,) = (folder / "home").rglob("library.db")
    data = bytearray(database.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    database.write_bytes(data)


BACKUP = ("backup", "--folder", "backups")
RESTORE = ("restore", "--folder", "backups", "--to", "restored")
ADD_NOTE = ("knowledge", "add", "notes", "Castle", "--text", "a red roof")
OPERATIONS = {
    "import": Operation(("import", "export.json"), prepare_export),
    "import again": Operation(("import", "export.json"), prepare_growth),
    "undo": Operation(("import", "--undo", "1"), prepare_library),
    "index": Operation(("index",), prepare_library),
    "forget messages": Operation(("forget", "--text", "word3x2", "--yes"), prepare_library),
    "forget a conversation": Operation(("forget", "c1", "--yes"), prepare_library),
    "redact": Operation(("redact",), prepare_library),
    "add a note": Operation(ADD_NOTE, prepare_library),
    "add a key": Operation(("keys", "add", "laptop"), prepare_library),
    "repair": Operation(("doctor", "--repair"), prepare_library),
    "backup": Operation(BACKUP, prepare_backup),
    "restore": Operation(RESTORE, prepare_restore, "restored"),
    "salvage": Operation(("salvage", "home", "rescued"), prepare_damage, "rescued"),
    "upload": Operation(("upload", "export.json"), prepare_export),
    "move": Operation(("move", "home", "moved"), prepare_library, "moved"),
}
BY_DEFAULT = ("forget messages",)
ROUNDS = max(1, KILLS // len(OPERATIONS))


def run(folder: Path, point: int, *command: str) -> tuple[int, str]:
    """Run a command in a folder, and kill it at a point. Point 0 does not exist."""
    process = subprocess.run(
        [sys.executable, str(PROGRAM), str(point), *command],
        cwd=folder,
        env=os.environ | {"RECOLLECT_HOME": str(folder / "home"), "RECOLLECT_INDEXING": "manual"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return process.returncode, process.stdout + process.stderr


def succeed(folder: Path, *command: str) -> str:
    code, output = run(folder, 0, *command)
    assert code == 0, output
    return output


def snapshot(home: Path) -> Snapshot:
    if not exists(home):
        return {}
    try:
        library = recollect.open(home)
    except recollect.RecollectError as error:
        # The target of a move or salvage is refused until it is complete.
        assert "was interrupted" in str(error)
        return {}
    with library:
        assert library.verify().healthy
        return {f"{d.kind} {d.title}": passages(d) for d in library.documents()}


def passages(document: recollect.Document) -> tuple[object, ...]:
    if document.kind != CONVERSATION:  # items get new ids
        return tuple(passage.content for passage in document.passages)
    return tuple((passage.id, passage.role, passage.content) for passage in document.passages)


def assert_each_document_is_whole(state: Snapshot, before: Snapshot, after: Snapshot) -> None:
    for name in before.keys() | after.keys() | state.keys():
        assert state.get(name) in (before.get(name), after.get(name)), name


def cases() -> list[object]:
    params = []
    for name in OPERATIONS:
        marks = [] if name in BY_DEFAULT else [pytest.mark.full]
        params.append(pytest.param(name, marks=marks, id=name))
    return params


@pytest.mark.parametrize("name", cases())
def test_a_command_can_be_killed_at_any_point_and_run_again(name: str, tmp_path: Path) -> None:
    operation = OPERATIONS[name]
    origin, end = tmp_path / "origin", tmp_path / "end"
    origin.mkdir()
    operation.prepare(origin)
    before = snapshot(origin / operation.result)
    shutil.copytree(origin, end)
    points = int(succeed(end, *operation.command).split()[-1])
    after = snapshot(end / operation.result)

    rng = random.Random(name)
    for number in range(ROUNDS):
        # One kill in each of ROUNDS equal parts of the run.
        point = 1 + int(points * (number + rng.random()) / ROUNDS)
        folder = tmp_path / f"kill-{number}"
        shutil.copytree(origin, folder)
        code, output = run(folder, point, *operation.command)
        # Threads run in any order, so a run can end before its last points.
        assert code in (-signal.SIGKILL, 0), output
        state = snapshot(folder / operation.result)
        assert_each_document_is_whole(state, before, after)
        if code or name in ("index", "backup"):
            finish(operation, folder, state, after)
        if (folder / "backups").exists():
            succeed(folder, "backup", "verify", "--all", "--folder", "backups")
        shutil.rmtree(folder)


def finish(operation: Operation, folder: Path, state: Snapshot, after: Snapshot) -> None:
    """Run a killed command again, unless it had reached its end: some cannot be repeated."""
    if state != after:
        succeed(folder, *operation.command)
    assert snapshot(folder / operation.result) == after
    with closing(keys(folder / operation.result)) as api_keys:
        api_keys.all_keys()
