"""Splitting compounds that the library does not contain into words that it does.

German and Dutch join words freely: a question about "Hintergrundkarten" is answered by a message
that has "Hintergrund" and "Karte". Joined words that the library contains are not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recollect.language.languages import Language
from recollect.store.base import Store

_MIN_PART = 4  # letters
_MIN_LONE_HEAD = 6  # letters of the last part if the first one is unknown


class Parts(NamedTuple):
    """The forms of the parts of a compound in the library."""

    modifier: tuple[str, ...]
    """Forms of what the compound begins with; empty if the library does not have it."""
    head: tuple[str, ...]
    """Forms of the last part, which says what the compound is: a "Geldbetrag" is a "Betrag"."""


def split_compounds(words: Sequence[str], store: Store, language: Language) -> dict[str, Parts]:
    """The parts of those words that are compounds of words in the library."""
    if not language.joins_words:
        return {}
    linking = language.linking_elements
    splits = {word: _splits(word, linking) for word in words if word.isalpha()}
    parts = {part for pairs in splits.values() for pair in pairs for part in pair}
    forms = forms_in_library(sorted(parts), store, language)
    result = {}
    for word, pairs in splits.items():
        best = _best_split(pairs, forms)
        if best is not None:
            result[word] = best
    return result


def _splits(word: str, linking_elements: Sequence[str]) -> list[tuple[str, str]]:
    """All ways to split a word in two. The first part loses an element that joins it."""
    pairs = []
    for place in range(_MIN_PART, len(word) - _MIN_PART + 1):
        modifier, head = word[:place], word[place:]
        stems = [modifier, *(modifier.removesuffix(element) for element in linking_elements)]
        pairs += [(stem, head) for stem in dict.fromkeys(stems) if len(stem) >= _MIN_PART]
    return pairs


def forms_in_library(
    parts: Sequence[str], store: Store, language: Language
) -> dict[str, tuple[str, ...]]:
    """The inflected forms of words that the library has."""
    if not parts:
        return {}
    variants = store.variants(parts, language)
    library_words = store.known_words(sorted({form for forms in variants for form in forms}))
    library_words -= language.stop_words
    library_words = {word for word in library_words if len(word) >= _MIN_PART}
    pairs = zip(parts, variants, strict=True)
    return {part: tuple(form for form in forms if form in library_words) for part, forms in pairs}


def _best_split(
    pairs: Sequence[tuple[str, str]], forms: dict[str, tuple[str, ...]]
) -> Parts | None:
    """The split with two words of the library, else the one with the longest last part."""
    complete = [pair for pair in pairs if forms[pair[0]] and forms[pair[1]]]
    if complete:
        modifier, head = max(complete, key=lambda pair: (min(map(len, pair)), pair))
        return Parts(forms[modifier], forms[head])
    heads = [head for _, head in pairs if forms[head] and len(head) >= _MIN_LONE_HEAD]
    if not heads:
        return None
    return Parts((), forms[max(heads, key=len)])
