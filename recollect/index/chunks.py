"""Long messages in parts: what one vector can still speak for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.settings import LIMITS

WORDS = 120
_CHARACTERS = 1_000  # for scripts without spaces, and for what is one long word
_PIECE = re.compile(r"\S{1,1000}\s*")


def split_text(text: str) -> list[str]:
    """The text in parts of at most 120 words or 1,000 characters; at most `embedded_parts` of them."""
    if len(text) <= _CHARACTERS and len(text.split()) <= WORDS:  # as most are
        return [text]
    return [part for _, part in zip(range(LIMITS.embedded_parts), _cut(text), strict=False)] or [""]


def _cut(text: str) -> Iterator[str]:
    start = end = words = 0
    for piece in _PIECE.finditer(text):
        if words == WORDS or (words and piece.end() - start > _CHARACTERS):
            yield text[start:end]
            start, words = piece.start(), 0
        end = piece.end()
        words += 1
    if words:
        yield text[start:end]
