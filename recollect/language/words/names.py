"""Names in a question, by their capital letters."""

from __future__ import annotations

from itertools import pairwise

from recollect.language.text import tokens

_MIN_NAME = 3  # letters
_SENTENCE_ENDS = (".", "?", "!", ":")


def names_in(text: str) -> set[str]:
    """The words of names in an English text. English capitalizes little else in a sentence."""
    words = text.split()
    if 2 * sum(word[0].isupper() for word in words) > len(words):
        return set()  # a title, in which everything is capitalized
    names: set[str] = set()
    for previous, word in pairwise(words):
        bare = word.lstrip("\"“‘'(")
        if bare[:1].isupper() and not previous.endswith(_SENTENCE_ENDS):
            names.update(name for name in tokens(bare) if len(name) >= _MIN_NAME)
    return names
