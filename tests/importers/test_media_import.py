"""Media in a library: import, search, import again, change."""

from __future__ import annotations

import os
from pathlib import Path

from builders import cues_of, seconds_at, text_of
from mediafiles import BOOK, pdf, write_zip

from recollect import Filter, Library

SRT = (
    "1\n00:00:01,000 --> 00:00:02,000\nOwls fly.\n\n"
    "2\n00:01:03,500 --> 00:01:05,000\nAt midnight.\n"
)


def test_media_of_many_kinds_are_found_and_imported_once(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir()
    write_zip(folder / "book.epub", BOOK)
    pdf(folder / "paper.pdf", [["Owls see well."], ["Kestrels hover."]])
    (folder / "talk.srt").write_text(SRT)
    (folder / "scan.pdf").write_bytes(pdf(tmp_path / "scan.pdf", [[]]).read_bytes())
    receipt = library.import_path(folder)
    assert sum(file.conversations.new for file in receipt.files) == 3
    assert sum(sum(file.conversations.failed.values()) for file in receipt.files) == 1
    [hit] = library.search("midnight", Filter.of(kinds=["media"])).hits
    assert (hit.conversation_id, hit.kind, hit.title) == ("talk", "media", "talk")
    item = library.conversation("talk")
    assert [cue.start for cue in cues_of(item.passages)] == [1.0, 63.5]
    assert seconds_at(item.passages[0], text_of(item.passages).index("midnight")) == 63.5
    again = library.import_path(folder)
    assert sum(file.conversations.same for file in again.files) == 3
    assert sum(file.conversations.new + file.conversations.changed for file in again.files) == 0


def test_a_corrected_transcript_replaces_the_old_one(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    path.write_text(SRT)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    library.import_path(path)
    path.write_text(SRT.replace("midnight", "dusk"))
    library.import_path(path)
    assert text_of(library.conversation("talk").passages) == "Owls fly. At dusk. "
    assert not library.search("midnight").hits
