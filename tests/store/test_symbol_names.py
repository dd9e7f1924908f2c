"""Names such as C++ and C# are found as such, not as the letter C."""

from __future__ import annotations

import pytest

import recollect
from recollect import SearchOptions
from recollect.language.symbols import spell_out_symbols, symbol_name
from recollect.language.text import tokens

TEXTS = {
    "cpp": "How do I free memory in C++17?",
    "pointer": "In C/C++, use a smart pointer.",
    "vitamin": "Vitamin C is good. Plan C is better.",
    "games": "I prefer C# over F# for games, plus it is sharp.",
    "grade": "She got an A+ in maths.",
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C++, C# and F#.", ["cplusplus", "csharp", "and", "fsharp"]),
        ("(C/C++17)", ["c", "cplusplus", "17"]),
        ("an A+ for g++", ["an", "aplus", "for", "gplusplus"]),
        ("Disney+ and abc++", ["disney", "and", "abc"]),
        ("x+y, C#d, C+++, C## and é+", ["x", "y", "c", "d", "c", "c", "and", "e"]),
        ("plan B\n# Heading, issue #12", ["plan", "b", "heading", "issue", "12"]),
    ],
)
def test_a_letter_with_symbols_is_a_word(text: str, words: list[str]) -> None:
    assert tokens(text) == words


def test_a_word_of_the_index_has_the_name_that_people_write() -> None:
    for name in ("c++", "c#", "a+"):
        assert symbol_name(spell_out_symbols(name).strip()) == name
    assert [symbol_name(word) for word in ("plus", "surplus", "sharp", "c")] == [""] * 4


@pytest.mark.both_stores
def test_names_with_symbols_are_found_as_typed(library: recollect.Library) -> None:
    for name, text in TEXTS.items():
        library.add_conversation(name, messages=[{"role": "user", "content": text}])
    library.index()
    expected = {
        "C++": {"cpp", "pointer"},
        '"c++"': {"cpp", "pointer"},
        "c#": {"games"},
        "csharp": {"games"},
        "A+": {"grade"},
        "C": {"vitamin", "pointer"},
    }
    for query, conversations in expected.items():
        page = library.search(query, options=SearchOptions(mode="text"))
        assert {hit.conversation_id for hit in page.hits} == conversations, query
        assert (page.total, page.note) == (len(conversations), ""), query
    page = library.search("cpp", options=SearchOptions(mode="text"))
    assert page.total == 2
    page = library.search("how do I free memory in C++?")
    first = page.hits[0]
    assert (first.conversation_id, first.terms) == ("cpp", ("free", "memory", "c++"))
    assert [first.snippet[start:end] for start, end in first.marks] == ["free", "memory", "C++"]
