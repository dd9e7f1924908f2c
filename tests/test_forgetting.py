"""`recollect forget` deletes what a selection matches, everywhere, and keeps it away."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Document, Selection
from recollect.errors import InvalidInput, NotFound

CANARY = "zebraquagga"
EXPORT: dict[str, Any] = {
    "format": "recollect",
    "version": 2,
    "conversations": [
        {
            "id": "trip",
            "title": "Plans for the trip",
            "messages": [
                {"id": "a", "role": "user", "content": f"My doctor is {CANARY}."},
                {"id": "b", "role": "assistant", "content": "I see."},
                {"id": "c", "role": "user", "content": f"Call {CANARY.upper()} again."},
                {"id": "d", "role": "assistant", "content": f"{CANARY}s are animals."},
            ],
        },
        {
            "id": "work",
            "title": f"About {CANARY}",
            "messages": [{"id": "e", "role": "user", "content": "Deploy it."}],
        },
    ],
}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(EXPORT))
    return path


@pytest.fixture
def stocked(library: recollect.Library, export: Path) -> recollect.Library:
    library.import_path(export)
    return library


def contents(library: recollect.Library) -> dict[str, list[str]]:
    documents = library.documents()
    return {document.id: [p.id for p in document.passages] for document in documents}


def counts(report: Any) -> tuple[int, int, int, int, int]:
    return (
        report.conversations,
        report.changed_conversations,
        report.messages,
        report.items,
        report.titles,
    )


SELECTIONS: dict[
    str, tuple[dict[str, Any], tuple[int, int, int, int, int], dict[str, list[str]]]
] = {
    "message": (
        {"conversations": "trip", "messages": "b"},
        (0, 1, 1, 0, 0),
        {"trip": ["a", "c", "d"], "work": ["e"]},
    ),
    "span": (
        {"conversations": "trip", "first": "b", "last": "c"},
        (0, 1, 2, 0, 0),
        {"trip": ["a", "d"], "work": ["e"]},
    ),
    "conversation": ({"conversations": "trip"}, (1, 0, 4, 0, 0), {"work": ["e"]}),
    "source": ({"sources": "recollect"}, (2, 0, 5, 0, 0), {}),
    "word": (
        {"text": CANARY.title()},
        (0, 2, 2, 0, 1),
        {"trip": ["b", "d"], "work": ["e"]},
    ),
    "phrase": (
        {"text": f"call  {CANARY}"},
        (0, 1, 1, 0, 0),
        {"trip": ["a", "b", "d"], "work": ["e"]},
    ),
    "pattern": (
        {"pattern": rf"(?i){CANARY}s?\b"},
        (0, 2, 3, 0, 1),
        {"trip": ["b"], "work": ["e"]},
    ),
    "word in one conversation": (
        {"conversations": "trip", "text": CANARY},
        (0, 1, 2, 0, 0),
        {"trip": ["b", "d"], "work": ["e"]},
    ),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_preview_and_the_deletion_count_the_same(stocked: recollect.Library, name: str) -> None:
    values, expected, remaining = SELECTIONS[name]
    before = contents(stocked)
    selection = Selection.of(**values)
    preview = stocked.forget(selection, dry_run=True)
    assert (preview.done, counts(preview)) == (False, expected)
    assert preview.examples
    assert contents(stocked) == before
    report = stocked.forget(selection)
    assert (report.done, counts(report)) == (True, expected)
    assert contents(stocked) == remaining
    assert not stocked.forget(Selection.of(text=CANARY, sources="nowhere"))


@pytest.mark.parametrize("name", ["message", "conversation", "word"])
def test_what_was_forgotten_is_not_imported_again(
    stocked: recollect.Library, export: Path, name: str
) -> None:
    values, _, remaining = SELECTIONS[name]
    stocked.forget(Selection.of(**values))
    receipt = stocked.import_path(export)
    assert contents(stocked) == remaining
    assert sum(receipt.files[0].messages.skipped.values()) > 0


@pytest.mark.both_stores
def test_a_text_is_forgotten_in_versions_that_undoing_an_import_would_restore(
    library: recollect.Library, tmp_path: Path
) -> None:
    versions = [("2024-01-01", f"The {CANARY} of the first version"), ("2024-06-01", "Another one")]
    for date, text in versions:
        message = {"id": "m", "role": "user", "content": text}
        other = {"id": "n", "role": "user", "content": "A second message"}
        conversation = {"id": "c", "updated_at": date, "messages": [message, other]}
        path = tmp_path / f"{date}.json"
        path.write_text(json.dumps({"conversations": [conversation]}), encoding="utf-8")
        library.import_path(path)
    selection = Selection.of(text=CANARY)
    preview = library.forget(selection, dry_run=True)
    assert (counts(preview), preview.earlier_versions) == ((0, 0, 0, 0, 0), 1)
    assert library.forget(selection).earlier_versions == 1
    assert not library.forget(selection, dry_run=True)
    library.undo_import(library.receipts()[0].id)
    assert not library.forget(selection, dry_run=True)
    assert not library.search(CANARY).hits


def test_dates_select_messages_of_every_kind(library: recollect.Library) -> None:
    library.add_conversation(
        "old",
        messages=[
            {"id": "1", "role": "user", "content": "x", "created_at": "2020-01-01T10:00:00Z"},
            {"id": "2", "role": "user", "content": "y", "created_at": "2021-01-01T10:00:00Z"},
        ],
    )
    report = library.forget(Selection.of(before="2020-12-31"))
    assert counts(report) == (0, 1, 1, 0, 0)
    assert contents(library) == {"old": ["2"]}


def test_an_item_is_forgotten_as_a_whole(library: recollect.Library) -> None:
    library.knowledge.create("notes", {"title": "Garden", "content": f"{CANARY} and more"})
    library.knowledge.create("notes", {"title": "Other", "content": "something else"})
    assert counts(library.forget(Selection.of(text=CANARY), dry_run=True)) == (0, 0, 0, 1, 0)
    library.forget(Selection.of(text=CANARY, kinds="note"))
    assert len(contents(library)) == 1


def test_a_title_that_quotes_a_forgotten_message_goes_with_it(library: recollect.Library) -> None:
    library.add_conversation(
        "c",
        "My PIN is 4711",
        messages=[
            {"id": "1", "role": "user", "content": "My PIN is 4711 by the way"},
            {"id": "2", "role": "user", "content": "thanks"},
        ],
    )
    library.forget(Selection.of(conversations="c", messages="1"))
    assert library.summary("c").title == ""


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"text": " "},
        {"conversations": "trip", "text": ""},
        {"conversations": "trip", "pattern": ""},
        {"conversations": "trip", "first": "", "last": ""},
        {"conversations": ()},
        {"messages": "a"},
        {"conversations": ("trip", "work"), "messages": "a"},
        {"conversations": "trip", "first": "a"},
        {"conversations": "trip", "first": "c", "last": "a"},
        {"pattern": "("},
        {"pattern": r"(a)\1"},
        {"kinds": "thing"},
        {"text": "x" * 2_000},
    ],
)
def test_an_empty_or_wrong_selection_is_refused(
    stocked: recollect.Library, values: dict[str, Any]
) -> None:
    before = contents(stocked)
    with pytest.raises(InvalidInput):
        stocked.forget(Selection.of(**values))
    assert contents(stocked) == before


@pytest.mark.parametrize(
    "values",
    [{"conversations": "nowhere"}, {"conversations": "trip", "messages": "nowhere"}],
)
def test_unknown_ids_are_an_error(stocked: recollect.Library, values: dict[str, Any]) -> None:
    with pytest.raises(NotFound):
        stocked.forget(Selection.of(**values))


def test_an_interrupted_run_forgets_the_rest_the_next_time(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.transfer.forgetting._MAX_BATCH_DOCUMENTS", 2)
    for number in range(6):
        library.add_conversation(f"c{number}", messages=[{"role": "user", "content": CANARY}])
    selection = Selection.of(text=CANARY)
    forget, batches = library._store.forget, []

    def forget_twice(removals: Any) -> Any:
        batches.append(removals)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return forget(removals)

    with monkeypatch.context() as patch:
        patch.setattr(library._store, "forget", forget_twice)
        with pytest.raises(KeyboardInterrupt):
            library.forget(selection)
    assert len(contents(library)) == 4
    assert library.forget(selection).conversations == 4
    assert contents(library) == {}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_no_file_contains_a_forgotten_word(
    stocked: recollect.Library, export: Path, place: str
) -> None:
    stocked.index()
    stocked.forget(Selection.of(pattern=f"(?i){CANARY}"))
    stocked.close()
    for folder, _, names in os.walk(place):
        for name in names:
            data = (Path(folder) / name).read_bytes()
            assert CANARY.encode() not in data.lower(), name


# -- the archive ---


def archive_copy(library: recollect.Library, folder: Path, document: Document) -> Path:
    path = folder / "session.jsonl"
    path.write_text('{"text": "x"}\n')
    library.archive.keep(path, "tool/session.jsonl", [(document.source, document.source_id)])
    return path


def test_copies_in_the_archive_are_deleted_and_not_made_again(
    stocked: recollect.Library, tmp_path: Path
) -> None:
    document = stocked.conversation("trip")
    path = archive_copy(stocked, tmp_path, document)
    assert len(stocked.archive.files()) == 1
    report = stocked.forget(Selection.of(conversations="trip", messages="a"))
    assert report.archived_files == 1
    name = (document.source, document.source_id)
    assert not stocked.archive.keep(path, "tool/session.jsonl", [name])
    assert stocked.archive.files() == []
    assert stocked.archive.deleted([name]) == set()  # its new messages are still imported
    stocked.forget(Selection.of(conversations="trip"))
    assert stocked.archive.deleted([name]) == {name}


# -- the command ---


def test_the_command_shows_a_preview_and_changes_nothing_without_yes(
    stocked: recollect.Library, run: Any
) -> None:
    report = json.loads(run("forget", "--text", CANARY, "--json"))
    assert (report["done"], report["messages"], report["titles"]) == (False, 2, 1)
    text = run("forget", "--text", CANARY, fails=True)
    assert "Add --yes" in text
    assert contents(stocked)["trip"] == ["a", "b", "c", "d"]
    text = run("forget", "--text", CANARY, "--yes")
    assert "Forgotten: 2 messages, parts of 2 conversations, 1 title." in text
    assert "Backups" in text
    assert "Nothing matches" in run("forget", "--text", CANARY)


def test_the_command_needs_a_condition(stocked: recollect.Library, run: Any) -> None:
    assert "Say what to forget" in run("forget", "--yes", fails=True)
    assert "blank" in run("forget", "--text", " ", "--yes", fails=True)


@pytest.mark.parametrize("condition", [("--text", ""), ("--regex", ""), ("--from", "", "--to", "")])
def test_an_empty_variable_of_a_script_does_not_forget_a_whole_conversation(
    stocked: recollect.Library, run: Any, condition: tuple[str, ...]
) -> None:
    assert "is blank" in run("forget", "trip", *condition, "--yes", fails=True)
    assert contents(stocked)["trip"] == ["a", "b", "c", "d"]
