"""Ligatures: sœur is also written soeur."""

from __future__ import annotations

import re

_LETTERS = {"œ": "oe", "æ": "ae"}
_FRENCH = re.compile("oe(?=u|il)")  # words of other languages, such as "goes", have no ligature


def other_ligature(word: str) -> str:
    """A word with letters instead of its ligature, or a French one the other way; else empty."""
    letters = without_ligatures(word)
    if letters != word:
        return letters
    if _FRENCH.search(word):
        return _FRENCH.sub("œ", word)
    return ""


def without_ligatures(word: str) -> str:
    """A word with letters instead of its ligatures."""
    for ligature, letters in _LETTERS.items():
        word = word.replace(ligature, letters)
    return word


def with_ligatures(word: str) -> str:
    """A word with ligatures wherever it may have them."""
    for ligature, letters in _LETTERS.items():
        word = word.replace(letters, ligature)
    return word
