"""Renaming, tagging, pinning and deleting through the library, and undoing it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

import recollect
from recollect import Filter, Selection
from recollect.errors import AmbiguousId, InvalidInput, NotFound
from recollect.index import background

ID = "3f2a9c41-7d5e-4b8a-9c3d-1e2f3a4b5c6d"
CANARY = "quokkaquilt"


@pytest.fixture
def stocked(library: recollect.Library) -> recollect.Library:
    messages = [
        {"id": "a", "role": "user", "content": f"Where does the {CANARY} hang?"},
        {"id": "b", "role": "assistant", "content": "In the hall.", "metadata": {"k": [1]}},
    ]
    library.add_conversation(ID, "Quilts", messages=messages, project="home")
    return library


def test_each_change_is_undone_by_the_next_undo(stocked: recollect.Library) -> None:
    before = stocked.summary(ID)
    stocked.rename("3f2a9c", "Blankets")
    stocked.tag(ID, "hall", "textile")
    stocked.untag(ID, "HALL")
    stocked.pin(ID)
    assert stocked.summary(ID).metadata == {
        "tags": ["textile"],
        "pinned": True,
        "edited_fields": ["tags", "title"],
    }
    actions = [change.action for change in stocked.changes()]
    assert actions == ["pin", "untag", "tag", "rename"]
    assert [stocked.undo().action for _ in actions] == actions
    assert stocked.summary(ID) == before
    with pytest.raises(NotFound, match="nothing to undo"):
        stocked.undo()


def test_a_new_title_keeps_the_date_and_the_place_in_the_list(stocked: recollect.Library) -> None:
    stocked.add_conversation("newer", "Newer", messages=[{"role": "user", "content": "x"}])
    before = stocked.summary(ID)
    stocked.rename(ID, "Blankets")
    after = stocked.summary(ID)
    assert before.updated_at is not None and after.updated_at is not None
    assert after.updated_at - before.updated_at < timedelta(milliseconds=1)
    assert [s.title for s in stocked.conversation_page()[0]] == ["Newer", "Blankets"]


def test_undo_keeps_the_date_of_a_later_message(stocked: recollect.Library) -> None:
    stocked.rename(ID, "Blankets")
    stocked.add_message(ID, "user", "And now?")
    date = stocked.summary(ID).updated_at
    stocked.undo()
    after = stocked.summary(ID)
    assert after.title == "Quilts" and date is not None and after.updated_at is not None
    assert after.updated_at - date < timedelta(milliseconds=1)


def test_blank_titles_and_tags_are_refused(stocked: recollect.Library) -> None:
    for title in ("", "  "):
        with pytest.raises(InvalidInput, match="title: "):
            stocked.rename(ID, title)
    with pytest.raises(InvalidInput, match="tags: a tag must not be blank"):
        stocked.tag(ID, "hall", " ")
    assert stocked.changes() == []


def test_a_deletion_is_undone_without_loss(stocked: recollect.Library) -> None:
    stocked.pin(ID)
    before = stocked.conversation(ID)
    change = stocked.trash("3f2a9c")
    assert (change.action, change.id, change.title) == ("delete", ID, "Quilts")
    assert stocked.search(CANARY).total == 0
    with pytest.raises(NotFound):
        stocked.conversation(ID)
    assert stocked.undo(change.number) == change
    assert stocked.conversation(ID) == before
    assert stocked.search(CANARY).total == 1
    assert stocked.conversation_page(Filter(pinned=True))[1] == 1


def test_what_is_forgotten_or_redacted_cannot_be_undone(stocked: recollect.Library) -> None:
    stocked.trash(ID)
    stocked.forget(Selection.of(text="nobody wrote this"))
    assert stocked.changes() == []
    stocked.add_conversation("other", "Other", messages=[{"role": "user", "content": "hi"}])
    stocked.trash("other")
    stocked.redact()
    assert stocked.changes() == []


def files_with(place: str, text: str) -> list[Path]:
    files = [file for file in Path(place).rglob("*") if file.is_file()]
    return [file for file in files if text.encode() in file.read_bytes()]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_an_expired_copy_is_in_no_file(
    stocked: recollect.Library, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_UNDO_MINUTES", "0")
    stocked.trash(ID)
    assert stocked.changes() == []
    stocked.close()
    recollect.open(place).close()
    assert files_with(place, "Quilts") == []


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_copy_that_expires_while_the_library_is_open_is_deleted(
    stocked: recollect.Library, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "EXPIRY_INTERVAL", 0.0)
    monkeypatch.setattr(background, "PAUSE", 0.01)
    stocked.close()
    with recollect.open(place, background=True) as library:
        monkeypatch.setenv("RECOLLECT_UNDO_MINUTES", "0")
        library.trash(ID)
        thread = library._background
        assert thread is not None and thread._thread is not None
        thread._thread.join(60)
        assert files_with(place, "Quilts") == []


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_an_emptied_trash_is_in_no_file(stocked: recollect.Library, place: str) -> None:
    stocked.trash(ID)
    assert stocked.empty_trash() == 1
    stocked.close()
    assert files_with(place, "Quilts") == []


def test_a_prefix_is_resolved_to_the_id(stocked: recollect.Library) -> None:
    stocked.add_conversation(ID.replace("3f2a", "3f2b"))
    stocked.add_conversation("trip-lisbon")
    assert stocked.resolve_id(" 3f2a ") == ID
    assert stocked.resolve_id("trip") == "trip-lisbon"
    stocked.add_conversation("trip-lyon")
    with pytest.raises(AmbiguousId, match="trip-lisbon, trip-lyon") as error:
        stocked.resolve_id("trip")
    assert error.value.candidates == ("trip-lisbon", "trip-lyon")
    stocked.add_conversation("trip")
    assert stocked.resolve_id("trip") == "trip"
    for text in ("3f2", "", "nothing"):
        with pytest.raises(NotFound, match="has the id"):
            stocked.resolve_id(text)


# -- the imports of a deleted conversation ---


def export_of(path: Path, title: str, *texts: str) -> Path:
    messages = [{"id": f"m{n}", "role": "user", "content": text} for n, text in enumerate(texts)]
    updated_at = f"2025-01-0{len(texts)}"
    document = {"id": "trip", "title": title, "updated_at": updated_at, "messages": messages}
    path.write_text(json.dumps({"conversations": [document]}), encoding="utf-8")
    return path


@pytest.mark.both_stores
def test_a_conversation_or_note_that_was_restored_belongs_to_no_import(
    library: recollect.Library, tmp_path: Path
) -> None:
    note = tmp_path / "plan.md"
    note.write_text("Plant the beans.", encoding="utf-8")
    first = library.import_path(export_of(tmp_path / "1.json", "Oslo", "one", "two"))
    second = library.import_path(export_of(tmp_path / "2.json", "Bergen", "one", "2", "three"))
    third = library.import_path(note)
    before = list(library.documents())
    assert len(before) == 2
    for document in before:
        library.trash(document.id)
        library.undo()
    assert {d.id: d for d in library.documents()} == {d.id: d for d in before}
    for receipt in (third, second, first):
        library.undo_import(receipt.id)
    assert len(list(library.documents())) == 2
