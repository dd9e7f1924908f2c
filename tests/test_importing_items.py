"""Import notes, prompts and characters, import them again, change them, undo the import."""

from __future__ import annotations

import json
import os
import threading
import zipfile
from pathlib import Path

import pytest

import recollect
from recollect import Document, Filter, Library, SearchOptions
from recollect.cli import main
from recollect.errors import ImportStopped
from recollect.importers.items import fields_of, text_of
from recollect.importers.registry import find
from recollect.knowledge import exporting
from recollect.model.receipts import Problem


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    write(
        folder / "plan.md",
        "---\ntitle: Garden plan\ntags: [garden]\n---\n\nPlant the beans. #spring",
        1,
    )
    write(folder / "sub/thoughts.txt", "Raspberries like shade.", 1)
    write(folder / ".obsidian/app.json", "{}", 1)
    return folder


def write(path: Path, text: str, day: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_700_000_000 + day * 86_400, 1_700_000_000 + day * 86_400))
    return path


def text(library: Library, id: str) -> str:
    return text_of(library._store.document(id).passages)


def titles(library: Library) -> list[str]:
    return sorted(d.title for d in library._store.iter_documents(Filter()))


def test_importing_a_vault_twice_changes_nothing(library: Library, vault: Path) -> None:
    receipt = library.import_path(vault)
    assert [(f.name, f.format, f.conversations.new) for f in receipt.files] == [
        ("plan.md", "notes", 1),
        ("sub/thoughts.txt", "notes", 1),
    ]
    note = library._store.document("plan")
    assert (note.title, note.kind, note.metadata["tags"]) == (
        "Garden plan",
        "note",
        ["garden", "spring"],
    )
    assert text(library, "sub/thoughts") == "Raspberries like shade."
    again = library.import_path(vault / "sub", vault / "plan.md")
    assert [(f.conversations.new, f.conversations.same) for f in again.files] == [(0, 1), (0, 1)]


def test_a_changed_note_is_rewritten_and_its_import_can_be_undone(
    library: Library, vault: Path
) -> None:
    first = library.import_path(vault)
    write(vault / "plan.md", "Peas instead.", 2)
    second = library.import_path(vault)
    assert [f.conversations.changed for f in second.files] == [0, 1]
    assert text(library, "plan") == "Peas instead."
    assert not library.search("beans", options=SearchOptions(mode="text")).hits
    library.undo_import(second.id)
    assert text(library, "plan") == "Plant the beans. #spring"
    assert library.search("beans", options=SearchOptions(mode="text")).hits
    library.undo_import(first.id)
    assert titles(library) == []


