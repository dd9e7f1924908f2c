"""Secrets are removed from everything that is written, and from what is stored already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contents import all_contents

import recollect
from recollect import Document, Filter, Passage
from recollect.cli import main
from recollect.language.queries.query import parse
from recollect.model.kinds import CONVERSATION

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
PLACEHOLDER = "[redacted:github-pat]"
EXPORT = {
    "conversations": [
        {
            "conversation_id": "c1",
            "title": f"about {SECRET}",
            "messages": [
                {
                    "message_id": "m1",
                    "role": "user",
                    "content": f"my token {SECRET}",
                    "metadata": {"raw": SECRET},
                },
                {"message_id": "m2", "role": "assistant", "content": "thank you"},
            ],
        }
    ]
}


@pytest.fixture
def redacting_library(place: str, monkeypatch: pytest.MonkeyPatch) -> recollect.Library:
    monkeypatch.setenv("RECOLLECT_REDACT", "on")
    return recollect.open(place)


def everything(library: recollect.Library) -> str:
    """All documents and receipts as text."""
    documents = library._store.iter_documents(
        Filter(kinds=("conversation", "note", "observation"), hidden=True)
    )
    return all_contents(list(documents)) + all_contents(library.receipts())


def matching_ids(library: recollect.Library, word: str) -> list[str]:
    keys = library._store.match(parse(f'"{word}"'), Filter(hidden=True), 10)
    return sorted(c.id for c in library._store.candidates(keys, Filter(hidden=True)))


def test_an_import_counts_the_secrets_it_removed(
    redacting_library: recollect.Library, tmp_path: Path
) -> None:
    (tmp_path / "export.json").write_text(json.dumps({"recollect": 1, **EXPORT}), encoding="utf-8")
    (tmp_path / "note.md").write_text(f"# Keys\n\n{SECRET}\n", encoding="utf-8")
    with redacting_library as library:
        receipt = library.import_path(tmp_path / "note.md", kind="notes")
        assert [file.redacted for file in receipt.files] == [{"github-pat": 1}]
        assert [file.redacted for file in library.receipts()[0].files] == [{"github-pat": 1}]
        again = library.import_path(tmp_path / "note.md", kind="notes")
        assert [file.conversations.same for file in again.files] == [1]
        assert SECRET not in everything(library)


def fill(library: recollect.Library, tmp_path: Path) -> None:
    """Store secrets in a conversation, a note, observations, and earlier states of imports."""
    conversation = Document(
        "test",
        "c1",
        f"my token {SECRET}"[:30],
        passages=(
            Passage("m1", "user", f"my token {SECRET}", metadata={"raw": SECRET}),
            Passage("m2", "assistant", "thank you", parent="m1"),
        ),
        metadata={"m": SECRET},
    )
    first = library._store.start_import("first")
    library._store.save([conversation], first.id)
    library._store.update_receipt(first)
    second = library._store.start_import("second")  # changes a message and keeps the old one
    other = Document("test", "c2", "Clean", passages=(Passage("n1", "user", f"old {SECRET}"),))
    library._store.save([other], first.id)
    library._store.save(
        [Document("test", "c2", "Clean", passages=(Passage("n1", "user", "new and clean"),))],
        second.id,
    )
    library._store.update_receipt(second)
    (tmp_path / "note.md").write_text(f"# Note\n\nold {SECRET}\n", encoding="utf-8")
    library.import_path(tmp_path / "note.md", kind="notes")
    (tmp_path / "note.md").write_text(f"# Note\n\nnew {SECRET} it is\n", encoding="utf-8")
    library.import_path(tmp_path / "note.md", kind="notes")
    library.index()


def test_a_report_names_documents_but_never_secrets(
    library: recollect.Library, tmp_path: Path
) -> None:
    fill(library, tmp_path)
    before = everything(library)
    redaction = library.redact(report=True)
    assert not redaction.done and everything(library) == before
    leak = next(leak for leak in redaction.documents if leak.id == "c1")
    assert (leak.kind, leak.messages, leak.kinds["github-pat"]) == (CONVERSATION, ("m1",), 3)
    assert SECRET[:12] not in repr(redaction)


def test_stored_secrets_are_removed_for_good(library: recollect.Library, tmp_path: Path) -> None:
    fill(library, tmp_path)
    version = library._store.summary("c1").version
    steps: list[tuple[str, int, int]] = []
    redaction = library.redact(progress=lambda *step: steps.append(step))
    assert redaction.done and redaction.kinds["github-pat"] >= 4 and redaction.states >= 1 and steps
    library.index()
    conversation = library.conversation("c1")
    assert [p.content for p in conversation.passages] == [f"my token {PLACEHOLDER}", "thank you"]
    assert conversation.passages[0].metadata == {"raw": PLACEHOLDER}
    assert conversation.metadata == {"m": PLACEHOLDER}
    assert conversation.version > version
    assert matching_ids(library, SECRET) == [] and "m1" in matching_ids(library, "github pat")
    assert SECRET[4:] not in everything(library)
    assert library.redact().documents == [] and library.redact().states == 0
    assert library.verify().healthy
    # Undoing imports does not bring a secret back.
    for receipt in sorted(library.receipts(), key=lambda r: -r.id):
        library.undo_import(receipt.id)
        assert SECRET[4:] not in everything(library)
    assert library.conversation_page(Filter.of(kinds=("conversation", "note")))[1] == 0


def files_containing(place: str, text: str) -> list[Path]:
    files = [path for path in Path(place).rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_no_file_contains_a_redacted_secret(place: str, tmp_path: Path) -> None:
    with recollect.open(place) as library:
        fill(library, tmp_path)
    with recollect.open(place) as library:
        assert files_containing(place, SECRET)
        library.redact()
        for text in (SECRET, SECRET[4:], SECRET[4:].lower()):
            assert files_containing(place, text) == []


def test_the_redact_command_reports_and_redacts(
    library: recollect.Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(library, tmp_path)
    assert main(["redact", "--report"]) == 0
    report = capsys.readouterr().out
    assert "github-pat" in report and "Nothing was changed" in report and SECRET[:12] not in report
    assert main(["redact", "--report", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert not result["done"] and {d["id"] for d in result["documents"]} >= {"c1"}
    assert main(["redact"]) == 0
    assert "Redacted" in capsys.readouterr().out
    assert main(["redact"]) == 0
    assert "No secrets" in capsys.readouterr().out
