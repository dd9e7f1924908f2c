"""Sample files of every import format: each imports completely, and every visible word is found.

The samples in `tests/samples` are synthetic. They contain what is hard to parse: branches, hidden
messages, tool calls, attachments, old layouts and old encodings. `tests/samples/broken` contains
damaged files.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest
from selection import few

import recollect
from recollect import Document, Filter
from recollect.errors import RecollectError
from recollect.importers.chats.programs import DATABASES
from recollect.importers.registry import FORMATS, find
from recollect.language.queries.query_tree import Word
from recollect.model.receipts import Problem

SAMPLES = Path(__file__).parent / "samples"
EXAMPLES = Path(__file__).parents[1] / "examples"
BROWSER = "chatgpt-browser"
NAMES = [
    BROWSER,
    *sorted(f"samples/{p.name}" for p in SAMPLES.iterdir() if p.name != "broken"),
    *sorted(f"examples/{p.name}" for p in EXAMPLES.iterdir() if p.is_dir()),
]


def browser_database(path: Path) -> Path:
    """A working database of ChatGPT Browser, with a branch."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "create table conversations (id text primary key, create_time text, update_time text,"
            " title text)"
        )
        db.execute(
            "create table messages (id text primary key, conversation_id text, role text,"
            " content text, create_time text, update_time text, parent_id text)"
        )
        db.execute("insert into conversations values ('k', '1767261600', '1767261700', 'Kites')")
        db.executemany(
            "insert into messages values (?, 'k', ?, ?, ?, null, ?)",
            [
                ("k1", "user", '["Which knot holds a kite line?"]', "1767261600", "root"),
                ("k2", "assistant", '["A bowline."]', "1767261610", "k1"),
                ("k3", "assistant", '["A figure eight follow through."]', "1767261620", "k1"),
            ],
        )
    return path


@pytest.fixture
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file or folder that the parameter names."""
    if request.param == BROWSER:
        return browser_database(tmp_path / "chatgpt.db")
    folder, name = request.param.split("/")
    return {"samples": SAMPLES, "examples": EXAMPLES}[folder] / str(name)


def all_documents(library: recollect.Library) -> list[Document]:
    return list(library._store.iter_documents(Filter()))


@pytest.mark.parametrize("sample", NAMES, indirect=True)
def test_a_sample_imports_completely_and_only_once(
    library: recollect.Library, sample: Path
) -> None:
    receipt = library.import_path(sample)
    assert receipt.files
    for file in receipt.files:
        assert not file.conversations.failed, file
        assert not file.messages.failed, file
    documents = all_documents(library)
    assert sum(f.conversations.new for f in receipt.files) == len(documents)
    messages = sum(len(document.passages) for document in documents)
    assert sum(f.messages.new for f in receipt.files) == messages > 0

    again = library.import_path(sample)
    assert sum(f.messages.new + f.messages.changed for f in again.files) == 0
    assert sum(f.conversations.new + f.conversations.changed for f in again.files) == 0


@pytest.mark.parametrize("sample", few(NAMES, 5), indirect=True)
def test_every_visible_word_of_a_sample_is_found(library: recollect.Library, sample: Path) -> None:
    library.import_path(sample)
    keys_by_word: dict[str, set[int]] = defaultdict(set)
    for document in all_documents(library):
        for passage in document.passages:
            if passage.visibility != "hidden":
                key = library._store.passage_key(document.id, passage.id)
                for word in re.findall(r"[^\W_]+", passage.content):
                    keys_by_word[word].add(key)
    assert keys_by_word
    for word, keys in keys_by_word.items():
        matches = library._store.match(Word(word), Filter(), 1_000)
        assert keys <= set(matches), word
        assert library._store.count(Word(word), Filter()) == (len(matches), True)


def test_there_is_a_sample_of_every_format(tmp_path: Path) -> None:
    names = set()
    for path in (browser_database(tmp_path / "chatgpt.db"), *SAMPLES.iterdir()):
        if path.name != "broken":
            names |= {item[1].SOURCE.name for item in find(path) if not isinstance(item, Problem)}
    formats = [format_ for format_ in FORMATS if format_ not in DATABASES]  # these have own tests
    assert names == {format_.SOURCE.name for format_ in formats}


def test_no_sample_crashes_an_importer() -> None:
    for path in sorted(p for p in SAMPLES.rglob("*") if p.is_file()):
        try:
            for item in find(path):
                if not isinstance(item, Problem):
                    entry, format_ = item
                    assert all(isinstance(d, Document | Problem) for d in format_.read(entry))
        except RecollectError as error:
            assert str(error)
