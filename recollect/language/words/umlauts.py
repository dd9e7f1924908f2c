"""Umlauts: Müller is also written Mueller, and Søren Soeren.

The index has letters without their marks: Müller is `muller` there, but ø stays what it is.
"""

from __future__ import annotations

import re
import unicodedata

from recollect.language.text import tokens

_TRANSCRIPTIONS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "æ": "ae", "ø": "oe"}
_TRANSCRIBED = str.maketrans(
    {letter: letters for letter, letters in _TRANSCRIPTIONS.items()}
    | {letter.upper(): letters for letter, letters in _TRANSCRIPTIONS.items()}
)
_UMLAUT = re.compile(f"[{''.join(_TRANSCRIPTIONS)}]", re.IGNORECASE)
# Not the letters of "neue", "Bauer" and "queue".
_GERMAN = re.compile("ae|oe|(?<![aeq])ue")
_NORDIC = re.compile("ae|oe|aa")
_GERMAN_LETTERS = {"ae": "a", "oe": "o", "ue": "u"}
_NORDIC_LETTERS = {"ae": "æ", "oe": "ø", "aa": "a"}


def transcribed(text: str) -> str:
    """A text with other letters instead of its umlauts."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_TRANSCRIBED)


def transcriptions(text: str) -> dict[str, str]:
    """The words with umlauts in a text and their transcriptions, both as they are indexed."""
    if text.isascii():
        return {}
    words: dict[str, str] = {}
    for word in re.findall(r"\w+", unicodedata.normalize("NFC", text)):
        if not _UMLAUT.search(word):
            continue
        pairs = zip(tokens(word), tokens(transcribed(word)), strict=False)
        words |= {indexed: other for indexed, other in pairs if indexed != other}
    return words


def with_umlauts(word: str) -> list[str]:
    """What a word may be in German and in Nordic languages, as it is indexed with umlauts."""
    if not word.isascii():
        return []
    german = _GERMAN.sub(lambda match: _GERMAN_LETTERS[match[0]], word)
    nordic = _NORDIC.sub(lambda match: _NORDIC_LETTERS[match[0]], word)
    return [spelling for spelling in dict.fromkeys([german, nordic]) if spelling != word]
