"""Changes that can be undone: pins, tags, titles, and deletions that keep a copy for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from messages import NOON, conversation, message

from recollect import Filter, Summary
from recollect.errors import Conflict, NotFound
from recollect.language.queries.query import parse
from recollect.model.undo import Edit
from recollect.store.base import Store

pytestmark = pytest.mark.every_store

SOON = datetime.now(UTC) + timedelta(hours=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def stocked(store: Store) -> Store:
    store.save(
        [
            conversation(message("a", "zebra"), id="c1", metadata={"tags": ["Work"]}),
            conversation(message("b", "okapi"), id="c2", updated_at=NOON + timedelta(days=1)),
        ]
    )
    return store


def tags(summary: Summary) -> object:
    return summary.metadata.get("tags")


def test_a_rename_is_undone_and_found_again(stocked: Store) -> None:
    change = stocked.edit("c1", Edit("rename", title="Quagga plans"), SOON)
    assert change is not None
    assert stocked.match(parse("quagga"), Filter(), 10)
    stocked.revert(change.number)
    assert stocked.summary("c1").title == "A conversation"
    assert not stocked.match(parse("quagga"), Filter(), 10)
    assert stocked.undo_log() == []
    with pytest.raises(NotFound, match="undone already"):
        stocked.revert(change.number)


def test_undoing_a_tag_keeps_later_tags(stocked: Store) -> None:
    change = stocked.edit("c1", Edit("tag", add_tags=("work", "trip")), SOON)
    assert change is not None
    stocked.edit("c1", Edit("tag", add_tags=("later",)), SOON)
    stocked.revert(change.number)
    assert tags(stocked.summary("c1")) == ["Work", "later"]


def test_an_earlier_rename_cannot_be_undone_before_a_later_one(stocked: Store) -> None:
    first = stocked.edit("c1", Edit("rename", title="One"), SOON)
    second = stocked.edit("c1", Edit("rename", title="Two"), SOON)
    assert first is not None and second is not None
    with pytest.raises(Conflict, match="changed again"):
        stocked.revert(first.number)
    stocked.revert(second.number)
    stocked.revert(first.number)
    assert stocked.summary("c1").title == "A conversation"


def test_expired_changes_are_neither_listed_nor_kept(stocked: Store) -> None:
    change = stocked.trash("c1", LONG_AGO)
    stocked.edit("c2", Edit("pin", pinned=True), SOON)
    assert [entry.id for entry in stocked.undo_log()] == ["c2"]
    assert stocked.clear_undo_log(expired=True) == 1
    with pytest.raises(NotFound):
        stocked.revert(change.number)
    assert stocked.clear_undo_log() == 1
    assert stocked.undo_log() == []


def test_a_deletion_for_good_also_deletes_earlier_titles(stocked: Store) -> None:
    change = stocked.edit("c1", Edit("rename", title="Now"), SOON)
    assert change is not None
    stocked.delete("c1")
    with pytest.raises(NotFound):
        stocked.revert(change.number)
