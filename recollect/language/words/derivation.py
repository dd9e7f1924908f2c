"""Derivation: words of the same family, such as "vote" and "voter" or "decide" and "decision".

A stemmer joins the inflected forms of a word, but only some of the words that are derived from each
other. Their endings tell which words can be of the same family. Many of these do not exist, so they
are only worth something if a library contains them.
"""

from __future__ import annotations

from functools import cache

from recollect.language.languages import Language
from recollect.language.text import fold
from recollect.language.words.stem import stem

_NO_ENDING = "-"

_EndingGroup = tuple[int, tuple[str, ...]]
"""The least number of letters of a root, and the endings that it can have."""


def possible_relatives(word: str, language: Language) -> set[str]:
    """Words that may be of the same family as a word, which is in lower case, without accents."""
    relatives = set(_irregular_families(language).get(word, ()))
    groups_by_ending = _groups_by_ending(language)
    for length in range(len(word) + 1):
        root, ending = word[:length], word[length:]
        for min_root, endings in groups_by_ending.get(ending, ()):
            if length >= min_root:
                relatives.update([root + other for other in endings])
    return relatives - {word}


@cache
def _groups_by_ending(language: Language) -> dict[str, list[_EndingGroup]]:
    groups: dict[str, list[_EndingGroup]] = {}
    for line in language.fields.lines("derivations"):
        number, *words = fold(line).split()
        endings = tuple(word.replace(_NO_ENDING, "") for word in words)
        for ending in endings:
            groups.setdefault(ending, []).append((int(number), endings))
    return groups


@cache
def _irregular_families(language: Language) -> dict[str, tuple[str, ...]]:
    families: dict[str, tuple[str, ...]] = {}
    for words in language.fields.groups("families"):
        forms = tuple(form for word in words for form in _inflected_forms(word, language))
        families |= dict.fromkeys(forms, forms)
    return families


def _inflected_forms(word: str, language: Language) -> list[str]:
    """A word and its inflected forms. They have the same stem: "seed" is not a form of "see"."""
    forms = dict.fromkeys([word, *language.irregular_forms_of.get(word, ())])
    for line in language.fields.lines("inflections"):
        endings = [ending.replace(_NO_ENDING, "") for ending in line.split()]
        for ending in endings:
            if word.endswith(ending):
                root = word.removesuffix(ending)
                forms |= dict.fromkeys([root + other for other in endings])
    word_stem = stem(word, language)
    return [form for form in forms if stem(form, language) == word_stem]
