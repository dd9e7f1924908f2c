"""Abbreviated ids: a few characters find the right thing, and never the wrong one."""

from __future__ import annotations

import pytest
from messages import conversation, header, message

from recollect import Passage
from recollect.errors import AmbiguousId, NotFound
from recollect.store.abbreviations import AbbreviatedStore
from recollect.store.base import Store

FIRST = "3f2a9c41-7d5e-4b8a-9c3d-1e2f3a4b5c6d"
SECOND = "3f2b0000-7d5e-4b8a-9c3d-1e2f3a4b5c6d"
QUESTION = "7b1c2d3e-0000-4000-8000-000000000001"
ANSWER = "7b1c2d3e-0000-4000-8000-000000000002"


@pytest.fixture
def view(store: Store) -> AbbreviatedStore:
    for id_ in (FIRST, SECOND, "conv-1", "conv-10", "trip", "trip-lisbon", "trip-lyon"):
        store.save([conversation(message(QUESTION), message(ANSWER), id=id_)])
    return AbbreviatedStore(store)


def test_a_few_characters_of_a_random_id_are_enough(view: AbbreviatedStore) -> None:
    assert view.document("3f2a").id == FIRST
    assert header(view, "3f2a9").id == FIRST
    assert view.summary("3f2b00").id == SECOND
    assert len(view.positions("3f2a")) == 2
    assert view.passage_page("3f2a", 0, 1)[1] == 2
    assert view.is_linear("3f2a")


def test_several_candidates_are_an_error_that_lists_them(view: AbbreviatedStore) -> None:
    for prefix in ("3f2", "3"):
        with pytest.raises(NotFound):  # too short to be an abbreviation
            view.document(prefix)
    view.save([conversation(id=SECOND.replace("3f2b", "3f2a"))])
    with pytest.raises(AmbiguousId, match="Give more characters") as error:
        view.delete("3f2a")
    assert error.value.candidates == (SECOND.replace("3f2b", "3f2a"), FIRST)
    assert FIRST in str(error.value)


def test_names_are_abbreviated_for_reading_only(view: AbbreviatedStore) -> None:
    assert view.document("trip-li").id == "trip-lisbon"
    with pytest.raises(NotFound):
        view.delete("trip-li")
    with pytest.raises(AmbiguousId):
        view.document("trip-l")


def test_a_deleted_name_does_not_stand_for_another_one(view: AbbreviatedStore) -> None:
    view.delete("conv-1")
    view.delete("trip")
    for id_ in ("conv-1", "trip"):
        for call in (view.delete, view.document):
            with pytest.raises(NotFound):
                call(id_)
    assert view.document("conv-10").id == "conv-10"


def test_ids_of_messages_are_abbreviated_within_their_conversation(
    view: AbbreviatedStore,
) -> None:
    with pytest.raises(AmbiguousId):
        view.passage_key("3f2a", "7b1c2d")
    view.append(FIRST, Passage("9c3d", "user", "exact"))
    view.append(FIRST, Passage("9c3d4e5f00000000", "user", "longer"))
    keys = view.passages_by_key([view.passage_key("3f2a", "9c3d4")])
    assert [passage.content for _, passage in keys.values()] == ["longer"]
    keys = view.passages_by_key([view.passage_key("3f2a", "9c3d")])
    assert [passage.content for _, passage in keys.values()] == ["exact"]
