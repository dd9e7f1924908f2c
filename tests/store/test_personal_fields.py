"""What a person or a program has set in a conversation: imports and their undoing keep it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from messages import NOON, conversation, message

from recollect import Document
from recollect.model.undo import Edit
from recollect.store.base import Store

SOON = datetime.now(UTC) + timedelta(hours=1)
LATER = datetime.now(UTC) + timedelta(days=400)
"""When the source changed its conversation again, after all edits."""
KINDS = pytest.mark.parametrize("kind", ["conversation", "note"])


def version(day: int, title: str, kind: str = "conversation", **fields: Any) -> Document:
    """The conversation as the source had it on this day, with a message for each day so far."""
    messages = [message(f"m{n}", f"word{n}", minutes=n) for n in range(day + 1)]
    updated_at = fields.pop("updated_at", NOON + timedelta(days=day))
    return conversation(*messages, title=title, kind=kind, updated_at=updated_at, **fields)


def run_import(store: Store, document: Document) -> int:
    receipt = store.start_import("an export")
    store.save([document], receipt.id)
    return receipt.id


def rename(store: Store, title: str) -> None:
    store.edit("c1", Edit("rename", title=title), SOON)


def title(store: Store) -> str:
    return store.summary("c1").title


def tags(store: Store) -> Any:
    return store.summary("c1").metadata.get("tags")


# -- imports ---


@KINDS
def test_an_import_keeps_a_title_that_a_person_set(store: Store, kind: str) -> None:
    run_import(store, version(0, "Standup", kind))
    rename(store, "Ship date")
    run_import(store, version(1, "Standup", kind, updated_at=LATER))
    assert title(store) == "Ship date"
    assert len(store.document("c1").passages) == 2
    assert store.document("c1").updated_at == LATER


@KINDS
def test_an_import_adds_its_tags_to_those_that_a_person_set(store: Store, kind: str) -> None:
    run_import(store, version(0, "Standup", kind, metadata={"tags": ["a"]}))
    store.edit("c1", Edit("tag", add_tags=("mine",)), SOON)
    store.edit("c1", Edit("pin", pinned=True), SOON)
    run_import(store, version(1, "Standup", kind, metadata={"tags": ["A", "b"]}))
    assert tags(store) == ["a", "mine", "b"]
    assert store.summary("c1").metadata["pinned"] is True
    run_import(store, version(2, "Standup", kind))
    assert tags(store) == ["a", "mine", "b"]


@KINDS
def test_an_import_keeps_metadata_that_a_program_set_or_removed(store: Store, kind: str) -> None:
    run_import(store, version(0, "Standup", kind, metadata={"model": "x", "url": "u", "n": 1}))
    store.edit("c1", Edit(metadata={"status": "done", "model": "mine", "url": None}))
    source = {"model": "y", "url": "v", "n": 2, "status": "open"}
    run_import(store, version(1, "Standup", kind, metadata=source, updated_at=LATER))
    metadata = dict(store.document("c1").metadata)
    edited = ["metadata.model", "metadata.status", "metadata.url"]
    assert metadata.pop("edited_fields") == edited
    assert metadata == {"model": "mine", "status": "done", "n": 2}
    assert store.summary("c1").title == "Standup"
    newer = run_import(store, version(2, "Standup", kind, updated_at=LATER + timedelta(days=1)))
    metadata = dict(store.document("c1").metadata)
    assert metadata == {"model": "mine", "status": "done", "edited_fields": edited}
    store.undo_import(newer)
    metadata = dict(store.document("c1").metadata)
    assert metadata == {"model": "mine", "status": "done", "n": 2, "edited_fields": edited}


def test_a_title_whose_change_was_undone_belongs_to_the_source_again(store: Store) -> None:
    run_import(store, version(0, "Standup"))
    rename(store, "Ship date")
    (change,) = store.undo_log()
    store.revert(change.number)
    assert store.document("c1").metadata == {}
    run_import(store, version(1, "Daily", updated_at=LATER))
    assert title(store) == "Daily"


# -- undoing imports ---


@KINDS
def test_undoing_an_import_keeps_later_edits(store: Store, kind: str) -> None:
    run_import(store, version(0, "Standup", kind, metadata={"model": "x"}))
    newer = run_import(store, version(1, "Daily", kind, metadata={"model": "y"}))
    rename(store, "Ship date")
    store.edit("c1", Edit("tag", add_tags=("mine",)), SOON)
    store.edit("c1", Edit("pin", pinned=True), SOON)
    store.undo_import(newer)
    document = store.document("c1")
    assert (document.title, document.metadata["tags"]) == ("Ship date", ["mine"])
    assert (document.metadata["pinned"], document.metadata["model"]) == (True, "x")
    assert [p.content for p in document.passages] == ["word0"]
    assert store.verify().healthy


@KINDS
def test_undoing_an_import_restores_a_title_that_was_not_edited(store: Store, kind: str) -> None:
    run_import(store, version(0, "Standup", kind))
    newer = run_import(store, version(1, "Daily", kind))
    store.edit("c1", Edit("tag", add_tags=("mine",)), SOON)
    store.undo_import(newer)
    assert (title(store), tags(store)) == ("Standup", ["mine"])
    run_import(store, version(1, "Daily", kind))  # again: it is not older than the stored one
    assert (title(store), tags(store)) == ("Daily", ["mine"])


def test_undoing_an_import_that_has_a_conversation_twice_restores_it(store: Store) -> None:
    store.save([version(0, "Standup")])
    before = store.document("c1")
    receipt = run_import(store, version(1, "Daily"))
    store.save([version(2, "Weekly", metadata={"model": "x"})], receipt)
    store.undo_import(receipt)
    assert store.document("c1") == before


def test_undoing_an_import_keeps_the_date_and_the_end_of_a_conversation_that_went_on(
    store: Store,
) -> None:
    store.save([version(0, "Standup")])
    receipt = run_import(store, version(1, "Daily"))
    store.append("c1", message("live", "zebra", minutes=9 * 24 * 60))
    store.undo_import(receipt)
    document = store.document("c1")
    assert (document.title, document.head) == ("Standup", "live")
    assert document.updated_at == NOON + timedelta(days=9)
