"""A commit is acknowledged when it is on the disk, and nobody else waits for that."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from recollect import Document, Passage
from recollect.errors import RecollectError, StorageFull
from recollect.store.sqlite import SqliteStore, transactions

Flush = Callable[[int], None]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "library.db")) as store:
        store.save([Document("test", "c", id="c")])
        yield store


@pytest.fixture
def flush_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Flush], None]:
    return lambda flush: monkeypatch.setattr(transactions, "_flush", flush)


def append(store: SqliteStore, id: str) -> None:
    store.append("c", Passage(id, "user", "text"))


def ids(store: SqliteStore) -> list[str]:
    return [passage.id for passage in store.document("c").passages]


class Writer(threading.Thread):
    """Appends a message in a thread of its own."""

    def __init__(self, store: SqliteStore, id: str) -> None:
        super().__init__()
        self.store = store
        self.id = id
        self.error: RecollectError | None = None
        self.start()

    def run(self) -> None:
        try:
            append(self.store, self.id)
        except RecollectError as error:
            self.error = error

    def wait_for_commit(self) -> None:
        while self.id not in ids(self.store):
            pass


class Disk:
    """Stops at its first flush until it may continue, which may be an error."""

    def __init__(self) -> None:
        self.flushes = 0
        self.is_flushing = threading.Event()
        self.may_continue = threading.Event()
        self.error: OSError | None = None

    def flush(self, handle: int) -> None:
        self.flushes += 1
        self.is_flushing.set()
        assert self.may_continue.wait(60)
        if self.error is not None and self.flushes == 1:
            raise self.error


def test_others_can_write_while_a_commit_waits_for_the_disk(
    store: SqliteStore, flush_with: Callable[[Flush], None]
) -> None:
    disk = Disk()
    flush_with(disk.flush)
    writer = Writer(store, "m1")
    assert disk.is_flushing.wait(60)
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("begin immediate; rollback")
    assert writer.is_alive()
    disk.may_continue.set()
    writer.join()
    assert writer.error is None


@pytest.mark.parametrize(
    ("number", "expected_error"), [(errno.EIO, RecollectError), (errno.ENOSPC, StorageFull)]
)
def test_nothing_is_acknowledged_that_the_disk_failed_to_store(
    store: SqliteStore,
    flush_with: Callable[[Flush], None],
    number: int,
    expected_error: type[RecollectError],
) -> None:
    disk = Disk()
    disk.error = OSError(number, "a broken disk")
    flush_with(disk.flush)
    first = Writer(store, "m1")
    assert disk.is_flushing.wait(60)
    second = Writer(store, "m2")
    second.wait_for_commit()
    disk.may_continue.set()
    for writer in (first, second):
        writer.join()
        assert type(writer.error) is expected_error
        assert "could not store" in str(writer.error)
