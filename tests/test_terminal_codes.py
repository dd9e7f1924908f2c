"""Codes that a terminal interprets, such as colours, are no part of a text that is searched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import words
from recollect.language.symbols import (
    CODE_STARTS,
    has_terminal_codes,
    position_with_codes,
    without_terminal_codes,
)
from recollect.language.text import for_model, indexable, printable, tokens
from recollect.search.snippets import best_match, excerpt_at, first_match, snippet_at

LINE = "\x1b[31m\x1b[1mFailed\x1b[22m\x1b[39m tests: \x1b[33mERR_AUTH\x1b[0m_FAILED"
PIECES = [
    "a",
    "Ab ",
    "é",
    "日",
    "[",
    "33m",
    "m",
    "]",
    "\x1b",
    "\x1b[0m",
    "\x1b[1C",
    "\x9b",
    "\ufffd",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[33mFailed\x1b[0m tests", "Failed tests"),
        ("\x1b[38;2;136;1;1mred\x1b[39m and \x1b[1mbold\x1b[22m", "red and bold"),
        ("un\x1b[01;31m\x1b[Kfail\x1b[m\x1b[Ked", "unfailed"),
        ("12\x1b[1Cpassed\x1b[5Gin\x1b[2;1H3 s", "12 passed in 3 s"),
        ("\x1b[?25l\x1b[2Kready\x1b[?25h", "ready"),
        ("\x1b]0;a window\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ here", "link here"),
        ("\x1bP1$r0m\x1b\\text", "text"),
        ("\x1b(B\x1b[mtext\x1b7\x1b8\x1bc", "text"),
        ("\x9b1;31mred\x9b0m", "red"),
        ("\ufffd[33mFailed\ufffd[0m tests", "Failed tests"),
        ("\ufffd[01;31m\ufffd[Kerror\ufffd[m\ufffd[K: x", "error: x"),
    ],
)
def test_codes_are_left_out(text: str, expected: str) -> None:
    assert without_terminal_codes(text) == expected
    assert has_terminal_codes(text)
    assert indexable(text) == expected.lower()
    assert tokens(text) == tokens(expected)
    assert tokens(text) == tokens(expected)
    assert printable(text) == for_model(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a pool of [33m] and [33mm",
        "print('\\x1b[33mFailed\\033[0m')",
        "width\ufffd[3m], \ufffd[Kommentar], \ufffd[m]",
        "\x9bHello and \x9b0,5 m",
        "\x1b]0;a title without an end\nand the next line",
        "press \x1b and type",
        "日本語 \ufffd",
    ],
)
def test_what_may_be_a_text_stays(text: str) -> None:
    assert without_terminal_codes(text) == text
    assert not has_terminal_codes(text)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_every_character_has_its_place_in_the_stored_text(text: str) -> None:
    plain = without_terminal_codes(text)
    places = [position_with_codes(text, position) for position in range(len(plain))]
    assert places == sorted(set(places))
    for character, place in zip(plain, places, strict=True):
        assert text[place] == character or (character == " " and text[place] == "\x1b")
    assert (plain != text) <= has_terminal_codes(text)
    assert not has_terminal_codes(text) or any(start in text for start in CODE_STARTS)


def test_many_codes_without_an_end_take_linear_time() -> None:
    for start in ("\x1b]", "\x1bP", "\x1b[", "\ufffd["):
        assert without_terminal_codes(start * 200_000 + "x" * 200_000).endswith("x")


def marked(text: str, marks: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[start:end] for start, end in marks]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("failed", ["Failed", "FAILED"]),
        ('"failed tests"', ["Failed tests"]),
        ("test*", ["test"]),
        ("ERR_AUTH_FAILED", ["ERR_AUTH_FAILED"]),
    ],
)
def test_a_snippet_has_no_codes_and_marks_the_words(query: str, expected: list[str]) -> None:
    query_words = words(parse(query))
    start, text, marks = snippet_at(LINE, query_words, 240)
    assert text == "Failed tests: ERR_AUTH_FAILED"
    assert LINE[start:].startswith("Failed")
    assert marked(text, marks) == expected
    start, text, marks = excerpt_at(LINE, query_words, 20)
    assert text == "Failed tests: ERR_AUTH_FAILED"
    assert "Failed" in LINE[start:]
    assert marked(text, marks)[0].startswith(expected[0])


def test_places_of_matches_are_those_in_the_stored_text() -> None:
    text = "\x1b[2m.\x1b[22m " * 500 + LINE + " \x1b[2m.\x1b[22m" * 500
    query = words(parse("failed tests"))
    start, snippet, marks = snippet_at(text, query, 100)
    assert marked(snippet, marks) == ["Failed", "tests", "FAILED"]
    assert snippet.startswith("….") and snippet.endswith(".…") and "\x1b" not in snippet
    assert text[start] == "."
    for place in (first_match(text, query), best_match(text, query, 100)):
        assert place == text.index("Failed")
