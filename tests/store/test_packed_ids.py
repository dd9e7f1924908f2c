"""Ids of messages that are UUIDs are stored as 16 bytes."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from messages import conversation, message

from recollect import Filter, Passage
from recollect.errors import AmbiguousId, Conflict, NotFound
from recollect.store.abbreviations import AbbreviatedStore
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.compression import (
    pack_id,
    ranges_of_ids,
    unpack_ids,
)
from recollect.store.sqlite.connection import connect

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
    assert {position.id for position in store.positions("c1")} >= set(ids)
    keys = [store.passage_key("c1", id_) for id_ in ids]
    assert [hit.id for hit in store.candidates(keys, Filter())] == ids
    assert store.verify().healthy


def test_a_changed_message_keeps_its_packed_id(store: SqliteStore, path: Path) -> None:
    store.save([conversation(message(UUIDS[0], "before"))])
    store.save([conversation(message(UUIDS[0], "after"))])
    assert stored_ids(path) == [UUID(UUIDS[0]).bytes]
    assert [passage.content for passage in store.document("c1").passages] == ["after"]


# -- looking up ---


def test_messages_are_found_by_packed_ids_in_every_way(store: SqliteStore) -> None:
    ids = [*UUIDS, "m1"]
    store.save([conversation(*map(message, ids), shared_ids=True)])
    before = store.document("c1")
    assert [passage.id for passage in before.passages] == ids
    assert len({store.passage_key("c1", id_) for id_ in ids}) == 5
    assert {position.id for position in store.positions("c1")} >= set(ids)
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
    assert store.ids_with_prefix("5c0ffee", 9, "c1") == UUIDS
    assert AbbreviatedStore(store).passage_key("c1", UUIDS[2][:8]) == store.passage_key(
        "c1", UUIDS[2]
    )
    assert store.document("c1") == before


def test_abbreviations_find_both_packed_ids_and_others(store: SqliteStore) -> None:
    ids = ["5c0ffee00", *UUIDS[:3]]
    store.save([conversation(*map(message, [*ids, UUIDS[3].upper()]))])
    view = AbbreviatedStore(store)
    for id_ in UUIDS[:3]:
        assert view.passage_key("c1", id_[:9]) == store.passage_key("c1", id_)
    assert store.ids_with_prefix("5c0f", 9, "c1") == sorted(ids)
    assert store.ids_with_prefix("5c0f", 2, "c1") == sorted(ids)[:2]
    assert store.ids_with_prefix("", 9, "c1") == sorted([*ids, UUIDS[3].upper()])
    assert store.ids_with_prefix("5C0F", 9, "c1") == [UUIDS[3].upper()]
    assert store.ids_with_prefix(UUIDS[0] + "0", 9, "c1") == []
    with pytest.raises(AmbiguousId):
        view.passage_key("c1", "5c0ffee")
