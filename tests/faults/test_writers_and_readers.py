"""Eight writers and sixteen readers in several processes: nothing is lost, and nobody fails.

SECONDS sets how long they work. `python -m bench.contention` prints how long each write takes.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from bench.contention import measure
from recollect import Document, Passage
from recollect.store.sqlite import SqliteStore, transactions
from recollect.store.sqlite.transactions import Connections

SECONDS = float(os.environ.get("SECONDS", "0.5"))


@pytest.mark.full
def test_no_acknowledged_message_is_lost(tmp_path: Path) -> None:
    figures = measure(tmp_path / "home", SECONDS, processes=2, writers=8, readers=8)
    assert figures["lost"] == 0
    assert figures["errors"] == 0, figures["first_error"]
    assert figures["acknowledged"] >= 8


def test_threads_take_short_turns_while_one_of_them_writes(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    with closing(SqliteStore(tmp_path / "library.db")) as store:
        interval = store._write(lambda db: sys.getswitchinterval())
    assert interval < before
    assert sys.getswitchinterval() == before


def test_the_log_is_copied_into_the_database_outside_of_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_PAGES_PER_CHECKPOINT", 1)
    with closing(SqliteStore(tmp_path / "library.db")) as store:
        document = Document("test", "c1", passages=(Passage("m1", "user", "x" * 500_000),))
        (saved,) = store.save([document])
        store._connections._checkpoint()
        with store._connections._checkpoint_lock:
            assert store._connections._copied_pages == store._connections._log_pages > 0
        assert store.append(saved.id, Passage("m2", "user", "again"))


@pytest.mark.full
def test_the_log_stays_small_although_there_is_a_reader_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_PAGES_PER_CHECKPOINT", 20)
    monkeypatch.setattr(transactions, "_MAX_LOG_PAGES", 40)
    # On a busy machine, it may take some time until the readers have finished.
    monkeypatch.setattr(transactions, "_RESTART_PATIENCE", 30.0)
    is_finished = threading.Event()
    with closing(SqliteStore(tmp_path / "library.db")) as store:
        (saved,) = store.save([Document("test", "c1", passages=(Passage("m", "user", "first"),))])
        connections = store._connections
        thread = threading.Thread(target=_read_without_a_pause, args=(connections, is_finished))
        thread.start()
        for number in range(100):
            text = os.urandom(20_000).hex()
            store.append(saved.id, Passage(f"m{number}", "user", text))
            if connections._log_pages >= 40:
                connections._checkpoint()
        is_finished.set()
        thread.join()
        log_bytes = (tmp_path / "library.db-wal").stat().st_size
    assert log_bytes < 250 * 8192


def _read_without_a_pause(connections: Connections, is_finished: threading.Event) -> None:
    """Begin each reading transaction before the one before it ends."""
    with ExitStack() as last:
        while not is_finished.is_set():
            with ExitStack() as stack:
                reader = stack.enter_context(connections.read())
                reader.get("select count(*) from document")
                last.close()
                last.push(stack.pop_all())
