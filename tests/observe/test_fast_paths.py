"""Shortcuts in the rules give the same results as the plain rules."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from recollect.memory.observe import cues, pasted_text, prose, salience
from recollect.memory.observe.phrases import concepts
from recollect.memory.observe.salience import Salience
from recollect.memory.observe.sentence_words import (
    Cue,
    split_words,
    terms,
    terms_of_word,
    words_of_all,
)

_FRAGMENTS = st.sampled_from(
    [
        *"aZ1 .!?:;\"'\u201c\u2019\n\t`*_~[](){}<>=|\\$#@^/&+-\u2014\u2502\u65e5\U0001f600",
        *("I", "I'm", "OK", "AI", "USA", "NASA7", "McDonald", "New York", "'Dune'", "iPhone"),
        *("**", "~~", "](", "```", "~~~", "=>", "&&", "().", "--- ", "1) ", "a) ", "- ", "> "),
        *("let x = 1", "at f (", "2024-01-02 10:30", "caf\xe9", "<private>", "</private>", "\r"),
        *("KeyError: ", "E  x.Exception: ", ".> a", ": "),
        *("`code`", "` `", "`two words`", "[link](https://a.b/c)", "*emphasis*", "# ", "| "),
    ]
)
_TEXTS = st.lists(_FRAGMENTS, max_size=25).map("".join)

_PLAIN_NAME = re.compile(
    r"(?<![.!?:\"“]\s)(?<!^)\b(?!I\b|I'|OK\b|AI\b)[A-Z][\w'’-]*[a-z0-9][\w'’-]*|\b[A-Z]{2,6}\d*\b"
)
_PLAIN_MACHINE = re.compile(
    r"[;{}]\s*$|^\s*(?://|#!|/\*|\$ |>>> |\+\+\+|---|@@|\d+ [│|]|(?:const|let|var|import|from|def"
    r"|return|class|if \()\s?.*[=({;:])|[│┃━┌└├╭╰]|=>|&&|\(\)\.|^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|^\s*at \S+ \("
)


@given(_TEXTS)
def test_names_are_those_of_the_plain_pattern(text: str) -> None:
    assert salience._NAME.findall(text) == _PLAIN_NAME.findall(text)


@given(_TEXTS)
def test_a_text_without_the_start_of_a_quote_contains_no_quote(text: str) -> None:
    if not salience._QUOTES.search(text):
        assert not salience._QUOTED.search(text)


@given(_TEXTS)
def test_code_is_recognized_as_by_the_plain_pattern(sentence: str) -> None:
    text = re.sub(r"(`[^`\n]+`)", "", sentence)
    signs = len(re.findall(r"[{}\[\]<>=|\\$#@~^_;*/]", text))
    is_machine = _PLAIN_MACHINE.search(text) is not None or len(text) > 700
    expected = not is_machine and (signs * 9 <= len(text) or signs < 3)
    assert prose.is_prose(sentence) == expected


@given(_TEXTS)
def test_a_text_without_marks_of_output_contains_no_inline_output(text: str) -> None:
    if not any(mark in text for mark in pasted_text._MARKS_OF_INLINE_OUTPUT):
        assert not pasted_text._INLINE_OUTPUT.search(text)


def plain_lines(text: str) -> list[tuple[str, str]]:
    """What `prose._lines` must yield, with every pattern applied to every line."""
    lines = []
    text = prose._FENCE.sub("\n", prose._HIDDEN_TAG.sub(" ", text[: prose.MAX_LENGTH]))
    for raw_line in text.split("\n"):
        line = prose._QUOTE.sub("", raw_line)
        if prose._RULE.match(line) or prose._TABLE.match(line):
            lines.append(("", "break"))
            continue
        mark = ""
        heading = prose._HEADING.match(line)
        item = prose._ITEM.match(line)
        if heading is not None:
            line = line[heading.end() :]
            mark = "heading"
        elif prose._BOLD.match(line):
            mark = "heading"
        elif item is not None and item[0].strip():
            line = line[item.end() :]
            mark = "item"
        parts = prose._CODE.split(line)
        for number in range(0, len(parts), 2):
            part = prose._STRONG.sub("", prose._LINK.sub(r"\1", parts[number]))
            parts[number] = prose._EMPHASIS.sub(r"\1", part)
        lines.append((re.sub(r"\s+", " ", "".join(parts)).strip(), mark))
    return lines


@given(_TEXTS)
@example("a) item\nb. item\n(c) item\nA plain line\n\n  - nested")
def test_lines_are_those_of_all_patterns(text: str) -> None:
    assert list(prose._lines(text)) == plain_lines(text)


_CUES = [
    value
    for module in (cues, salience)
    for value in vars(module).values()
    if isinstance(value, Cue)
]
_CUE_WORDS = sorted({word for cue in _CUES for word in re.findall("[a-z']+", cue._pattern.pattern)})
_CUE_TEXTS = st.lists(
    st.tuples(st.sampled_from(_CUE_WORDS), st.sampled_from([" ", " ", "s ", "ing ", ". ", "_"])),
    min_size=1,
    max_size=6,
).map(lambda pairs: "".join(map("".join, pairs)))
_SYMBOLS = st.sampled_from([" \u2014 ", "\u2026", "\u2019", "\U0001f600", "caf\xe9 "])


@example("Two lessons ", "\u2026")
@example("in meinem Garten ", "\u2026")
@example("it reorganizes files ", "\u2026")
@given(_CUE_TEXTS, _SYMBOLS)
def test_a_cue_in_text_with_symbols_is_found_as_by_its_pattern(text: str, symbol: str) -> None:
    for words in (text + symbol, symbol + text, text.replace(" ", symbol, 1)):
        for cue in _CUES:
            if not words.isascii() and cue._pattern.search(words):
                assert cue.search(words)


@example("nah, use tabs")
@example("I cant stand it")
@given(_CUE_TEXTS)
def test_a_match_of_a_pattern_has_one_of_its_words(text: str) -> None:
    for cue in (cues.DECISION, cues.PREFERENCE, cues.PATTERN):
        assert (cue.search(text) is None) == (cue._pattern.search(text) is None)


@given(st.lists(_CUE_TEXTS, max_size=3))
def test_the_words_of_several_sentences_are_those_of_their_text(sentences: list[str]) -> None:
    assert words_of_all(sentences) == split_words(" ".join(sentences))


@given(st.lists(st.text(), max_size=3))
def test_the_terms_of_a_phrase_are_those_of_its_words(words: list[str]) -> None:
    assert terms(" ".join(words)) == sum(map(terms_of_word, words), ())


def test_empty_inline_code_is_not_a_concept() -> None:
    text = "Replace the indentation `  ` with the constant `MAX_DEPTH`"
    assert "MAX_DEPTH" in concepts([(text, 1.0)], Salience([[text]]))
