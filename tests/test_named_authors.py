"""A query that names an author finds what that author wrote."""

from __future__ import annotations

import pytest

import recollect


def add_dialogue(library: recollect.Library, id: str, *messages: tuple[str, str]) -> None:
    fields = [
        {"id": f"{id}-{number}", "role": "user", "author": author, "content": text}
        for number, (author, text) in enumerate(messages)
    ]
    library.add_conversation(id, messages=fields)


@pytest.fixture
def garden(library: recollect.Library) -> recollect.Library:
    text = "I planted three rows of leeks in the garden."
    for author in ("Kofi", "Ines Duarte", "Will Duarte", "Ada Mae"):
        add_dialogue(library, author, ("Bo", "And you?"), (author, text), ("Bo", "Good."))
    library.index()
    return library


@pytest.mark.parametrize(
    "query",
    ["what did ines plant in the garden", "What did Will plant in the garden?", "Kofi garden"],
)
@pytest.mark.parametrize("group", ["message", "conversation"])
def test_what_the_named_author_wrote_comes_first(
    garden: recollect.Library, query: str, group: str
) -> None:
    (hit,) = garden.search(query, limit=1, group=group).hits
    assert str(hit.author).split()[0].lower() in query.lower()
    assert "leeks" in hit.snippet


def test_a_usual_word_is_the_name_of_an_author_only_with_a_capital(
    garden: recollect.Library,
) -> None:
    for query, is_named in {
        "What did Will plant in the garden?": True,
        "What will you plant in the garden?": False,
    }.items():
        hits = garden.search(query, limit=30).hits
        parts = next(hit.parts for hit in hits if hit.message_id == "Will Duarte-1")
        assert ("speaker" in parts) == is_named


def test_the_name_of_an_author_is_not_a_missing_word(garden: recollect.Library) -> None:
    page = garden.search("which leeks did Ines plant and Otto water")
    assert page.missing == ("otto", "water")
