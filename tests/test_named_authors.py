"""A query that names an author also finds what that author wrote, however much others wrote."""

from __future__ import annotations

import pytest

import recollect
from recollect.model.search import Filter, SearchOptions
from recollect.search.candidates import arms, sizes

QUESTION = "What did Ines plant in the garden?"
ANSWER = (
    "The bus was late again, so the tickets for the match were gone and we watched it at the pub, "
    "where my brother lost ten pounds to the man who repairs the lifts in his office. On Sunday we "
    "drove to the coast for oysters, and the phone fell into the water. Before that there was only "
    "time for two rows of leeks in the garden."
)


def add_dialogue(library: recollect.Library, id: str, *messages: tuple[str, str]) -> None:
    fields = [
        {"id": f"{id}-{number}", "role": "user", "author": author, "content": text}
        for number, (author, text) in enumerate(messages)
    ]
    library.add_conversation(id, messages=fields)


@pytest.fixture
def crowd(library: recollect.Library, monkeypatch: pytest.MonkeyPatch) -> recollect.Library:
    """Many messages that have more words of the question, or are more like it, than the answer."""
    monkeypatch.setattr(sizes, "CANDIDATES", 5)
    monkeypatch.setattr(sizes, "MATCHES_OF_QUESTION", 10)
    monkeypatch.setattr(sizes, "ALWAYS_RANKED", 2)
    monkeypatch.setattr(sizes, "_LARGE_LIBRARY", 30)
    for number in range(25):
        text = f"What did you plant in the garden? I did plant number {number}."
        add_dialogue(library, f"other {number}", ("Kofi", text), ("Ada Mae", "Good."))
    greetings = [("Ines Duarte", f"Hello! {number}") for number in range(12)]
    add_dialogue(library, "greetings", *greetings)
    add_dialogue(library, "dialogue", ("Ada Mae", "And you?"), ("Ines Duarte", ANSWER))
    library.index()
    return library


def first_hit(library: recollect.Library, query: str, **options: str) -> str:
    page = library.search(query, options=SearchOptions(limit=5, **options))
    return page.hits[0].message_id


@pytest.mark.parametrize("query", ["what did ines plant in the garden", "Ines garden"])
@pytest.mark.parametrize("group", ["message", "conversation"])
def test_what_the_named_author_wrote_comes_first(
    crowd: recollect.Library, query: str, group: str
) -> None:
    assert first_hit(crowd, query, group=group) == "dialogue-1"


def test_a_surname_and_words_alone_name_an_author(crowd: recollect.Library) -> None:
    assert first_hit(crowd, "Which garden does Duarte have?", mode="text") == "dialogue-1"


def test_an_author_with_the_name_of_a_usual_word_is_named_with_a_capital(
    crowd: recollect.Library,
) -> None:
    add_dialogue(crowd, "will", ("Ada Mae", "And you?"), ("Will Duarte", ANSWER))
    for query, is_ranked in {
        "What did Will plant in the garden?": True,
        "What will you plant in the garden?": False,
    }.items():
        hits = crowd.search(query, options=SearchOptions(limit=30)).hits
        parts = next(hit.parts for hit in hits if hit.message_id == "will-1")
        assert ("speaker" in parts) == bool(parts) == is_ranked


def test_without_a_name_messages_with_more_words_come_first(crowd: recollect.Library) -> None:
    hits = crowd.search("What did we plant in the garden?", options=SearchOptions(limit=5)).hits
    assert {hit.author for hit in hits} == {"Kofi"}


def test_an_author_is_not_searched_for_if_the_filter_names_others(
    crowd: recollect.Library,
) -> None:
    page = crowd.search(QUESTION, Filter.of(authors=["Kofi"]), SearchOptions(limit=5))
    assert {hit.author for hit in page.hits} == {"Kofi"}


def test_every_message_with_a_word_is_still_a_hit_on_some_page(crowd: recollect.Library) -> None:
    pages = [
        crowd.search(QUESTION, options=SearchOptions(mode="text", limit=10, offset=offset))
        for offset in range(0, 30, 10)
    ]
    ids = [hit.message_id for page in pages for hit in page.hits]
    assert len(ids) == len(set(ids)) == 26
    assert "dialogue-1" in ids
    assert {page.total for page in pages} == {26}


def test_an_author_is_known_as_soon_as_they_have_written(crowd: recollect.Library) -> None:
    question = QUESTION.replace("Ines", "Bo")
    assert first_hit(crowd, question) != "new-0"
    add_dialogue(crowd, "new", ("Bo", ANSWER))
    assert first_hit(crowd, question) == "new-0"


@pytest.mark.parametrize("query", [QUESTION, "ines garden"])
def test_in_a_library_with_very_many_authors_names_are_only_words(
    crowd: recollect.Library, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(arms, "MOST_AUTHORS", 2)
    assert first_hit(crowd, query) != "dialogue-1"


def test_the_name_of_an_author_is_not_a_missing_word(library: recollect.Library) -> None:
    add_dialogue(library, "garden", ("Ines Duarte", "I planted roses."), ("Kofi", "Lovely roses!"))
    library.index()
    page = library.search("which roses did Ines plant and Otto water")
    assert page.hits[0].message_id == "garden-0"
    assert page.missing == ("otto", "water")
