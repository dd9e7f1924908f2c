"""Ids of messages that are UUIDs are stored as 16 bytes, in older libraries after a while."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from messages import conversation, message

from recollect.errors import AmbiguousId, Conflict, NotFound, RecollectError
from recollect.model.documents import Passage
from recollect.model.search import Filter
from recollect.store.sql.reading import lookup
from recollect.store.sql.writing import changes
from recollect.store.sql.writing import passages as passage_sql
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.connections.connection import Connection, connect
from recollect.store.sqlite.passages.compression import (
    STORED_COLUMNS,
    pack_id,
    ranges_of_ids,
    unpack_ids,
)
from recollect.store.sqlite.schema.migrations import migrate
from recollect.store.views.abbreviated import AbbreviatedStore

UUIDS = [f"5c0ffee{n}-0000-4000-8000-00000000000{n}" for n in range(4)]
OTHERS = [
    UUIDS[0].upper(),
    UUIDS[0].replace("-", ""),
    "x" * 36,
    "5c0ffee-00000-4000-8000-000000000000",
    "5c 0ffee-0000-4000-8000-00000000000 ",
    "5c0ffee0-0000-4000-8000-0000000000--",
    "5c0ffee0-0000-4000-8000-00000000000é",
    "5c0ffee0-0000-4000-8000-00000000000\N{ARABIC-INDIC DIGIT ONE}",
    "sixteen letters!",
    "5c0ffee000004000",
    " ",
]


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    return sqlite_store


def stored_ids(path: Path) -> list[str | bytes]:
    db = connect(path)
    rows = db.rows("select packed_id from passage order by key")
    db.close()
    return [id_ for (id_,) in rows]


def unpack(path: Path) -> None:
    """Store every id as older versions did."""
    db = connect(path)
    with db:
        db.execute("update passage set packed_id = id, parent_id = parent")
        db.execute(
            "insert or replace into derived select 'uncompressed', passage from last_key; "
            "delete from derived where name = 'holes'"
        )
    db.close()


# -- packing ---


@pytest.mark.parametrize("id", [*OTHERS, ""])
def test_other_ids_are_stored_as_text(id: str) -> None:
    assert pack_id(id) == id


@given(
    st.uuids().map(str)
    | st.uuids().map(lambda uuid: str(uuid).upper())
    | st.text(alphabet="0123456789abcdefA- ", min_size=36, max_size=36)
    | st.text()
)
@example(UUIDS[0])
def test_every_id_is_the_same_after_it_was_packed(id: str) -> None:
    packed = pack_id(id)
    assert packed is not None
    assert unpack_ids([packed]) == [id]
    if isinstance(packed, bytes):
        assert str(UUID(bytes=packed)) == id


@given(st.uuids().map(str), st.integers(0, 40), st.uuids().map(str) | st.text())
def test_the_ids_with_a_prefix_are_in_its_ranges(id: str, length: int, other: str) -> None:
    prefix = id[:length]
    for candidate in (id, other):
        for stored in (candidate, pack_id(candidate)):
            is_inside = any(
                type(first) is type(stored) and first <= stored <= last  # type: ignore[operator]
                for first, last in ranges_of_ids(prefix)
            )
            assert is_inside is candidate.startswith(prefix)


# -- new messages ---


def test_ids_that_are_uuids_take_16_bytes_and_are_read_verbatim(
    store: SqliteStore, path: Path
) -> None:
    ids = [*UUIDS[:2], *OTHERS]
    store.save([conversation(*map(message, ids))])
    store.append("c1", Passage(UUIDS[2], "user", "appended"))
    store.extend("c1", [Passage(UUIDS[3], "user", "extended")])
    ids += UUIDS[2:]
    assert [id_ for id_ in stored_ids(path) if isinstance(id_, bytes)] == [
        UUID(id_).bytes for id_ in UUIDS
    ]
    document = store.document("c1")
    assert [passage.id for passage in document.passages] == ids
    assert document.head == UUIDS[3]
    assert [position.id for position in store.positions("c1")] == ids
    assert {passage.id for passage in store.passages_by_id("c1", ids)} == set(ids)
    keys = [store.passage_key("c1", id_) for id_ in ids]
    assert [hit.id for hit in store.candidates(keys, Filter())] == ids
    assert store.verify().healthy


def test_a_changed_message_keeps_its_packed_id(store: SqliteStore, path: Path) -> None:
    store.save([conversation(message(UUIDS[0], "before"))])
    store.save([conversation(message(UUIDS[0], "after"))])
    assert stored_ids(path) == [UUID(UUIDS[0]).bytes]
    assert [passage.content for passage in store.document("c1").passages] == ["after"]


# -- libraries of older versions ---


def test_a_migrated_library_finds_messages_before_and_after_their_ids_are_packed(
    path: Path,
) -> None:
    path.parent.mkdir()
    db = connect(path)
    migrate(db, path, stop_before="m032_packed_ids")
    newest = SqliteStore(path.with_name("newest.db"))
    newest.save([conversation(*map(message, [*UUIDS, "m1"]), shared_ids=True)])
    newest.close()
    copy_older(path.with_name("newest.db"), db)
    db.close()
    store = SqliteStore(path)
    assert stored_ids(path) == [*UUIDS, "m1"]
    require_found(store)
    store.refresh()
    assert stored_ids(path) == [*(UUID(id_).bytes for id_ in UUIDS), "m1"]
    assert not store.needs_refresh()
    require_found(store)
    store.close()


def copy_older(source: Path, db: Connection) -> None:
    """Copy documents and passages to a library of an older version, with ids that are text."""
    names = ["packed_id" if name == "id" else name for name in STORED_COLUMNS]
    older_names = [{"packed_id": "id"}.get(name, name) for name in names]
    db.execute("attach ? as newest", (str(source),))
    columns = "key, id, source, source_id, kind, title, project, head, opening, passages"
    columns += ", partial, shared_ids, metadata"
    db.execute(f"insert into document ({columns}) select {columns} from newest.document")
    selected = ", ".join({"parent_id": "parent"}.get(name, name) for name in older_names)
    db.execute(
        f"insert into passage ({', '.join(older_names)}) select {selected} from newest.passage"
    )
    db.execute("update last_key set passage = (select max(key) from passage)")
    db.execute("detach newest")


def require_found(store: SqliteStore) -> None:
    """Look up every message by its id, in every way, and change nothing."""
    ids = [*UUIDS, "m1"]
    before = store.document("c1")
    assert [passage.id for passage in before.passages] == ids
    assert len({store.passage_key("c1", id_) for id_ in ids}) == 5
    assert {passage.id for passage in store.passages_by_id("c1", ids)} == set(ids)
    assert dict.fromkeys(store.documents_containing("test", ids)) == {
        ("c1", id_): None for id_ in ids
    }
    for id_ in ids:
        assert not store.append("c1", message(id_)).new
    assert store.extend("c1", before.passages, require_same=True) == 0
    with pytest.raises(Conflict, match="already used"):
        store.append("c1", Passage(UUIDS[1], "user", "something else"))
    with pytest.raises(NotFound):
        store.passage_key("c1", UUIDS[1].upper())
    (result,) = store.save([before])
    assert (result.new, result.changed) == (0, 0)
    assert store.passage_ids_with_prefix("c1", "5c0ffee", 9) == UUIDS
    assert AbbreviatedStore(store).passage_key("c1", UUIDS[2][:8]) == store.passage_key(
        "c1", UUIDS[2]
    )
    assert store.document("c1") == before


def test_messages_are_moved_and_deleted_by_ids_that_are_not_packed_yet(
    store: SqliteStore, path: Path
) -> None:
    store.save([conversation(*map(message, UUIDS))])
    unpack(path)
    first = store.document("c1").passages[0]
    store.save([conversation(message("m0"), first._replace(parent="m0"))])
    order = ["m0", *UUIDS]
    assert [passage.id for passage in store.document("c1").passages] == order
    store.delete_passage("c1", UUIDS[3])
    passages = store.document("c1").passages
    assert [(p.id, p.position) for p in passages] == [(id_, n) for n, id_ in enumerate(order[:4])]
    assert store.verify().healthy


def test_abbreviations_find_both_packed_and_unpacked_ids(store: SqliteStore, path: Path) -> None:
    store.save([conversation(message(UUIDS[1]), message("5c0ffee00"))])
    unpack(path)
    store.extend("c1", [message(UUIDS[0]), message(UUIDS[2]), message(UUIDS[3].upper())])
    view = AbbreviatedStore(store)
    for id_ in UUIDS[:3]:
        assert view.passage_key("c1", id_[:9]) == store.passage_key("c1", id_)
    ids = ["5c0ffee00", *UUIDS[:3]]
    assert store.passage_ids_with_prefix("c1", "5c0f", 9) == sorted(ids)
    assert store.passage_ids_with_prefix("c1", "5c0f", 2) == sorted(ids)[:2]
    assert store.passage_ids_with_prefix("c1", "", 9) == sorted([*ids, UUIDS[3].upper()])
    assert store.passage_ids_with_prefix("c1", "5C0F", 9) == [UUIDS[3].upper()]
    assert store.passage_ids_with_prefix("c1", UUIDS[0] + "0", 9) == []
    with pytest.raises(AmbiguousId):
        view.passage_key("c1", "5c0ffee")


def test_no_conversation_has_an_id_twice_packed_and_unpacked(
    store: SqliteStore, path: Path
) -> None:
    store.save([conversation(*map(message, UUIDS))])
    unpack(path)
    columns = ", ".join(passage_sql.COLUMNS)
    with store._connections.read() as db:
        ((_, *row),) = db.rows(f"select {columns} from passage where key = 1")

    def insert(db: Connection) -> None:
        db.insert_passages([(99, *row)])

    for _ in range(2):  # also when they are packed
        with pytest.raises(RecollectError, match="UNIQUE"):
            store._connections.write(insert)
        store.refresh()


# -- query plans ---

LOOKUPS: list[Callable[[Connection], Any]] = [
    lambda db: lookup.passage_key(db, "c1", UUIDS[0]),
    lambda db: lookup.passages_by_id(db, "c1", UUIDS),
    lambda db: lookup.documents_containing(db, "test", UUIDS),
    lambda db: lookup.passage_ids_with_prefix(db, "c1", "5c0f", 9),
    lambda db: changes._stored_keys(db, 1, [message(id_) for id_ in UUIDS]),
    lambda db: changes._require_all_same(db, 1, [message(id_) for id_ in UUIDS]),
    lambda db: db._require_unused_ids([(9, 1, None, 0, *[""] * 20)]),
]


@pytest.mark.parametrize("work", LOOKUPS)
def test_ids_are_looked_up_in_an_index(
    store: SqliteStore, path: Path, work: Callable[[Connection], Any]
) -> None:
    store.save([conversation(*map(message, UUIDS), shared_ids=True)])
    unpack(path)
    store.extend("c1", [message("9" + UUIDS[0][1:])])
    plans = store._connections.write(lambda db: explain(db, work))
    passages = [step for step in plans if step.split()[1] in ("passage", "p")]
    assert passages
    for step in passages:
        assert "(packed_id=?)" in step or "(document=? AND packed_id" in step, step


def explain(db: Connection, work: Callable[[Connection], Any]) -> list[str]:
    """The steps of the plans of all statements that look for ids of messages."""
    statements: dict[str, Any] = {}

    def trace(_: Any, sql: str, values: Any) -> bool:
        statements[sql] = values
        return True

    db.exec_trace = trace
    work(db)
    db.exec_trace = None
    return [
        step
        for sql, values in statements.items()
        if "packed_id" in sql
        for *_, step in db.rows(f"explain query plan {sql}", values)
    ]
