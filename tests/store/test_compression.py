"""Messages are stored compressed, and those of older libraries are compressed later."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from uuid import UUID

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kills import run_and_kill

from recollect.errors import Conflict, DamagedLibrary
from recollect.language.queries.query import parse
from recollect.model.documents import Document, Passage, arrange
from recollect.model.search import Filter
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.care import compaction
from recollect.store.sqlite.connections.connection import connect
from recollect.store.sqlite.passages import compression
from recollect.store.sqlite.passages.compression import Codec, pack_id
from recollect.store.sqlite.schema.migrations import migrate

LONG = "The tram to the castle leaves from the market square every twelve minutes. " * 4
METADATA = {"request_id": "4fbb2c1e", "status": "finished_successfully", "weight": 1.0}


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    return sqlite_store


def conversation(*texts: str, id: str = "c1") -> Document:
    passages = tuple(
        Passage(f"m{n}", "user", text, metadata=METADATA) for n, text in enumerate(texts)
    )
    return Document("test", id, "Trams", passages=passages)


def stored_types(path: Path) -> list[str]:
    db = connect(path)
    rows = db.rows("select typeof(body) from passage order by key")
    db.close()
    return [type_ for (type_,) in rows]


def make_old(path: Path) -> None:
    """Store every message as older versions did."""
    db = connect(path)
    with db:
        rows = db.rows("select content, metadata, key from passage")
        db.executemany("update passage set body = ?, details = ? where key = ?", rows)
        db.execute("insert into derived select 'uncompressed', passage from last_key")
    db.close()


def contents(store: SqliteStore, id: str = "c1") -> list[str]:
    return [passage.content for passage in store.document(id).passages]


# -- new messages ---


def test_messages_are_stored_compressed_and_read_verbatim(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG)])
    store.append("c1", Passage("m9", "user", LONG + "!", metadata=METADATA))
    assert stored_types(path) == ["blob", "blob"]
    assert contents(store) == [LONG, LONG + "!"]
    assert [dict(p.metadata) for p in store.document("c1").passages] == [METADATA, METADATA]
    assert LONG.encode() not in path.read_bytes()


def test_a_short_message_without_metadata_is_stored_as_text(store: SqliteStore, path: Path) -> None:
    store.save([Document("test", "c1", passages=(Passage("m0", "user", "yes"),))])
    assert stored_types(path) == ["text"]
    assert contents(store) == ["yes"]


def test_a_long_message_without_metadata_is_compressed(store: SqliteStore, path: Path) -> None:
    store.save([Document("test", "c1", passages=(Passage("m0", "user", LONG),))])
    assert stored_types(path) == ["blob"]
    assert contents(store) == [LONG]
    assert not store.document("c1").passages[0].metadata


def stored_parents(path: Path) -> list[str | bytes | None]:
    db = connect(path)
    rows = db.rows("select parent_id from passage order by key")
    db.close()
    return [parent for (parent,) in rows]


UUIDS = [f"5c0ffee{n}-0000-4000-8000-00000000000{n}" for n in range(3)]


def replies() -> Document:
    """A conversation of three messages whose metadata repeats their parents."""
    passages = tuple(
        Passage(id, "user", f"{LONG} {n}", parent=parent, metadata={"parent": parent, "id": id})
        for n, (id, parent) in enumerate(zip(UUIDS, [None, *UUIDS], strict=False))
    )
    return arrange(Document("test", "c1", passages=passages))


def test_parents_that_are_uuids_take_16_bytes_and_are_read_verbatim(
    store: SqliteStore, path: Path
) -> None:
    store.save([replies()])
    assert stored_parents(path) == [None, *(UUID(id).bytes for id in UUIDS[:2])]
    assert store.document("c1").passages == replies().passages
    with pytest.raises(Conflict, match="has replies"):
        store.delete_passage("c1", UUIDS[1])
    store.append("c1", Passage("new", "user", LONG, parent=UUIDS[2], metadata={"n": UUIDS[2]}))
    assert store.document("c1").passages[-1].parent == UUIDS[2]
    assert store.document("c1").passages[-1].metadata == {"n": UUIDS[2]}
    store.save([replies()])
    assert store.document("c1").passages[:3] == replies().passages


def test_a_changed_message_is_compressed_again(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG)])
    store.save([conversation(LONG.upper())])
    assert stored_types(path) == ["blob"]
    assert contents(store) == [LONG.upper()]
    assert store.count(parse("castle"), Filter())[0] == 1


def test_compressed_messages_are_found_by_substring(store: SqliteStore) -> None:
    store.save([conversation(LONG, "nothing of that kind, but long enough to be compressed")])
    assert [hit.id for hit in store.find_substring("=>", Filter(), 9, 0)[0]] == []
    assert [hit.id for hit in store.find_substring("quare every", Filter(), 9, 0)[0]] == ["m0"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.text(),
    st.none() | st.text(min_size=1).map(lambda text: '{"a":"' + text.strip("\0")),
    st.none() | st.sampled_from(["m1", *UUIDS]),
)
def test_every_text_is_decompressed_exactly(
    content: str, metadata: str | None, parent: str | None
) -> None:
    content = content.replace("\0", "").encode("utf-8", "ignore").decode()
    if metadata is not None:
        metadata = metadata.replace("\0", "").encode("utf-8", "ignore").decode()
        metadata += f"{parent}, {parent}"
    codec = Codec()
    parent_id = pack_id(parent)
    body, details = codec.compress(content, metadata, parent_id)
    assert codec.content(body) == content
    assert codec.metadata(body, details, parent_id) == metadata


def test_deleted_messages_are_in_no_file(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG), conversation("Another conversation. " * 9, id="c2")])
    db = connect(path)
    ((body,),) = db.rows("select body from passage where key = 1")
    db.close()
    store.pop("c1")
    assert not [f for f in path.parent.rglob("*") if f.is_file() and body in f.read_bytes()]


# -- the dictionary ---


def test_the_dictionary_is_the_one_in_the_notice() -> None:
    folder = Path(compression.__file__).parent
    data = (folder / "texts-1.zdict").read_bytes()
    assert hashlib.sha256(data).hexdigest() in (folder / "NOTICE.md").read_text(encoding="utf-8")


def test_an_unknown_dictionary_is_an_error() -> None:
    with pytest.raises(DamagedLibrary, match="dictionary 77"):
        Codec().content(b"\x4d123")


def test_verify_names_messages_that_cannot_be_decompressed(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG)])
    db = connect(path)
    db.codec._is_inserting = True  # or the update would fail
    db.execute("update passage set body = x'01ffffff'")
    db.close()
    assert "m0" in " ".join(store.verify().damaged)
    with pytest.raises(DamagedLibrary, match="doctor"):
        store.document("c1")


# -- libraries of older versions ---


def test_an_old_library_is_readable_before_and_after_it_is_compressed(path: Path) -> None:
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    migrate(db, path, stop_before="m011_compression")
    db.execute(
        "insert into document (key, id, source, source_id, kind, title, project, opening, passages,"
        " partial, shared_ids) values (1, 'c1', 'test', 'c1', 'conversation', '', 'default', 1, 1,"
        " 0, 0); update last_key set passage = 1"
    )
    db.execute(
        "insert into passage (key, document, position, canonical, role, type, visibility, shared,"
        " id, digest, metadata, content) values (1, 1, 0, 1, 'user', 'message', 'all', 0, 'm0',"
        " x'00', '{\"weight\":1.0}', ?)",
        (LONG,),
    )
    db.close()
    store = SqliteStore(path)
    for type_ in ("text", "blob"):
        assert stored_types(path) == [type_]
        assert contents(store) == [LONG]
        assert store.document("c1").passages[0].metadata == {"weight": 1.0}
        assert store.count(parse("castle"), Filter())[0] == 1
        assert store.needs_refresh() is (type_ == "text")
        store.refresh()
    assert store.verify().healthy
    store.close()


def test_compressing_an_old_library_changes_nothing_else(store: SqliteStore, path: Path) -> None:
    texts = [f"{LONG} {n}" for n in range(30)]
    store.save([conversation(*texts)])
    space = store.add_space("test", "1", 2, None)
    make_old(path)
    before = store.export_batches()
    store.refresh()
    assert set(stored_types(path)) == {"blob"}
    assert store.export_batches() == before
    with store._connections.read() as db:
        assert not db.rows("select * from unembedded")
        assert not db.rows("select * from stale")
    assert store.unembedded(space, 99)[1] == 30


def test_parents_of_an_old_library_are_packed(store: SqliteStore, path: Path) -> None:
    store.save([replies()])
    packed = stored_parents(path)
    make_old(path)
    db = connect(path)
    db.execute("update passage set parent_id = parent")
    # One message was compressed, but by a version that did not pack parents.
    body, _ = db.codec.compress(*db.rows("select content, metadata from passage where key = 2")[0])
    db.execute("update passage set body = ?, details = null where key = 2", (body,))
    db.close()
    assert stored_parents(path) == [None, *UUIDS[:2]]
    assert store.document("c1").passages == replies().passages
    store.refresh()
    assert stored_parents(path) == packed
    assert set(stored_types(path)) == {"blob"}
    assert store.document("c1").passages == replies().passages
    assert store.verify().healthy


def test_the_file_of_an_old_library_becomes_smaller(store: SqliteStore, path: Path) -> None:
    texts = [f"{LONG * 3} {n}" for n in range(2_000)]
    store.save([conversation(*texts)])
    make_old(path)
    store._connections.truncate_log()
    before = path.stat().st_size
    store.refresh()
    assert path.stat().st_size < before * 0.7
    assert contents(store) == texts
    assert not store.needs_refresh()
    assert store.verify().healthy


COMPRESSOR = """
import sys, pathlib
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.care import compaction
compaction._BATCH = 3
store = SqliteStore(pathlib.Path(sys.argv[1]))
while store._write(compaction.compress_batch):
    print("batch", flush=True)
