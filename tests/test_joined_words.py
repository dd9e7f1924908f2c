"""A single word that no message contains finds longer words that are made of it."""

from __future__ import annotations

import pytest
from texts import add_texts

import recollect
from recollect import SearchOptions

TEXTS = {
    "companion": "Basil is a good companion for tomatoes.",
    "delegate": "She learned to delegate and is on vacation.",
    "service": "The PaymentService retries three times.",
    "timeout": "Set connecttimeout42 in the file.",
    "festival": "The film festival begins in June.",
    "invoice": "Das Rechnungsdatum fehlt auf der Rechnung.",
    "vacuum": "Autovacuum ran at night.",
}


@pytest.fixture
def notes(library: recollect.Library) -> recollect.Library:
    return add_texts(library, TEXTS)


def hits(library: recollect.Library, query: str) -> list[str]:
    page = library.search(query, options=SearchOptions(mode="text"))
    return [hit.conversation_id for hit in page.hits]


@pytest.mark.both_stores
def test_a_word_is_found_in_words_that_consist_of_words(notes: recollect.Library) -> None:
    assert hits(notes, "service") == ["service"]
    assert hits(notes, "timeout") == ["timeout"]
    assert hits(notes, "datum") == ["invoice"]  # the other part is a word of the library


@pytest.mark.both_stores
@pytest.mark.parametrize("word", ["anion", "legate", "cation", "estival"])
def test_a_word_is_not_found_where_it_is_only_letters(notes: recollect.Library, word: str) -> None:
    page = notes.search(word)
    assert (page.hits, page.total) == ((), 0)
    assert page.note == f"No message mentions “{word}”."


def test_the_beginning_of_a_word_finds_it(notes: recollect.Library) -> None:
    assert hits(notes, "autovac") == ["vacuum"]
    assert hits(notes, "festiv") == ["festival"]


def test_a_part_of_an_identifier_finds_it(notes: recollect.Library) -> None:
    assert hits(notes, "ntServ") == ["service"]


def test_a_part_is_found_only_if_it_is_the_whole_query(notes: recollect.Library) -> None:
    assert hits(notes, "service quagga") == []


def test_a_word_of_the_library_stands_for_itself(notes: recollect.Library) -> None:
    notes.add_conversation("word", messages=[{"role": "user", "content": "The service is down."}])
    assert hits(notes, "service") == ["word"]


@pytest.fixture
def german_notes(library: recollect.Library) -> recollect.Library:
    return add_texts(
        library,
        {
            "insurance": "Die Krankenversicherung ist nicht billig.",
            "dentist": "Der Zahnarzttermin ist am Donnerstag, und nicht am Freitag.",
            "meeting": "Der nächste Termin ist im Rathaus.",
            "gym": "Die Kündigung des Fitnessvertrags ist da.",
            "craftsman": "Die Handwerkerkosten sind hoch.",
            "cooking": "Die Kosten der Küche und die Zulassung sind bekannt.",
        },
    )


@pytest.mark.both_stores
def test_the_last_part_of_a_compound_finds_it(german_notes: recollect.Library) -> None:
    assert hits(german_notes, "Versicherung") == ["insurance"]
    assert hits(german_notes, "Lassung") == []  # the end of "Zulassung"


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("query", "conversation"),
    [
        ("Termin Zahnarzt", "dentist"),
        ("Kosten Handwerker", "craftsman"),
        ("Versicherung monatlich", "insurance"),
        ("Fitness Vertrag", "gym"),
        ("Wann war ich beim Zahnarzt?", "dentist"),
    ],
)
def test_words_find_the_compound_that_they_form_or_are_part_of(
    german_notes: recollect.Library, query: str, conversation: str
) -> None:
    assert hits(german_notes, query)[0] == conversation


def test_words_of_a_library_in_english_are_not_joined_in_another_order(
    library: recollect.Library,
) -> None:
    add_texts(library, {"keys": "The keyboard is new.", "wood": "The board is long."})
    assert hits(library, "board keyx") == ["wood"]
    assert hits(library, "zqboard key") == []
