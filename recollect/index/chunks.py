"""Splitting passages into parts that one vector can represent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from recollect.settings import LIMITS

WORDS = 120
_SHORT = 2 * WORDS  # characters; a text of more words is longer
CHARACTERS = 1_000  # limits scripts without spaces, and very long words
_WORD = re.compile(r"\s*\S{1,1000}\s*")
# The first group is where the words begin, the second one is the last word.
_UP_TO_120_WORDS = re.compile(r"\s*()(\S{1,1000}\s*){1,120}")


def split_text(text: str) -> list[str]:
    """Split a text into at most `embedded_parts` parts of at most 120 words or 1,000 characters."""
    if len(text) <= _SHORT or (len(text) <= CHARACTERS and len(text.split(None, WORDS)) <= WORDS):
        return [text]  # the most frequent case
    return list(islice(parts(text), LIMITS.embedded_parts)) or [""]


def parts(text: str) -> Iterator[str]:
    start, end = 0, end_of_part(text, 0)
    while end > start:
        yield text[start:end]
        start, end = end, end_of_part(text, end)


def end_of_part(text: str, start: int) -> int:
    """The end of the part that begins at `start`; `start` itself if there are no more words."""
    window = text[start : start + CHARACTERS + 1]
    first_words = window.split(None, WORDS)
    if len(first_words) > WORDS:  # the last one is the rest; this is faster than the pattern
        return start + len(window) - len(first_words[-1])
    if first_words and len(window) <= CHARACTERS:  # the rest of the text
        return len(text)
    words = _UP_TO_120_WORDS.match(text, start, start + CHARACTERS + 1)
    if words and words.end() <= start + CHARACTERS:
        return words.end()
    if words and words.start(2) > words.start(1):  # all but the last word fit
        return words.start(2)
    word = _WORD.match(text, start)  # a long word, or much white space around it
    if word is None:
        return start
    return word.end()
