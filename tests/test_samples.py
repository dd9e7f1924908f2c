"""Real exports, where they are at hand: every one imports with a true receipt, and every word is found.

The files lie beside the project in `shared/samples`; without them these tests are skipped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import recollect
from recollect.model import Document, Filter, Problem
from recollect.query import Word

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"
FORMATS = ["chatgpt", "claude_code", "codex", "synthetic/claude_ai_export.zip"]

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the sample exports are not at hand")


def visible(document: Document) -> dict[str, str]:
    return {
        p.id: p.content
        for p in document.passages
        if p.visibility != "hidden" and p.role in ("user", "assistant")
    }


@pytest.mark.parametrize("name", FORMATS)
def test_samples_import_with_a_true_receipt(library: recollect.Library, name: str) -> None:
    receipt = library.import_path(SAMPLES / name)
    assert receipt.files
    for file in receipt.files:
        assert not file.conversations.failed and not file.messages.failed, file
    stats = library.stats()
    new = sum(f.conversations.new for f in receipt.files)
    assert new == stats["conversations"] + stats["notes"]  # type: ignore[operator]
    assert sum(f.messages.new for f in receipt.files) == sum(
        len(d.passages) for d in library.every()
    )
    again = library.import_path(SAMPLES / name)
    assert sum(f.messages.new + f.messages.changed for f in again.files) == 0
    assert sum(f.conversations.new + f.conversations.changed for f in again.files) == 0


@pytest.mark.parametrize("name", FORMATS)
def test_every_visible_word_of_a_sample_is_found(library: recollect.Library, name: str) -> None:
    library.import_path(SAMPLES / name)
    places: dict[str, set[int]] = defaultdict(set)
    for document in library.every():
        for id_, content in visible(document).items():
            key = library.store.key(document.id, id_)
            for word in re.findall(r"[^\W_]+", content):
                places[word].add(key)
    said = Filter(roles=("user", "assistant"))
    for word, keys in places.items():
        found = library.store.match(Word(word), said, 1_000)
        assert keys <= set(found), word
        assert library.store.count(Word(word), said) == (len(found), True)


@pytest.mark.parametrize(
    "path", sorted(p for p in SAMPLES.rglob("*") if p.is_file()), ids=lambda p: p.name
)
def test_no_sample_of_any_format_breaks_an_importer(path: Path) -> None:
    from recollect.errors import RecollectError
    from recollect.importers import find

    try:
        for item in find(path):
            if not isinstance(item, Problem):
                entry, format_ = item
                assert all(isinstance(d, (Document, Problem)) for d in format_.read(entry))
    except RecollectError as error:
        assert str(error)