def test_an_uploaded_note_is_recognized_in_another_upload_folder(
    library: Library, tmp_path: Path
) -> None:
    for number in (1, 2):
        job = tmp_path / f"job {number}"
        write(job / "idea.md", "Beans", number)
        with zipfile.ZipFile(job / "vault.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo("sub/idea.md", (2024, 1, 1, 0, 0, 0)), "Peas")
        receipts = [
            library.import_path(job / name, within=job) for name in ("idea.md", "vault.zip")
        ]
        assert [receipt.files[0].conversations.new for receipt in receipts] == [
            2 - number,
            2 - number,
        ]
        assert [receipt.files[0].conversations.same for receipt in receipts] == [
            number - 1,
            number - 1,
        ]
    assert {d.id: d.source_id for d in library._store.iter_documents(Filter())} == {
        "idea": "idea.md",
        "vault/sub/idea": "vault.zip!sub/idea.md",
    }


def test_prompts_and_characters_are_searchable_by_field(library: Library, tmp_path: Path) -> None:
    write(
        tmp_path / "x/p.json",
        json.dumps([{"name": "Pirate", "user_prompt": "Speak like one", "keywords": ["sea"]}]),
        1,
    )
    write(
        tmp_path / "x/c.json",
        json.dumps({"name": "Zoë", "first_mes": "Salut", "description": "Owns a café"}),
        1,
    )
    library.import_path(tmp_path / "x")
    assert fields_of(library._store.document("Pirate").passages)["user_prompt"] == "Speak like one"
    (hit,) = library.search("café", options=SearchOptions(mode="text")).hits
    assert (hit.title, hit.role, hit.type) == ("Zoë", "description", "field")


# -- command line --------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["import", "--no-index", *arguments]) == 0
    return capsys.readouterr().out


def test_the_receipt_counts_items_and_parts(
    place: str, vault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, str(vault))
    assert "items" in out
    assert "conversations" not in out
    assert "2 parts" in run(capsys, "--list")


# -- export --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "formats"),
    [
        (
            "a.md",
            "---\ntitle: A\ntags: [b]\nmood: good\naliases: x\n---\n\n\nText #d [[E]]\n",
            ["md"],
        ),
        (
            "a.json",
            json.dumps(
                {"name": "N", "system_prompt": "S", "user_prompt": "U\n", "keywords": ["k"]}
            ),
            ["json", "md"],
        ),
        (
            "a.json",
            json.dumps({"name": "Zoë", "first_mes": "Salut", "description": "Owns a café"}),
            ["json"],
        ),
    ],
    ids=["note", "prompt", "character"],
)
def test_an_exported_item_is_the_same_when_imported_again(
    tmp_path: Path, name: str, content: str, formats: list[str]
) -> None:
    first = only(write(tmp_path / name, content, 1))
    for format_ in formats:
        path = tmp_path / f"again.{format_}"
        path.write_bytes(exporting.export(first, format_).data)
        again = only(path)
        assert (again.title, again.kind) == (first.title, first.kind)
        assert [(p.role, p.content) for p in again.passages] == [
            (p.role, p.content) for p in first.passages
        ]
        for key in ("tags", "links", "aliases", "front_matter"):
            assert again.metadata.get(key) == first.metadata.get(key)


def only(path: Path) -> Document:
    ((entry, format_),) = (item for item in find(path) if not isinstance(item, Problem))
    (document,) = (item for item in format_.read(entry) if isinstance(item, Document))
    return document


@pytest.mark.both_stores
def test_a_stopped_import_of_notes_is_resumed_with_the_same_numbers(
    library: Library, vault: Path
) -> None:
    stop = threading.Event()

    def stop_at_the_end(file: str, done: int, total: int) -> None:
        if done == total:
            stop.set()

    with pytest.raises(ImportStopped):
        library.import_path(vault, progress=stop_at_the_end, stop=stop, job="job")
    assert [receipt.finished_at for receipt in library.receipts()] == [None]
    receipt = library.import_path(vault, job="job")
    assert library.receipts() == [receipt]
    assert receipt.finished_at is not None
    assert sum(file.conversations.new for file in receipt.files) == 2
    assert sum(file.messages.new for file in receipt.files) == 2
    assert sum(file.messages.same for file in receipt.files) == 0


# -- an export with several kinds ---


@pytest.fixture
def mixed_export(tmp_path: Path, vault: Path) -> Path:
    """Recollect's own export of a conversation and two notes."""
    export = tmp_path / "mine.json"
    with recollect.open(tmp_path / "other") as other:
        other.import_path(vault, kind="notes")
        other.add_conversation("c", messages=[{"role": "user", "content": "hello"}])
        assert other.export(export) == 3
    return export


@pytest.mark.both_stores
def test_a_receipt_counts_each_kind_of_an_export(library: Library, mixed_export: Path) -> None:
    receipt = library.import_path(mixed_export)
    assert receipt.files[0].kinds == {"conversation": 1, "note": 2}
    assert (receipt.units, receipt.files[0].conversations.new) == (("items", "parts"), 3)
    assert receipt.contents == "1 conversation, 2 notes"
    (stored,) = library.receipts()
    assert stored.contents == receipt.contents
    library.export(mixed_export, Filter.of(kinds="conversation"))
    plain = library.import_path(mixed_export)
    assert (plain.units, plain.contents) == (("conversations", "messages"), "")
