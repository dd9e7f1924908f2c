"""Words with several spellings in English are found in all of them."""

from __future__ import annotations

import pytest

import recollect
from recollect.language.words.english_spellings import (
    joined_word,
    other_spelling,
    separate_words,
)
from recollect.model.search import SearchOptions


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("colour", "color"),
        ("favourites", "favorites"),
        ("neighbourhood", "neighborhood"),
        ("centred", "centered"),
        ("kilometres", "kilometers"),
        ("travelling", "traveling"),
        ("organise", "organize"),
        ("organisations", "organizations"),
        ("analysing", "analyzing"),
        ("grey", "gray"),
    ],
)
def test_a_word_has_a_british_and_an_american_spelling(british: str, american: str) -> None:
    assert (other_spelling(british), other_spelling(american)) == (american, british)


def test_most_words_have_one_spelling() -> None:
    words = ("four", "hour", "rise", "size", "wise", "prize", "entire", "parameter", "kitchen")
    assert [other_spelling(word) for word in words] == [""] * len(words)


def test_some_compounds_have_a_hyphen() -> None:
    assert [joined_word(word) for word in ("Wi-Fi", "T-shirts", "wifi", "well-known")] == [
        "wifi",
        "tshirts",
        "",
        "",
    ]
    assert separate_words("emails") == [("e", "mail"), ("e", "mails")]
    assert separate_words("mail") == []


@pytest.mark.both_stores
def test_a_search_finds_all_spellings(library: recollect.Library) -> None:
    texts = {
        "color": "The color of the Wi-Fi router is gray.",
        "colours": "The colours are grey, and the wifi works.",
        "mail": "I organized an e-mail in the mail room, where a fire is.",
        "emails": "Organising emails takes time.",
    }
    for name, text in texts.items():
        library.add_conversation(name, messages=[{"role": "user", "content": text}])
    expected = {
        "colour": {"color", "colours"},
        "what colors are there?": {"color", "colours"},
        "wifi": {"color", "colours"},
        "wi-fi": {"color", "colours"},
        "grey wi-fi": {"color", "colours"},
        "organise": {"mail", "emails"},
        "e-mails": {"mail", "emails"},
        "email": {"mail", "emails"},
    }
    for query, conversations in expected.items():
        page = library.search(query, options=SearchOptions(mode="text"))
        assert {hit.conversation_id for hit in page.hits} == conversations, query
        assert (page.total, page.matched, page.note) == (2, "all", ""), query
    page = library.search('"colour"', options=SearchOptions(mode="text"))
    assert page.hits == (), "quotes are exact"
