"""Stemming: reduce a word to the stem that its inflected forms share.

The script decides which stemmer is used. For Latin letters it is that of the language of the
query, or English. The records of the languages list irregular forms ("went", "bought", "children").
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import cache
from typing import Any

from recollect.language.languages import ENGLISH, Language

_LATIN = "latin"
# The first and last letter of a script, and the language whose stemmer is used for it.
_SCRIPTS = (
    ("a", "z", _LATIN),
    ("\u00df", "\u024f", _LATIN),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0590", "\u05ff", "yiddish"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
_LONGEST_WORD = 64
_MIN_PREFIX_CHARACTERS = 3  # too many words begin with fewer
_local = threading.local()


def stem(word: str, language: Language = ENGLISH) -> str:
    """The stem of a lower-case word. Words with digits or of other scripts stay as they are."""
    result = _stem(language.base_forms.get(word, word), language)
    base = _base_of_inflected(word, result, language)
    if base is None:
        return result
    return _stem(base, language)


def stems(words: Iterable[str]) -> list[str]:
    """The English stems of many words, in half the time."""
    stem_word = _stemmer(ENGLISH.stemmer).stemWord
    irregular = ENGLISH.base_forms
    results: list[str] = []
    for word in words:
        if word.isascii() and word.isalpha() and len(word) <= _LONGEST_WORD:
            result = stem_word(irregular.get(word, word))
        else:
            result = stem(word)
        results.append(result)
    return results


def related_words(word: str, language: Language) -> tuple[set[str], set[str]]:
    """Words that may have the same stem as a word, and prefixes of further ones.

    A vocabulary has only English stems. In other languages, it is searched for these instead.
    """
    base = language.base_forms.get(word, word)
    base = _base_of_inflected(word, _stem(base, language), language) or base
    words = {word, base, *language.irregular_forms_of.get(base, ())}
    roots = {each: _stem(each, language) for each in words}
    prefixes = {_common_prefix(each, root) for each, root in roots.items()}
    for root in set(roots.values()):
        prefixes |= _spellings(root, language)
    return words, {prefix for prefix in prefixes if len(prefix) >= _MIN_PREFIX_CHARACTERS}


def _base_of_inflected(word: str, root: str, language: Language) -> str | None:
    """The base form of an irregular form that has an ending: gehen for gingen, by way of ging."""
    if language is ENGLISH or root not in language.base_forms:
        return None
    if word.removeprefix(root) not in language.fields.words("irregular_endings"):  # ginger
        return None
    return language.base_forms[root]


def _spellings(root: str, language: Language) -> set[str]:
    """How words with a stem can begin: huis and huiz for the stem of huizen."""
    spellings = {root}
    for pattern, replacement in language.fields.pairs("stem_spellings"):
        spellings |= {re.sub(pattern, replacement, each) for each in spellings}
    return spellings


def _common_prefix(first: str, second: str) -> str:
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return first[:length]


def _stem(word: str, language: Language) -> str:
    stemmer = _stemmer_of_script(word[:1])
    if stemmer == _LATIN:
        stemmer = language.stemmer
        for ending, replacement in language.accent_endings:
            if word.endswith(ending):
                word = word.removesuffix(ending) + replacement
    if not stemmer or len(word) > _LONGEST_WORD or not word.isalpha():
        return word
    result: str = _stemmer(stemmer).stemWord(word)
    return result or word


@cache
def _stemmer_of_script(letter: str) -> str:
    for first, last, name in _SCRIPTS:
        if first <= letter <= last:
            return name
    return ""


def _stemmer(name: str) -> Any:
    """One stemmer per thread, since stemmers are not thread-safe."""
    stemmers: dict[str, Any] = _local.__dict__
    if name not in stemmers:
        import Stemmer  # type: ignore[import-not-found]

        stemmers[name] = Stemmer.Stemmer(name, 0)  # its cache takes longer than stemming
    return stemmers[name]
