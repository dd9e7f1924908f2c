"""Lists that are read page by page: the same on both stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from messages import NOON, conversation, message

from recollect import Filter
from recollect.model.undo import Edit
from recollect.store.base import Store
from recollect.store.values import LIST_START, ListPosition


def fill(store: Store, count: int) -> list[str]:
    """Conversations, in the order of the list. The last one has no date."""
    ids = [f"c{number}" for number in range(count)]
    for number, id_ in enumerate(ids):
        time = NOON - timedelta(hours=number)
        store.save([conversation(message("a"), id=id_, created_at=time, updated_at=time)])
    undated = conversation(message("a")._replace(created_at=None), id="undated")
    store.save([replace(undated, created_at=None, updated_at=None)])
    return [*ids, "undated"]


def test_a_document_that_moves_is_not_listed_twice(store: Store) -> None:
    ids = fill(store, 7)
    for order, expected in (("updated", ids), ("added", ids[::-1])):
        listed = []
        position: ListPosition | None = LIST_START
        while position is not None:
            summaries, position = store.summaries_after(Filter(), "", 2, order, position)
            listed += [summary.id for summary in summaries]
            if order == "updated":
                store.edit(listed[0], Edit(title=f"Changed after {len(listed)}"))
        assert listed == (expected if order == "updated" else ["undated", *ids[-2::-1]])


def test_a_page_may_end_among_documents_without_a_date(store: Store) -> None:
    ids = fill(store, 1)
    store.save([replace(conversation(id="older"), created_at=None, updated_at=None)])
    position = ListPosition(None, 99)
    summaries, following = store.summaries_after(Filter(), "", 1, "updated", position)
    assert [summary.id for summary in summaries] == ["older"] and following is not None
    summaries, following = store.summaries_after(Filter(), "", 1, "updated", following)
    assert [summary.id for summary in summaries] == [ids[-1]] and following is None
