"""The parts of a passage, each of which gets a vector."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from recollect.index.refresh import CHARACTERS, WORDS, split_text
from recollect.settings import LIMITS


def plain_parts(text: str) -> list[str]:
    """What `split_text` must return, word by word."""
    if len(text) <= CHARACTERS and len(text.split()) <= WORDS:
        return [text]
    parts = []
    start = end = words = 0
    for word in re.finditer(r"\S{1,1000}\s*", text):
        if words == WORDS or (words and word.end() - start > CHARACTERS):
            parts.append(text[start:end])
            start, words = word.start(), 0
        end = word.end()
        words += 1
    if words:
        parts.append(text[start:end])
    return parts[: LIMITS.embedded_parts] or [""]


_SPACES = st.sampled_from(
    [" ", " ", " ", "", "\n", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", " " * 999, "\n" * 1_002]
)
_WORDS = st.sampled_from(
    ["a", "bb", "word", "\u2019", "\u65e5\u672c", "\U0001f600", "x" * 50, "y" * 999, "z" * 2_001]
)


@given(st.lists(st.tuples(_SPACES, _WORDS, st.integers(1, 130))))
def test_a_text_is_split_as_a_plain_implementation_does(runs: list[tuple[str, str, int]]) -> None:
    text = "".join((space + word) * min(count, 3_000 // len(word)) for space, word, count in runs)
    assert split_text(text) == plain_parts(text)


def test_parts_together_are_the_text() -> None:
    text = "The boats lay in the harbour until the storm had passed. " * 100
    assert "".join(split_text(text)) == text
    assert all(len(part.split()) <= WORDS for part in split_text(text))
