"""Ids of messages that are UUIDs are stored as 16 bytes."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from messages import conversation, message

from recollect import Passage
from recollect.errors import Conflict, NotFound
from recollect.store.abbreviations import AbbreviatedStore
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.compression import (
    pack_id,
    unpack_ids,
)

UUIDS = [f"5c0ffee{n}-0000-4000-8000-00000000000{n}" for n in range(4)]


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    return sqlite_store


# -- packing ---


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


# -- new messages ---


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
