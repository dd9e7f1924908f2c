"""`from:` with a part of an author's name finds what that author wrote."""

from __future__ import annotations

import pytest

import recollect
from recollect import Audience

AUTHORS = (
    "Anna Müller",
    "Anna Maria Weiß",
    "Conan O'Brien",
    "田中太郎",
    "Soehne AG",
    "Ben",
    "Ben Ali",
)


def add(library: recollect.Library, id: str, author: str, **fields: str) -> None:
    message = {
        "id": id,
        "role": "user",
        "author": author,
        "content": f"The castle of day {id}.",
        **fields,
    }
    library.add_conversation(id, messages=[message])


@pytest.fixture
def dialogue(library: recollect.Library) -> recollect.Library:
    for number, author in enumerate(AUTHORS):
        add(library, f"{number}", author)
    return library


@pytest.mark.both_stores
@pytest.mark.parametrize("words", ["", "castle "])
def test_a_part_of_a_name_finds_what_the_author_wrote(
    dialogue: recollect.Library, words: str
) -> None:
    expected = {
        "from:müller": {"0"},
        "From:anna": {"0", "1"},
        "from:anna,ben": {"0", "1", "5"},
        "from:mueller": {"0"},
        "from:Söhne": {"4"},
        'from:"Anna Weiss"': {"1"},
        "from:brien": {"2"},
        "from:田中": {"3"},
        "from:ali": {"6"},
    }
    for query, ids in expected.items():
        page = dialogue.search(f"{words}{query}")
        assert ({hit.message_id for hit in page.hits}, page.note) == (ids, ""), query
        answer = dialogue.knowledge.search(f"{words}{query}", sources=["chats"])
        assert {result["message_id"] for result in answer["results"]} == ids, query


def test_a_part_of_a_name_excludes_an_author(dialogue: recollect.Library) -> None:
    hits = dialogue.search("castle -from:anna -from:brien,田中").hits
    assert {hit.message_id for hit in hits} == {"4", "5", "6"}


def test_a_name_that_no_author_has_is_noted(dialogue: recollect.Library) -> None:
    note = dialogue.search("castle from:annabel").note
    assert note.startswith("No message is by an author named “annabel”. Authors: ")


@pytest.mark.both_stores
def test_agents_do_not_learn_the_whole_name_of_an_author(library: recollect.Library) -> None:
    add(library, "secret", "Beatrix Weiß", visibility="human_only")
    hits = library.search("castle from:beatrix", audience=Audience.PERSON).hits
    assert [hit.message_id for hit in hits] == ["secret"]
    note = library.search("castle from:beatrix", audience=Audience.AGENT_HIDDEN).note
    assert note.endswith("No message is by an author named “beatrix”.")
