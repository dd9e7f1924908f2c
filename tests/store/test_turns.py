"""Processes that write to one library take turns."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from recollect.model.documents import Document, Passage
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.turns import Turns

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no queue")

HOLD = """
import sys
from pathlib import Path
from recollect.store.sqlite.turns import Turns
with Turns(Path(sys.argv[1])).take(10):
    print("mine", flush=True)
    sys.stdin.read()
"""


def hold_turn_elsewhere(database: Path) -> subprocess.Popen[bytes]:
    """Another process that keeps its turn until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"mine\n"
    return process


def test_a_process_waits_for_the_turn_of_another(tmp_path: Path) -> None:
    database = tmp_path / "library.db"
    other = hold_turn_elsewhere(database)
    turns = Turns(database)
    has_turn = threading.Event()

    def take() -> None:
        with turns.take(30):
            has_turn.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not has_turn.wait(0.05)
    other.communicate()
    assert has_turn.wait(30)
    thread.join()
    turns.close()


def test_the_turn_of_a_killed_process_ends(tmp_path: Path) -> None:
    database = tmp_path / "library.db"
    other = hold_turn_elsewhere(database)
    other.kill()
    other.communicate()
    with closing(Turns(database)) as turns, turns.take(30):
        pass


def test_a_process_that_keeps_its_turn_for_ever_delays_others_but_does_not_stop_them(
    tmp_path: Path,
) -> None:
    database = tmp_path / "library.db"
    other = hold_turn_elsewhere(database)
    with closing(Turns(database)) as turns:
        with turns.take(0.01):
            pass
        other.communicate()
        # The thread that has waited in vain gives up the turn as soon as it gets it.
        with turns.take(30), closing(Turns(database)) as late:
            assert not late._wait(0.01)


def test_a_library_is_written_to_although_its_lock_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "library.db.turn.lock").mkdir()
    with closing(SqliteStore(tmp_path / "library.db")) as store:
        (saved,) = store.save([Document("test", "c", passages=(Passage("m", "user", "hello"),))])
        assert store.document(saved.id).passages[0].content == "hello"
