"""Literal search compared with SQL's LIKE on English text: no match is lost at any size."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import pytest

import recollect
from recollect.errors import SearchTimeout
from recollect.settings import LIMITS
from recollect.store.sqlite import passages

DOCS = Path(__file__).parents[1] / "docs"
QUERIES = (
    *("how to use", "in the", "of the message", "C++", "C#", ".com", "U.S.", "->", ":)", "`)", "§"),
    *(
        "e.g.",
        "it's",
        "it",
        "a",
        "://",
        "**",
        "--",
        "(s",
        "/api/v1",
        "é",
        "ü",
        "API key",
        "nowhere",
    ),
)
EXTRA = [
    "a C++ file",
    "F# or C#",
    "see U.S. law",
    "a -> b",
    "nice :)",
    "Café",
    "ÜBER",
    "caf\u0301e",
]


def english(count: int) -> list[str]:
    lines = [line for path in sorted(DOCS.glob("*.md")) for line in path.read_text().splitlines()]
    return list(islice(cycle([*EXTRA, *filter(str.strip, lines)]), count))


@pytest.fixture(
    params=[1_200, *(pytest.param(n, marks=pytest.mark.full) for n in (10_000, 40_000))]
)
def texts(request: pytest.FixtureRequest) -> list[str]:
    return english(request.param)


@pytest.fixture
def library(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[recollect.Library]:
    monkeypatch.setenv("RECOLLECT_EMBEDDINGS", "off")
    monkeypatch.setenv("RECOLLECT_INDEXING", "manual")
    with recollect.open() as library:
        rows = [{"role": "user", "content": text} for text in texts]
        for start in range(0, len(rows), 500):
            library.add_conversation(id=f"c{start}", title="", messages=rows[start : start + 500])
        yield library


def test_literal_search_finds_what_like_finds(library: recollect.Library, texts: list[str]) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("create table message (content text)")
    db.executemany("insert into message values (?)", [(text.casefold(),) for text in texts])
    like = "select content from message where content like ?"
    expected = {query: [text for (text,) in db.execute(like, (f"%{query}%",))] for query in QUERIES}
    for is_sealed in (False, True):
        if is_sealed:
            library._store.refresh()
        for query, matches in expected.items():
            assert library.find_text(query, limit=200).total == len(matches), query
            contents = [message.content.casefold() for message in library.recent(query, limit=200)]
            if matches:
                assert contents == matches[::-1][:200], query


@pytest.mark.parametrize("texts", [["nothing here"] * 50])
def test_a_literal_search_that_takes_too_long_is_an_error(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "LIMITS", replace(LIMITS, search_seconds=0.0))
    with pytest.raises(SearchTimeout, match="took too long"):
        library.find_text("g h")
