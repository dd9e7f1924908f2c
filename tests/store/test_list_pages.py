"""Lists that are read page by page while documents move: the same on both stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from messages import NOON, conversation, message

from recollect import Filter
from recollect.errors import InvalidInput
from recollect.model.undo import PIN, UNPIN, Edit
from recollect.store.base import Store
from recollect.store.values import ListPosition, list_start

LATER = datetime.now(UTC) + timedelta(days=1)


def fill(store: Store, count: int) -> list[str]:
    """Conversations, in the order of the list. The last one has no date."""
    ids = [f"c{number}" for number in range(count)]
    for number, id_ in enumerate(ids):
        time = NOON - timedelta(hours=number)
        store.save([conversation(message("a"), id=id_, created_at=time, updated_at=time)])
    undated = conversation(message("a")._replace(created_at=None), id="undated")
    store.save([replace(undated, created_at=None, updated_at=None)])
    return [*ids, "undated"]


def page(
    store: Store, position: ListPosition, limit: int = 2, **filter: object
) -> tuple[list[str], ListPosition | None]:
    summaries, following = store.summaries_after(
        Filter(**filter),
        "",
        limit,
        "updated",
        position,  # type: ignore[arg-type]
    )
    return [summary.id for summary in summaries], following


def test_documents_that_move_are_listed_once_at_their_old_places(store: Store) -> None:
    ids = fill(store, 7)
    listed, position = page(store, list_start(store.last_move()))
    assert listed == ids[:2] and position is not None
    store.edit("c1", Edit(title="Changed after it was listed"))
    store.append("c5", message("b", minutes=1))
    store.append("c5", message("c", minutes=2))
    store.edit("undated", Edit(title="It has a date now"))
    store.edit("c3", Edit(PIN, pinned=True), LATER)
    store.save([conversation(message("x"), id="new", updated_at=LATER)])
    store.delete("c6")
    while position is not None:
        some, position = page(store, position)
        listed += some
    assert listed == [id_ for id_ in ids if id_ != "c6"]
    everything, _ = page(store, list_start(store.last_move()), limit=9)
    assert sorted(everything) == sorted([*listed, "new"])
    assert everything[0] == "new"


def test_a_list_of_pinned_documents_is_as_it_was_when_it_began(store: Store) -> None:
    fill(store, 3)
    store.edit("c1", Edit(PIN, pinned=True), LATER)
    start = list_start(store.last_move())
    store.edit("c1", Edit(UNPIN, pinned=False), LATER)
    store.edit("c2", Edit(PIN, pinned=True), LATER)
    assert page(store, start, limit=9, pinned=True)[0] == ["c1"]
    assert page(store, start, limit=9, pinned=False)[0] == ["c0", "c2", "undated"]
    assert page(store, list_start(store.last_move()), limit=9, pinned=True)[0] == ["c2"]


def test_conditions_other_than_pins_count_as_of_now(store: Store) -> None:
    fill(store, 3)
    start = list_start(store.last_move())
    store.edit("c1", Edit(project="work"))
    assert page(store, start, limit=9, projects=("work",))[0] == ["c1"]
    assert page(store, start, limit=9, projects=("default",))[0] == ["c0", "c2", "undated"]


def test_a_list_ends_with_an_error_if_too_many_changes_were_made_since_it_began(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.store.sql.listing._MAX_MOVES", 4)
    monkeypatch.setattr("recollect.store.sql.listing._MOVES_PER_CLEANUP", 2)
    fill(store, 3)
    start = list_start(store.last_move())
    for number in range(4):
        store.edit("c1", Edit(title=f"Title {number}"))
    assert page(store, start, limit=9)[0] == ["c0", "c1", "c2", "undated"]
    for number in range(4):
        store.edit("c2", Edit(title=f"Title {number}"))
    with pytest.raises(InvalidInput, match="Begin again without a cursor"):
        page(store, start)
    assert page(store, list_start(store.last_move()), limit=9)[0][:2] == ["c2", "c1"]
