"""A look at a message around what matched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.query import Word, parse, words
from recollect.search.snippet import snippet


def marked(content: str, query: str, length: int = 60) -> str:
    shown, marks = snippet(content, words(parse(query)), length)
    for start, end in reversed(marks):
        shown = shown[:start] + "[" + shown[start:end] + "]" + shown[end:]
    return shown


@pytest.mark.parametrize(
    ("content", "query", "expected"),
    [
        ("How to use asyncio", "ASYNCIO", "How to use [asyncio]"),
        ("asyncio and asyncios", "asyncio", "[asyncio] and asyncios"),
        ("deployed and deploys", "deploy*", "[deploy]ed and [deploy]s"),
        ("call asyncio.gather(a, b)", "asyncio.gather()", "call [asyncio.gather](a, b)"),
        ("a\n\n  b\tc", "b", "a [b] c"),
        ("café au lait", "cafe", "[café] au lait"),
        ("これは非同期処理です", "非同期", "これは[非同期]処理です"),
        ("x -> y", "->", "x [->] y"),
        ("nothing to see", "absent", "nothing to see"),
        ("snake_case_name", "case", "snake_[case]_name"),
        ("", "word", ""),
    ],
)
def test_matches_are_marked(content: str, query: str, expected: str) -> None:
    assert marked(content, query) == expected


def test_a_match_deep_inside_is_shown_with_what_surrounds_it() -> None:
    shown = marked("filler " * 50_000 + "the needle is here " + "filler " * 100, "needle")
    assert shown.startswith("…") and shown.endswith("…")
    assert "[needle] is here" in shown


def test_the_window_holds_the_most_matches() -> None:
    shown = marked(
        "alpha alone " + "filler " * 100 + "alpha with beta and gamma", "alpha beta gamma"
    )
    assert "[alpha] with [beta] and [gamma]" in shown


def test_ten_thousand_matches_cost_no_more_than_a_few() -> None:
    assert len(snippet("a " * 100_000, [Word("a")])[0]) < 300


@given(st.text(max_size=400), st.text(min_size=1, max_size=10), st.integers(20, 200))
def test_a_snippet_is_bounded_and_its_marks_lie_inside(
    content: str, text: str, length: int
) -> None:
    shown, marks = snippet(content, [Word(text)], length)
    assert len(shown) <= length + 2
    assert all(0 <= start < end <= len(shown) for start, end in marks)
