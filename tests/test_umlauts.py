"""Words with umlauts are found in both spellings, and English words stay what they are."""

from __future__ import annotations

import pytest
from texts import add_texts

import recollect
from recollect import SearchOptions

TEXTS = {
    "umlaut": "Frau Müller hat angerufen.",
    "letters": "Mueller comes tomorrow.",
    "size": "Welche Größe haben die Schuhe?",
    "groesse": "Groesse der Kiste: unbekannt.",
    "coast": "Søren called from Århus.",
    "aarhus": "Soeren moved to Aarhus.",
    "blu": "The Blu-ray player is broken.",
    "dos": "MS-DOS and the game are old.",
    "arial": "Arial is a font.",
    "pot": "The pot is on the stove.",
    "jo": "Jo likes tea.",
    "joe": "Joe likes coffee.",
    "plural": "Die Häuser am Fluss sind alt.",
    "title": "Im Titel steht mehr.",
    "islands": "ÆRØ and the kitchen of Bauer: neue queue.",
}


@pytest.fixture(params=["fresh", "embedded"])
def letters(library: recollect.Library, request: pytest.FixtureRequest) -> recollect.Library:
    add_texts(library, TEXTS)
    library.add_conversation(
        "titled", title="Kölner Dom", messages=[{"role": "user", "content": "Wie hoch?"}]
    )
    if request.param == "embedded":
        library.index()
    return library


def hits(library: recollect.Library, query: str, **options: bool) -> list[str]:
    page = library.search(query, options=SearchOptions(mode="text", **options))
    assert (page.note, page.corrections) == ("", {}), query
    return [hit.conversation_id for hit in page.hits]


@pytest.mark.both_stores
def test_a_search_finds_both_spellings_first_the_typed_one(letters: recollect.Library) -> None:
    expected = {
        "Mueller": ["letters", "umlaut"],
        "Müller": ["umlaut", "letters"],
        "groesse": ["groesse", "size"],
        "GRÖSSE": ["size", "groesse"],
        "soeren": ["aarhus", "coast"],
        "Søren": ["coast", "aarhus"],
        "Aarhus": ["aarhus", "coast"],
        "århus": ["coast", "aarhus"],
        "haeuser": ["plural"],
        "koelner": ["titled"],
        "Soren": ["coast"],
        "aerø": ["islands"],
    }
    for query, names in expected.items():
        assert hits(letters, query) == names, query


@pytest.mark.both_stores
def test_a_question_finds_both_spellings(letters: recollect.Library) -> None:
    for query in ("Wann hat Frau Mueller angerufen?", "Is Mueller there?"):
        assert "umlaut" in hits(letters, query)[:2], query
    for query in ("Wo ist Müller?", "What about Müller?"):
        assert "letters" in hits(letters, query)[:2], query


@pytest.mark.both_stores
def test_a_word_without_umlauts_in_the_library_is_no_other_spelling(
    letters: recollect.Library,
) -> None:
    page = letters.search("blue does aerial poet", options=SearchOptions(mode="text"))
    assert page.hits == ()
    assert hits(letters, "Joe") == ["joe"]


def test_an_unfinished_word_finds_both_spellings(letters: recollect.Library) -> None:
    assert set(hits(letters, "Muelle", typing=True)) == {"letters", "umlaut"}


def test_quotes_are_exact(letters: recollect.Library) -> None:
    assert hits(letters, '"Müller"') == ["umlaut"]
    assert hits(letters, '"Mueller"') == ["letters"]


def test_a_name_in_a_question_may_have_the_other_spelling(library: recollect.Library) -> None:
    for author, text in {"Jörg": "I planted leeks.", "Ann": "I planted roses."}.items():
        message = {"id": author, "role": "user", "author": author, "content": text}
        library.add_conversation(author, messages=[message])
    page = library.search("what did Joerg plant")
    first = page.hits[0]
    assert (first.message_id, "speaker" in first.parts) == ("Jörg", True)
    assert page.missing == ()
