"""A library without secrets: whichever way they come, and when they are there already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import recollect
from recollect.cli import main
from recollect.errors import InvalidInput
from recollect.language.query import parse
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
MARK = "[redacted:github-pat]"
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
def redacting(place: str, monkeypatch: pytest.MonkeyPatch) -> recollect.Library:
    monkeypatch.setenv("RECOLLECT_REDACT", "on")
    return recollect.open(place)


def everything(library: recollect.Library) -> str:
    documents = library.store.iter_documents(
        Filter(kinds=("conversation", "note", "observation"), hidden=True)
    )
    return repr(list(documents)) + repr(library.receipts())


def found(library: recollect.Library, word: str) -> list[str]:
    keys = library.store.match(parse(f'"{word}"'), Filter(hidden=True), 10)
    return sorted(c.id for c in library.store.candidates(keys, Filter(hidden=True)))


def test_every_way_in_takes_secrets_out(redacting: recollect.Library, tmp_path: Path) -> None:
    with redacting as library:
        library.add_conversation(
            "c",
            f"it is {SECRET}",
            messages=[{"role": "user", "content": f"a {SECRET}"}],
            metadata={"m": SECRET},
        )
        library.add_message("c", "user", f"b {SECRET}", id="again")
        library.add_message("c", "user", f"b {SECRET}", id="again")  # the same, once more
        library.update_conversation("c", f"now {SECRET}")
        library.update_conversation("c", metadata={"more": SECRET})
        thread = library.thread("topic")
        passage, _ = library.post(thread.id, "Ann", f"c {SECRET}")
        assert passage.content == f"c {MARK}"
        library.record(thread.id, [Passage("r", "user", f"d {SECRET}")])
        note = library.knowledge.create("notes", {"title": "Note", "content": f"e {SECRET}"})
        library.knowledge.edit("notes", note.id, {"content": f"f {SECRET}"})
        deleted = library.delete_conversation("c")
        library.restore_conversation(deleted)
        library.index()
        assert SECRET not in everything(library) and MARK in everything(library)
        assert found(library, SECRET) == [] and "again" in found(library, "github pat")
        assert library.conversation("c").title == f"now {MARK}"


def test_an_import_counts_what_it_took_out(redacting: recollect.Library, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(json.dumps({"recollect": 1, **EXPORT}), encoding="utf-8")
    (tmp_path / "note.md").write_text(f"# Keys\n\n{SECRET}\n", encoding="utf-8")
    with redacting as library:
        receipt = library.import_path(tmp_path / "note.md", kind="notes")
        assert [file.redacted for file in receipt.files] == [{"github-pat": 1}]
        assert [file.redacted for file in library.receipts()[0].files] == [{"github-pat": 1}]
        again = library.import_path(tmp_path / "note.md", kind="notes")
        assert [file.conversations.same for file in again.files] == [1]
        assert SECRET not in everything(library)


def test_nothing_is_taken_out_unless_it_is_set(library: recollect.Library) -> None:
    library.add_conversation("c", messages=[{"role": "user", "content": SECRET}])
    assert library.conversation("c").passages[0].content == SECRET


def test_a_setting_that_is_none_is_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_REDACT", "perhaps")
    with pytest.raises(InvalidInput, match="'perhaps' is not one of on, off"):
        recollect.open(place)


def filled(library: recollect.Library, tmp_path: Path) -> None:
    """Secrets in a conversation, a note, what was observed, and what imports would put back."""
    talk = Document(
        "test",
        "c1",
        f"my token {SECRET}"[:30],
        passages=(
            Passage("m1", "user", f"my token {SECRET}", metadata={"raw": SECRET}),
            Passage("m2", "assistant", "thank you", parent="m1"),
        ),
        metadata={"m": SECRET},
    )
    first = library.store.start_import("first")
    library.store.save([talk], first.id)
    library.store.finish_import(first)
    second = library.store.start_import("second")  # it changes a message, and keeps what it was
    other = Document("test", "c2", "Clean", passages=(Passage("n1", "user", f"old {SECRET}"),))
    library.store.save([other], first.id)
    library.store.save(
        [Document("test", "c2", "Clean", passages=(Passage("n1", "user", "new and clean"),))],
        second.id,
    )
    library.store.finish_import(second)
    (tmp_path / "note.md").write_text(f"# Note\n\nold {SECRET}\n", encoding="utf-8")
    library.import_path(tmp_path / "note.md", kind="notes")
    (tmp_path / "note.md").write_text(f"# Note\n\nnew {SECRET} it is\n", encoding="utf-8")
    library.import_path(tmp_path / "note.md", kind="notes")
    library.index()


def test_a_report_says_where_and_never_what(library: recollect.Library, tmp_path: Path) -> None:
    filled(library, tmp_path)
    before = everything(library)
    made = library.redact(report=True)
    assert not made.done and everything(library) == before
    assert {d.id: (d.kind, d.messages and d.kinds["github-pat"]) for d in made.documents}["c1"] == (
        CONVERSATION,
        3,
    )
    assert made.documents[0].messages == ("m1",)
    assert SECRET[:12] not in repr(made)


def test_what_is_stored_already_is_redacted_for_good(
    library: recollect.Library, tmp_path: Path
) -> None:
    filled(library, tmp_path)
    version = library.store.summary("c1").version
    steps: list[tuple[str, int, int]] = []
    made = library.redact(progress=lambda *step: steps.append(step))
    assert made.done and made.kinds["github-pat"] >= 4 and made.states >= 1 and steps
    library.index()
    talk = library.conversation("c1")
    assert [p.content for p in talk.passages] == [f"my token {MARK}", "thank you"]
    assert talk.passages[0].metadata == {"raw": MARK} and talk.metadata == {"m": MARK}
    assert talk.version > version
    assert found(library, SECRET) == [] and "m1" in found(library, "github pat")
    assert SECRET[4:] not in everything(library)
    assert library.redact().documents == [] and library.redact().states == 0
    assert library.verify().healthy
    for receipt in sorted(
        library.receipts(), key=lambda r: -r.id
    ):  # taking back brings no secret back
        library.undo_import(receipt.id)
        assert SECRET[4:] not in everything(library)
    assert library.conversations(kinds=("conversation", "note"))[1] == 0


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_redacted_secret_is_in_no_file(place: str, tmp_path: Path) -> None:
    with recollect.open(place) as library:
        filled(library, tmp_path)
    with recollect.open(place) as library:
        held = [
            f for f in Path(place).rglob("*") if f.is_file() and SECRET.encode() in f.read_bytes()
        ]
        assert held
        library.redact()
        for known in (SECRET.encode(), SECRET[4:].encode(), SECRET[4:].lower().encode()):
            assert [
                f for f in Path(place).rglob("*") if f.is_file() and known in f.read_bytes()
            ] == []


def test_the_command_reports_and_redacts(
    library: recollect.Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(library, tmp_path)
    assert main(["redact", "--report"]) == 0
    shown = capsys.readouterr().out
    assert "github-pat" in shown and "Nothing was changed" in shown and SECRET[:12] not in shown
    assert main(["redact", "--report", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert not listed["done"] and {d["id"] for d in listed["documents"]} >= {"c1"}
    assert main(["redact"]) == 0
    assert "Redacted" in capsys.readouterr().out
    assert main(["redact"]) == 0
    assert "No secrets" in capsys.readouterr().out
