"""Derivation: words of the same family, such as "vote" and "voter" or "decide" and "decision".

A stemmer joins the inflected forms of a word, but only some of the words that are derived from each
other. Their endings tell which words can be of the same family. Many of these do not exist, so they
are only worth something if a library contains them.
"""

from __future__ import annotations

from functools import cache

from recollect.language.languages.base import Language
from recollect.language.text import fold

_NO_ENDING = "-"


def possible_relatives(word: str, language: Language) -> set[str]:
    """Words that may be of the same family as a word, which is in lower case, without accents."""
    relatives = set(_irregular_families(language).get(word, ()))
    for min_root, endings in _ending_groups(language):
        for ending in endings:
            root = word.removesuffix(ending)
            if word.endswith(ending) and len(root) >= min_root:
                relatives.update(root + other for other in endings)
    return relatives - {word}


@cache
def _ending_groups(language: Language) -> list[tuple[int, tuple[str, ...]]]:
    """The least number of letters of a root, and the endings that it can have."""
    groups = []
    for line in language.derivations.split("\n"):
        number, *endings = fold(line).split() or ["0"]
        if endings:
            groups.append((int(number), tuple(e.replace(_NO_ENDING, "") for e in endings)))
    return groups


@cache
def _irregular_families(language: Language) -> dict[str, tuple[str, ...]]:
    families: dict[str, tuple[str, ...]] = {}
    for line in language.families.replace("|", "\n").split("\n"):
        words = tuple(fold(line).split())
        families |= dict.fromkeys(words, words)
    return families
