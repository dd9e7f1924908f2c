"""Words with several spellings in English are found in all of them."""

from __future__ import annotations

import pytest
from texts import add_texts

import recollect
from recollect import SearchOptions

TEXT = SearchOptions(mode="text", correct=False)


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
def test_a_word_has_a_british_and_an_american_spelling(
    library: recollect.Library, british: str, american: str
) -> None:
    add_texts(library, {"british": f"The {british} one.", "american": f"The {american} one."})
    for query in (british, american):
        assert len(library.search(query, options=TEXT).hits) == 2, query


def test_most_words_have_one_spelling(library: recollect.Library) -> None:
    add_texts(library, {"words": "size four price hor"})
    for word in ("sise", "for", "prise", "hour"):
        assert library.search(word, options=TEXT).hits == (), word


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
