"""Spelling: the words that are one edit away from a word."""

from __future__ import annotations

from string import ascii_lowercase

from recollect.language.symbol_names import symbol_name

MIN_CHARACTERS = 5
"""Shorter words have too many neighbours to guess which one was meant."""
MAX_CHARACTERS = 24
"""Longer words are rarely words, and the number of neighbours grows with the length."""


def may_be_misspelled(word: str) -> bool:
    """Whether a word may be a misspelling of one of its neighbours, judging by its letters."""
    if symbol_name(word):
        return False
    return MIN_CHARACTERS <= len(word) <= MAX_CHARACTERS and word.isascii() and word.isalpha()


def neighbours(word: str) -> set[str]:
    """All words that differ from this one by one letter added, removed, replaced or swapped.

    Also those in which another letter is doubled.
    """
    words: set[str] = set()
    for index in range(len(word) + 1):
        head, tail = word[:index], word[index:]
        words |= {head + letter + tail for letter in ascii_lowercase}
        if tail:
            words.add(head + tail[1:])
            words |= {head + letter + tail[1:] for letter in ascii_lowercase}
        if len(tail) > 1:
            words.add(head + tail[1] + tail[0] + tail[2:])
            if tail[0] == tail[1]:
                words |= _doubled(head + tail[1:])
    return words - {word}


def _doubled(word: str) -> set[str]:
    """The words in which one letter of this one is doubled."""
    return {word[: index + 1] + word[index:] for index in range(len(word))}
