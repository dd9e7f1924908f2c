"""Snippets: the part of a message around its matches."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect import SearchOptions
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import Word, words
from recollect.search.snippets import snippet


def mark_matches(content: str, query: str, length: int = 60) -> str:
    """The snippet, with brackets around every match."""
    text, marks = snippet(content, words(parse(query)), length)
    for start, end in reversed(marks):
        text = text[:start] + "[" + text[start:end] + "]" + text[end:]
    return text


@pytest.mark.parametrize(
    ("content", "query", "expected"),
    [
        ("How to use asyncio", "ASYNCIO", "How to use [asyncio]"),
        ("asyncio and asyncios", "asyncio", "[asyncio] and asyncios"),
        ("deployed and deploys", "deploy*", "[deploy]ed and [deploy]s"),
        ("call asyncio.gather(a, b)", "asyncio.gather()", "call [asyncio.gather](a, b)"),
        ("a\n\n  b\tc", "b", "a [b] c"),
        ("café au lait", "cafe", "[café] au lait"),
        ("Das Ausdehnungsgefäß leckt", "ausdehnungsgefass", "Das [Ausdehnungsgefäß] leckt"),
        ("Lange Straße, lange STRASSE", "Straße", "Lange [Straße], lange [STRASSE]"),
        ("the ﬁrst oﬃce", "first office", "the [ﬁrst] [oﬃce]"),
        ("ticket PROJ-1234 of PROJ", "PROJ PROJ-1234", "ticket [PROJ-1234] of [PROJ]"),
        ("これは非同期処理です", "非同期", "これは[非同期]処理です"),
        ("这是蓝色自行车和自行", "自行 行车", "这是蓝色[自行车]和[自行]"),
        ("강아지와 고양이", "고양", "강아지와 [고양]이"),
        ("강아지", "고양", "강아지"),
        ("はかを見た", "ばか", "はかを見た"),
        ("x -> y", "->", "x [->] y"),
        ("nothing to see", "absent", "nothing to see"),
        ("snake_case_name", "case", "snake_[case]_name"),
        ("", "word", ""),
    ],
)
def test_matches_are_marked(content: str, query: str, expected: str) -> None:
    assert mark_matches(content, query) == expected


def test_a_match_deep_inside_a_message_is_shown_with_its_context() -> None:
    content = "filler " * 50_000 + "the needle is here " + "filler " * 100
    text = mark_matches(content, "needle")
    assert text.startswith("…") and text.endswith("…")
    assert "[needle] is here" in text


def test_the_snippet_shows_the_part_with_the_most_matches() -> None:
    content = "alpha alone " + "filler " * 100 + "alpha with beta and gamma"
    text = mark_matches(content, "alpha beta gamma")
    assert "[alpha] with [beta] and [gamma]" in text


def test_different_words_count_more_than_the_same_word_in_several_forms() -> None:
    content = (
        "test the tests, testing a test " + "filler " * 2_000 + "why the tests are failing now"
    )
    text, _ = snippet(content, [Word(w) for w in ("test", "tests", "testing", "failing", "fail")])
    assert "why the tests are failing now" in text


def test_a_whole_identifier_counts_as_much_as_its_parts() -> None:
    filler = "filler text here " * 20
    content = f"src and pool {filler} at src/db/pool.ts:48 {filler}"
    assert "[src/db/pool.ts]" in mark_matches(content, "src pool src/db/pool.ts")


def test_a_snippet_of_a_message_with_100_000_matches_is_short() -> None:
    assert len(snippet("a " * 100_000, [Word("a")])[0]) < 300


@pytest.mark.parametrize("length", [20, 60, 100])
def test_a_snippet_does_not_skip_a_match_inside_a_long_word(length: int) -> None:
    content = "x" * 200 + "/needle tail " + "filler " * 50
    assert "[needle] " in mark_matches(content, "needle", length)


@given(st.text(max_size=400), st.text(min_size=1, max_size=10), st.integers(20, 200))
def test_a_snippet_has_a_maximum_length_and_contains_its_marks(
    content: str, word: str, length: int
) -> None:
    text, marks = snippet(content, [Word(word)], length)
    assert len(text) <= length + 2
    assert all(0 <= start < end <= len(text) for start, end in marks)


def test_a_rare_word_is_shown_after_many_matches_of_a_frequent_one() -> None:
    lines = [f"step {number}: copied table number {number}" for number in range(900)]
    text = "\n".join([*lines, "step 900: table zebra_orders failed with E7781"])
    for query in (["table", "failed", "e7781"], ["table", "zebra orders"]):
        assert "zebra_orders" in snippet(text, [Word(word) for word in query], 160)[0]


@pytest.mark.parametrize(
    ("word", "query"),
    [
        ("résumé", "resume"),
        ("Übergröße", "übergrösse"),
        ("façade", '"la façade"'),
        ("чайник", "чайник"),
        ("한국어", "한국어"),
        ("がんばる", "がんばる"),
    ],
)
def test_a_word_in_decomposed_unicode_is_shown_and_marked(
    library: recollect.Library, word: str, query: str
) -> None:
    decomposed = unicodedata.normalize("NFD", word)
    assert decomposed != word
    content = "one two " * 200 + f"la {decomposed} end" + " three four" * 200
    library.add_conversation("c", messages=[{"role": "user", "content": content}])
    library.knowledge.create("notes", {"title": "Note", "content": content})
    library.index()
    for each in (query, unicodedata.normalize("NFD", query)):
        (hit,) = library.search(each, options=SearchOptions(mode="text")).hits[:1]
        (excerpt,) = library.match_expression(each).hits
        for result in (hit, excerpt):
            start, end = result.marks[-1]
            assert result.snippet[start:end].removeprefix("la ") == decomposed
            assert result.start > 500
        (note,) = library.knowledge.search(each, sources=("notes",))["results"]
        assert decomposed in note["snippet"]
        assert note["loc"]["approx_offset"] > 1_000


def test_a_word_is_not_marked_inside_a_word_in_decomposed_unicode() -> None:
    text = unicodedata.normalize("NFD", "résumés, résumé")
    marked = unicodedata.normalize("NFC", mark_matches(text, "sume OR resume"))
    assert marked == "résumés, [résumé]"
