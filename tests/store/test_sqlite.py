"""The SQLite store: its file, schema, index and locks."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
from messages import recent

from recollect import Document, Filter, Passage
from recollect.errors import DamagedLibrary, NewerLibrary, RecollectError, SearchTimeout, StoreBusy
from recollect.language.queries.query import parse
from recollect.settings import LIMITS, Limits
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.schema import VERSION, create


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    return sqlite_store


def conversation(*texts: str, id: str = "c1") -> Document:
    return Document(
        "test", id, passages=tuple(Passage(f"m{n}", "user", t) for n, t in enumerate(texts))
    )


def total(store: SqliteStore, query: str) -> int:
    return store.count(parse(query), Filter())[0]


# -- the file ---


def test_only_the_owner_can_read_the_file(store: SqliteStore, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("others", [1, 2_000], ids=["index rewritten", "words wiped"])
def test_deleted_text_is_in_no_file(store: SqliteStore, path: Path, others: int) -> None:
    store.save(
        [
            conversation("quicksilverword and more", "other text"),
            conversation(*["other words"] * others, id="c2"),
        ]
    )
    store.delete("c1")
    store.close()
    data = b"".join(f.read_bytes() for f in path.parent.iterdir())
    assert b"quicksilverword" not in data
    assert b"uicksilverwor" not in data
    assert b"other words" in data


def test_only_sqlite_opens_the_database_file() -> None:
    """Closing a file from a plain open() drops SQLite's locks, and then writes can be lost."""
    source = Path(__file__).parents[2] / "recollect"
    for file in (source / "store").rglob("*.py"):
        # These have files of their own.
        if file.name in (
            "vector_files.py",
            "private_files.py",
            "compression.py",
            "checksums.py",
            "durability.py",  # files that no connection has open
            "audit_files.py",
            "encryption.py",  # the key file
            "uploads.py",  # the uploaded files
            "transactions.py",  # the write-ahead log, on which SQLite has no locks
        ) or file.name.startswith(("volume", "index_folder")):
            continue
        if "postgres" in file.relative_to(source).parts:
            continue
        code = file.read_text(encoding="utf-8")
        assert ".read_bytes(" not in code and "shutil" not in code and ".open(" not in code, file


# -- the schema ---


def test_a_library_of_a_newer_version_is_rejected_and_not_changed(
    store: SqliteStore, path: Path
) -> None:
    store.close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", VERSION + 1)
    db.close()
    with pytest.raises(NewerLibrary, match="another version of Recollect"):
        SqliteStore(path)
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == VERSION + 1
    db.close()


def test_a_database_of_another_program_is_rejected(path: Path) -> None:
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    db.execute("create table theirs (x)")
    db.close()
    with pytest.raises(DamagedLibrary, match="another program"):
        SqliteStore(path)


def test_a_library_has_all_tables_or_none(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "x.db"))  # it lacks functions that a table needs
    with pytest.raises(apsw.SQLError):
        create(db, tmp_path)
    assert db.execute("select count(*) from sqlite_schema").get == 0
    db.close()


def test_several_processes_can_open_a_new_library_at_once(path: Path) -> None:
    code = (
        "import pathlib, recollect.store.sqlite as s; "
        f"s.SqliteStore(pathlib.Path({str(path)!r})).close()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [p.wait() for p in processes] == [0, 0, 0, 0]


# -- the index ---


def test_an_incomplete_index_is_completed_on_opening(store: SqliteStore, path: Path) -> None:
    store.save([conversation("first words", "second words")])
    store.close()
    db = apsw.Connection(str(path))
    db.execute("insert into passage_text (passage_text) values ('delete-all'); delete from word")
    db.close()
    again = SqliteStore(path)
    assert (total(again, "words"), again.verify().healthy) == (2, True)
    assert [c.id for c in recent(again, "irst", Filter(), 5)] == ["m0"]
    again.close()


def test_verify_counts_unindexed_messages_and_repair_indexes_them(
    store: SqliteStore, path: Path
) -> None:
    store.save([conversation("alpha one"), conversation("beta two", id="c2")])
    db = apsw.Connection(str(path))
    db.execute(
        "insert into passage_text (passage_text, rowid, title, content) "
        "values ('delete', 1, '', 'alpha one')"
    )
    db.close()
    assert store.verify().unindexed == 1
    store.repair()
    assert (store.verify().healthy, total(store, "alpha")) == (True, 1)


def test_a_damaged_index_is_detected_and_rebuilt(store: SqliteStore, path: Path) -> None:
    store.save([conversation(*(f"the word{n} of many" for n in range(50)))])
    db = apsw.Connection(str(path))
    db.execute("update passage_text_data set block = zeroblob(length(block)) where id > 10")
    db.close()
    assert not store.verify().healthy
    store.repair()
    assert (store.verify().healthy, total(store, "word7")) == (True, 1)


def test_repair_refuses_to_touch_damaged_documents(store: SqliteStore, path: Path) -> None:
    store.save([conversation(*(f"message number {n} " * 40 for n in range(200)))])
    with store._connections.read() as db:
        body: bytes = db.get("select body from passage where position = 150")
    store.close()
    data = path.read_bytes()
    start = data.index(body) // 4096 * 4096
    path.write_bytes(data[:start] + b"\xff" * 4096 + data[start + 4096 :])
    again = SqliteStore(path)
    with pytest.raises(DamagedLibrary):
        again.repair()
    again.close()


# -- locks and time limits ---


def test_a_writer_waits_for_another_process_instead_of_failing(
    store: SqliteStore, path: Path
) -> None:
    store.save([conversation("start")])
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    is_written = threading.Event()

    def write() -> None:
        store.append("c1", Passage("w", "user", "waited"))
        is_written.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert not is_written.wait(0.2)
    other.execute("commit")
    writer.join()
    other.close()
    assert total(store, "waited") == 1


def test_a_writer_that_waits_too_long_raises_store_busy(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.store.sqlite import connection

    store.save([conversation("start")])
    store._connections._close_writer()  # the next one has the limit below
    monkeypatch.setattr(connection, "LIMITS", Limits(write_wait_seconds=0.05))
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    with pytest.raises(StoreBusy, match="Another program"):
        store.append("c1", Passage("w", "user", "waited"))
    other.execute("rollback")
    other.close()
    assert store.append("c1", Passage("w", "user", "waited"))


def test_a_search_that_takes_too_long_raises_an_error(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.store.sql import store as module

    store.save([conversation(*("common words here" for _ in range(3_000)))])
    monkeypatch.setattr(module, "LIMITS", Limits(search_seconds=0.0))
    with pytest.raises(SearchTimeout, match="too long"):
        store.match(parse("common"), Filter(), 10)
    monkeypatch.setattr(module, "LIMITS", LIMITS)
    assert total(store, "common") == 3_000


def test_a_full_disk_raises_a_clear_error_and_reading_still_works(store: SqliteStore) -> None:
    store.save([conversation("start")])

    def fill(db: apsw.Connection) -> None:
        db.pragma("max_page_count", db.pragma("page_count"))

    store._connections.write(fill)
    with pytest.raises(RecollectError, match="disk is full"):
        store.save([conversation("x" * 1_000_000, id="big")])
    assert total(store, "start") == 1
    # The store opens a new connection, which does not have the limit.
    store.save([conversation("space again", id="c2")])
    assert total(store, "space") == 1