"""


@pytest.mark.full
def test_compressing_can_be_killed_and_resumed(path: Path) -> None:
    store = SqliteStore(path)
    texts = [f"{LONG} {n}" for n in range(300)]
    store.save([conversation(*texts)])
    store.close()
    make_old(path)
    rng = random.Random(0)
    for _ in range(5):
        run_and_kill(COMPRESSOR, str(path), lines=rng.randint(1, 8))
        store = SqliteStore(path)
        assert contents(store) == texts
        assert store.verify().healthy
        store.close()
    store = SqliteStore(path)
    store.refresh()
    assert set(stored_types(path)) == {"blob"}
    assert contents(store) == texts
    store.close()


def test_older_layouts_of_the_index_are_replaced_when_it_is_rebuilt(
    store: SqliteStore, path: Path
) -> None:
    store.save([conversation(LONG)])
    db = connect(path)
    db.execute(
        "drop table passage_text; create virtual table passage_text using fts5(title, content,"
        " content='', tokenize='unicode61 remove_diacritics 0')"
    )
    db.close()
    store.repair()
    with store._connections.read() as db:
        names = [row[1] for row in db.rows("pragma table_info(passage_text)")]
    assert names[0] == "content"
    assert store.count(parse("castle"), Filter())[0] == 1
    assert store.verify().healthy


# -- merging the text index ---


def segments(path: Path) -> int:
    db = connect(path)
    count: int = db.get("select count(distinct segid) from passage_text_idx")
    db.close()
    return count


def grow(store: SqliteStore, first: int, last: int) -> None:
    """Save conversations one by one, each of which becomes a segment of the text index."""
    for number in range(first, last):
        store.save([conversation(f"{LONG} word{number}", id=f"c{number}")])


def test_the_text_index_is_merged_when_the_library_has_doubled(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MIN_PASSAGES_TO_MERGE", 10)
    monkeypatch.setattr(compaction, "_PAGES_PER_MERGE", 1)
    grow(store, 0, 9)
    store.refresh()
    assert segments(path) == 9
    for first, last, count in ((9, 12, 1), (12, 20, 9), (20, 24, 1)):
        grow(store, first, last)
        store.refresh()
        assert segments(path) == count
        assert store.count(parse("castle"), Filter())[0] == last
        assert [store.count(parse(f"word{n}"), Filter())[0] for n in range(last)] == [1] * last
        assert not store.needs_refresh()
        assert store.verify().healthy


def test_merging_the_text_index_can_be_interrupted(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MIN_PASSAGES_TO_MERGE", 10)
    monkeypatch.setattr(compaction, "_PAGES_PER_MERGE", 1)
    for number in range(12):
        words = " ".join(f"w{number}x{n}" for n in range(2_000))
        store.save([conversation(f"castle {words}", id=f"c{number}")])
    budget = iter(range(3))
    compaction.merge_text_index(store._connections, lambda: next(budget, None) is None)
    assert segments(path) > 1
    assert store.count(parse("castle"), Filter())[0] == 12
    grow(store, 12, 14)
    store.refresh()
    assert segments(path) == 1
    assert store.count(parse("castle"), Filter())[0] == 14
    assert store.count(parse("w7x1999"), Filter())[0] == 1
    assert store.verify().healthy


def test_deleted_words_are_in_no_file_after_the_text_index_was_merged(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MIN_PASSAGES_TO_MERGE", 10)
    grow(store, 0, 12)
    store.save([conversation("the o1xsecret of many words", id="secret")])
    store.refresh()
    store.pop("secret")
    assert not [f for f in path.parent.rglob("*") if f.is_file() and b"o1xsec" in f.read_bytes()]
