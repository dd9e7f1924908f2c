"""Spelling: the words that are one edit away from a word."""

from __future__ import annotations

MIN_CHARACTERS = 5
"""Shorter words have too many neighbours to guess which one was meant."""
MAX_CHARACTERS = 24
"""Longer words are rarely words, and the number of neighbours grows with the length."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def neighbours(word: str) -> set[str]:
    """All words that differ from this one by one letter added, removed, replaced or swapped."""
    splits = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    words = {head + tail[1:] for head, tail in splits if tail}
    words |= {head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1}
    words |= {head + letter + tail[1:] for head, tail in splits if tail for letter in _LETTERS}
    words |= {head + letter + tail for head, tail in splits for letter in _LETTERS}
    return words - {word}
