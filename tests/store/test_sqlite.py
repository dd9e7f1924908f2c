"""What holds of the SQLite store alone: its file, its schema, its locks, its index."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from recollect.errors import DamagedLibrary, NewerLibrary, RecollectError, SearchTimeout, StoreBusy
from recollect.language.query import parse
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.settings import LIMITS, Limits
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.migrations import MIGRATIONS, VERSION, migrate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "library.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def talk(*texts: str, id: str = "c1") -> Document:
    return Document(
        "test", id, passages=tuple(Passage(f"m{n}", "user", t) for n, t in enumerate(texts))
    )


def total(store: SqliteStore, query: str) -> int:
    return store.count(parse(query), Filter())[0]


# -- the file -------------------------------------------------------------------


def test_nobody_else_can_read_the_file(store: SqliteStore, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_file_is_durable_and_strict(store: SqliteStore) -> None:
    with store._connections.read() as db:
        settings = {
            n: db.pragma(n)
            for n in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        }
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "secure_delete": 1,
    }


def test_sqlite_is_free_of_the_wal_reset_bug() -> None:
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


@pytest.mark.parametrize("others", [1, 2_000], ids=["wholly rewritten", "wiped off"])
def test_deleted_text_is_not_in_the_bytes_of_any_file(
    store: SqliteStore, path: Path, others: int
) -> None:
    store.save(
        [talk("quicksilverword and more", "other text"), talk(*["kept words"] * others, id="c2")]
    )
    store.delete("c1")
    store.close()
    remains = b"".join(f.read_bytes() for f in path.parent.iterdir())
    assert b"quicksilverword" not in remains
    assert b"uicksilverwor" not in remains
    assert b"kept" in remains


def test_nothing_but_sqlite_opens_the_database_file() -> None:
    """A plain open() of the file drops SQLite's locks on it, and with them acknowledged writes."""
    source = Path(__file__).parents[2] / "recollect"
    beside = {
        "volume.py",
        "vectors.py",
        "sealed.py",
    }  # these write files of their own, beside the database
    for file in (source / "store").rglob("*.py"):
        if file.name in beside or file.parent.name == "postgres":
            continue
        code = file.read_text(encoding="utf-8")
        assert ".read_bytes(" not in code and "shutil" not in code and ".open(" not in code, file


# -- migrations -------------------------------------------------------------------


def test_a_library_of_a_newer_version_is_refused_and_left_alone(
    store: SqliteStore, path: Path
) -> None:
    store.close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", VERSION + 1)
    db.close()
    with pytest.raises(NewerLibrary, match="newer Recollect"):
        SqliteStore(path)
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == VERSION + 1
    db.close()


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    db.execute("create table theirs (x)")
    db.close()
    with pytest.raises(DamagedLibrary, match="another program"):
        SqliteStore(path)


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(DamagedLibrary, match="doctor"):
        SqliteStore(path)
    assert path.read_bytes().startswith(b"this is not")


def test_migrations_run_once_and_stop_where_told(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "x.db"))
    first = MIGRATIONS[0][0]
    assert migrate(db, tmp_path, stop_before=first) == []
    assert migrate(db, tmp_path) == [name for name, _ in MIGRATIONS]
    assert migrate(db, tmp_path) == []
    db.close()


def test_what_was_stored_before_there_were_versions_is_version_one(path: Path) -> None:
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    migrate(db, path, stop_before="m004_knowledge")
    db.execute("""insert into document
      (key, id, origin, origin_id, source, title, namespace, metadata, partial, shared_ids)
      values (1, 'c1', 'test', 'c1', 'conversation', '', 'default', '{"character_id":7}', 0, 0)""")
    db.close()
    store = SqliteStore(path)
    assert store.document("c1").version == 1
    assert [s.id for s in store.summaries(Filter(characters=("7",)), "", 9, 0)[0]] == ["c1"]
    store.close()


def test_what_an_earlier_version_left_in_the_embedding_queue_is_removed(path: Path) -> None:
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    migrate(db, path, stop_before="m006_embedding_queue")
    db.execute("insert into space (name, version, dimensions) values ('test', '1', 8)")
    db.execute("insert into unembedded (passage, space) values (1, 1), (2, 1)")
    db.close()
    store = SqliteStore(path)
    assert store.verify().healthy
    store.save([talk("hello")])
    (space,) = store.spaces()
    assert [p.content for p in store.unembedded(space, 1)[0]] == ["hello"]
    store.close()


def test_a_migration_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.store.sqlite import migrations

    monkeypatch.setattr(
        migrations, "MIGRATIONS", (("m001_broken", "create table a (x); create nonsense;"),)
    )
    db = apsw.Connection(str(tmp_path / "x.db"))
    with pytest.raises(apsw.SQLError):
        migrate(db, tmp_path)
    assert db.execute("select count(*) from sqlite_schema").get == 0
    db.close()


def test_two_processes_may_open_a_new_library_at_once(path: Path) -> None:
    code = f"import pathlib, recollect.store.sqlite as s; s.SqliteStore(pathlib.Path({str(path)!r})).close()"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [p.wait() for p in processes] == [0, 0, 0, 0]


