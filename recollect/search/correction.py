"""Correcting misspelled words of a query.

A word is corrected only if it occurs nowhere in the library, is not an English word that the model
knows, and a frequent word of the library is one edit away.
The page says what was corrected, and the caller can turn it off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.language.languages.base import Language
from recollect.language.query_tree import Word
from recollect.language.spelling import MAX_CHARACTERS, MIN_CHARACTERS, neighbours
from recollect.model.search import Filter
from recollect.search.terms import Term, form_name, inflected_term
from recollect.store.base import Store

_FREQUENT = 3  # a word in fewer messages may itself be a misspelling


def correct_terms(
    terms: Sequence[Term],
    store: Store,
    filter: Filter,
    language: Language,
    is_known: Callable[[str], bool],
) -> tuple[tuple[Term, ...], dict[str, str]]:
    """The terms, with misspelled words replaced, and the replacements.

    `is_known` says whether a word is an English word.
    """
    corrections: dict[str, str] = {}
    corrected = []
    for term in terms:
        spelling = form_name(term.forms[0])
        word = ""
        if _may_be_misspelled(term, spelling) and not is_known(spelling):
            word = _probable_word(spelling, store, filter)
        if word:
            corrections[spelling] = word
            term = inflected_term(word, store, language)
        corrected.append(term)
    # A query with more words that occur nowhere is about something else, not misspelled.
    if not all(term.frequency for term in corrected):
        return tuple(terms), {}
    return tuple(corrected), corrections


def _may_be_misspelled(term: Term, spelling: str) -> bool:
    """Also the word that the user is still typing, if no word begins with it."""
    if term.frequency or term.exact or len(term.forms[0]) > 1:
        return False
    if not MIN_CHARACTERS <= len(spelling) <= MAX_CHARACTERS:
        return False
    return spelling.isascii() and spelling.isalpha()


def _probable_word(word: str, store: Store, filter: Filter) -> str:
    """The most frequent word that is one edit away; empty if there is none."""
    candidates = sorted(store.known_words(sorted(neighbours(word))))
    if not candidates:
        return ""
    frequencies, _ = store.frequencies([Word(candidate) for candidate in candidates])
    frequency, best = max(zip(frequencies, candidates, strict=True))
    # The filter may exclude all messages with the word, or the caller may not see them.
    if frequency < _FREQUENT or not store.match(Word(best), filter, 1):
        return ""
    return best
