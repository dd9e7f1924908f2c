"""No result contradicts the query, the total or what the reader may know."""

from __future__ import annotations

import pytest

import recollect
from recollect import Audience, SearchOptions
from recollect.errors import InvalidInput

TEXTS = {
    "mulch": "Tomatoes with mulch and compost.",
    "slugs": "Tomatoes and slugs.",
    "alone": "Tomatoes alone.",
}


@pytest.fixture
def garden(library: recollect.Library) -> recollect.Library:
    for name, text in TEXTS.items():
        message = {"role": "user", "author": name.title(), "content": text}
        library.add_conversation(name, messages=[message])
    return library


def hits(library: recollect.Library, query: str) -> list[str]:
    return sorted(hit.conversation_id for hit in library.search(query).hits)


def test_fields_need_a_word_besides_exclusions(garden: recollect.Library) -> None:
    for query in ("role:user -tomatoes", 'title:garden NOT "rain barrel"'):
        with pytest.raises(InvalidInput, match="there is no word to search for"):
            garden.search(query)


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("-tomatoes", "because it excludes something, but has no word to search for."),
        ("NOT tomatoes", "because it excludes something, but has no word to search for."),
        ('tomatoes "slugs', "because a quotation mark is not closed."),
        ("tomatoes AND", "because AND has nothing after it."),
        ("!?!", "because it has no words."),
    ],
)
def test_a_query_that_is_searched_as_text_says_why(
    garden: recollect.Library, query: str, note: str
) -> None:
    page = garden.search(query)
    assert page.matched == "literal"
    assert page.note.startswith("Searched") and note in page.note
    assert note in garden.knowledge.search(query)["note"]


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("tomatoes AND zebra", ("zebra",)),
        ("tomatoes OR zebr*", ("zebr*",)),
        ('"zebra crossing"', ("zebra crossing",)),
        ("NEAR(tomatoes zebra)", ("zebra",)),
        ("tomatoes -zebra", ()),
        ("tomatoes AND slugs", ()),
    ],
)
def test_words_that_no_message_has_are_named_in_queries_with_operators(
    garden: recollect.Library, query: str, missing: tuple[str, ...]
) -> None:
    page = garden.search(query)
    assert page.missing == missing
    assert all(f"“{word}”" in page.note for word in missing)


@pytest.mark.both_stores
def test_the_case_of_an_author_does_not_matter(garden: recollect.Library) -> None:
    assert hits(garden, "tomatoes from:slugs") == ["slugs"]
    assert hits(garden, "tomatoes -from:SLUGS") == ["alone", "mulch"]


@pytest.mark.both_stores
def test_an_agent_gets_no_correction_from_a_message_that_it_reads_masked(
    garden: recollect.Library,
) -> None:
    secret = "Mein Passwort lautet Wolkenkuckucksheim."
    message = {"role": "user", "content": secret, "visibility": "human_only"}
    garden.add_conversation("secret", messages=[message])
    for audience in Audience:
        page = garden.search("Wolkenkuckuckshiem", audience=audience)
        assert bool(page.corrections) == (audience is Audience.PERSON), audience


def test_a_search_by_meaning_says_that_the_model_knows_no_word(garden: recollect.Library) -> None:
    garden.index()
    with pytest.raises(InvalidInput, match="The model knows none of these words"):
        garden.search("数据库索引", options=SearchOptions(mode="vector"))
