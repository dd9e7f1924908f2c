"""Splitting passages into parts that one vector can represent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from recollect.settings import LIMITS

WORDS = 120
CHARACTERS = 1_000  # limits scripts without spaces, and very long words
_WORD = re.compile(r"\S{1,1000}\s*")


def split_text(text: str) -> list[str]:
    """Split a text into at most `embedded_parts` parts of at most 120 words or 1,000 characters."""
    if len(text) <= CHARACTERS and len(text.split()) <= WORDS:  # the most frequent case
        return [text]
    return list(islice(_parts(text), LIMITS.embedded_parts)) or [""]


def _parts(text: str) -> Iterator[str]:
    start = end = words = 0
    for word in _WORD.finditer(text):
        if words == WORDS or (words and word.end() - start > CHARACTERS):
            yield text[start:end]
            start, words = word.start(), 0
        end = word.end()
        words += 1
    if words:
        yield text[start:end]