# -- the index ------------------------------------------------------------------------


def test_an_index_that_is_behind_is_filled_on_open(store: SqliteStore, path: Path) -> None:
    store.save([talk("first words", "second words")])
    store.close()
    db = apsw.Connection(str(path))
    db.execute("insert into passage_text (passage_text) values ('delete-all'); delete from word")
    db.close()
    again = SqliteStore(path)
    assert (total(again, "words"), again.verify().healthy) == (2, True)
    assert [c.id for c in again.recent("irst", Filter(), 5)] == ["m0"]
    again.close()


def test_an_index_of_another_version_is_rebuilt_on_open(store: SqliteStore, path: Path) -> None:
    store.save([talk("first words")])
    store.close()
    db = apsw.Connection(str(path))
    db.execute("update derived set version = 0")
    db.close()
    again = SqliteStore(path)
    assert (total(again, "first"), again.verify().healthy) == (1, True)
    again.close()


@pytest.mark.parametrize(
    "query", ["alpha", "gamma alpha", "lph", "beta, gam", "alpha missing", "->", "talk words"]
)
def test_texts_are_found_alike_while_the_list_of_words_is_behind(
    store: SqliteStore, query: str
) -> None:
    document = talk("alpha beta, gamma", "gamma without alp", "alphabet -> soup")
    store.save([replace(document, title="Words of a talk"), talk("alpha and gamma apart", id="c2")])
    before = [c.key for c in store.recent(query, Filter(), 10)]
    store._connections.write(
        lambda db: db.execute("update derived set version = 0 where name = 'words'").fetchall()
    )
    assert [c.key for c in store.recent(query, Filter(), 10)] == before


def test_verify_sees_what_is_missing_and_repair_brings_it_back(
    store: SqliteStore, path: Path
) -> None:
    store.save([talk("alpha one"), talk("beta two", id="c2")])
    db = apsw.Connection(str(path))
    db.execute(
        "insert into passage_text (passage_text, rowid, title, content) values ('delete', 1, '', 'alpha one')"
    )
    db.close()
    assert store.verify().unindexed == 1
    store.repair()
    assert (store.verify().healthy, total(store, "alpha")) == (True, 1)


def test_a_damaged_index_is_noticed_and_rebuilt(store: SqliteStore, path: Path) -> None:
    store.save([talk(*(f"the word{n} of many" for n in range(50)))])
    db = apsw.Connection(str(path))
    db.execute("update passage_text_data set block = zeroblob(length(block)) where id > 10")
    db.close()
    assert not store.verify().healthy
    store.repair()
    assert (store.verify().healthy, total(store, "word7")) == (True, 1)


def test_a_damaged_truth_is_not_rebuilt_over(store: SqliteStore, path: Path) -> None:
    store.save([talk(*(f"message number {n} " * 40 for n in range(200)))])
    store.close()
    page = path.read_bytes()
    at = page.index(b"message number 150 ")
    path.write_bytes(page[: at // 4096 * 4096] + b"\xff" * 4096 + page[at // 4096 * 4096 + 4096 :])
    again = SqliteStore(path)
    with pytest.raises(DamagedLibrary):
        again.repair()
    again.close()


# -- locks and deadlines ------------------------------------------------------------------


def test_a_writer_waits_for_another_process_instead_of_failing(
    store: SqliteStore, path: Path
) -> None:
    store.save([talk("start")])
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    done = threading.Event()
    writer = threading.Thread(
        target=lambda: (store.append("c1", Passage("w", "user", "waited")), done.set())
    )
    writer.start()
    assert not done.wait(0.2)
    other.execute("commit")
    writer.join()
    other.close()
    assert total(store, "waited") == 1


def test_a_writer_that_waits_too_long_says_who_is_in_the_way(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.store.sqlite import connection

    store.save([talk("start")])
    monkeypatch.setattr(connection, "LIMITS", Limits(write_wait_seconds=0.05))
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    with pytest.raises(StoreBusy, match="Another program"):
        store.append("c1", Passage("w", "user", "waited"))
    other.execute("rollback")
    other.close()
    assert store.append("c1", Passage("w", "user", "waited"))


def test_a_search_past_its_deadline_is_an_error_not_an_empty_answer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.store.sql import store as module

    store.save([talk(*("common words here" for _ in range(3_000)))])
    monkeypatch.setattr(module, "LIMITS", Limits(search_seconds=0.0))
    with pytest.raises(SearchTimeout, match="too long"):
        store.match(parse("common"), Filter(), 10)
    monkeypatch.setattr(module, "LIMITS", LIMITS)
    assert total(store, "common") == 3_000


def test_a_full_disk_is_refused_clearly_and_reading_goes_on(store: SqliteStore) -> None:
    store.save([talk("start")])

    def fill(db: apsw.Connection) -> None:
        db.pragma("max_page_count", db.pragma("page_count"))

    store._connections.write(fill)
    with pytest.raises(RecollectError, match="disk is full"):
        store.save([talk("x" * 1_000_000, id="big")])
    assert total(store, "start") == 1
    store.save(
        [talk("space again", id="c2")]
    )  # a fresh connection: the limit was that connection's
    assert total(store, "space") == 1
