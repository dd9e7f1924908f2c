"""The words of texts. Those of the last short texts are remembered.

While somebody types, or asks several questions about one topic, searches rank the same messages
again and again, and splitting them into words is a good part of the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from recollect.language.text import tokens

# They bound the memory: about 10 MB for messages of the usual length, at most 40 MB.
_MAX_TEXTS = 2_000
_MAX_CHARACTERS = 2_000


def words_of(text: str) -> Sequence[str]:
    """The words of a text, as the index has them."""
    if len(text) > _MAX_CHARACTERS:
        return tokens(text)
    return _words_of_short(text)


@lru_cache(_MAX_TEXTS)
def _words_of_short(text: str) -> tuple[str, ...]:
    return tuple(tokens(text))
