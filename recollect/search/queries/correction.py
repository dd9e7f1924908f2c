"""Correcting misspelled words of a query.

A word is corrected only if it occurs nowhere in the library, is not an English word that the model
knows, and a word of the library is one edit away, or has another letter doubled. That word must be
frequent, unless one of the two is long, they have the same letters once or twice ("risoto" for
risotto), or it is another form of the misspelled one in some language: a single word does not tell
its language.

If there is no such word, but the misspelled one consists of two words that are next to each other
in some message, it lacks a space: "selfcare" is self-care. So does a name that lacks its
apostrophe: "obrien" is O'Brien, even if some message has "Brien".

The page says what was corrected, and the caller can turn correction off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import NamedTuple

from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.queries.query_tree import Word
from recollect.language.words import may_be_misspelled, neighbours, stem
from recollect.model.search import Filter
from recollect.search.queries.query_terms import inflected_term
from recollect.search.queries.terms import Form, Term, form_name, weighted_term
from recollect.store.base import Store

_FREQUENT = 3  # a word in fewer messages may itself be a misspelling
_LONG = 9  # letters; words of this length are rarely similar by chance
_MIN_FIRST = 2  # letters of the first of two words: Da Nang
_MIN_SECOND = 2  # Next.js
_BEFORE_APOSTROPHE = "dlo"  # D'Angelo, L'Oréal, O'Brien
_MIN_AFTER_APOSTROPHE = 4
_DOUBLED = re.compile(r"(.)\1")


class _Correction(NamedTuple):
    """What to search for instead of a misspelled word."""

    text: str
    term: Term


def correct_terms(
    terms: Sequence[Term],
    store: Store,
    filters: Sequence[Filter],
    language: Language,
    is_known: Callable[[str], bool],
) -> tuple[tuple[Term, ...], dict[str, str]]:
    """The terms, with misspelled words replaced, and the replacements.

    A word is replaced only by a word of something that passes one of the filters. `is_known` says
    whether a word is an English word.
    """
    spellings = [form_name(term.forms[0]) for term in terms]
    misspelled = [
        spelling
        for term, spelling in zip(terms, spellings, strict=True)
        if is_correctable(term, spelling) and not is_known(spelling)
    ]
    if not misspelled:
        return tuple(terms), {}
    similar_words = {word: neighbours(word) for word in misspelled}
    library_words = store.known_words(sorted(set().union(*similar_words.values())))
    corrections: dict[str, str] = {}
    new_terms = []
    for term, spelling in zip(terms, spellings, strict=True):
        correction: _Correction | None = None
        if spelling in misspelled:
            candidates = library_words & similar_words[spelling]
            correction = _correction(spelling, candidates, store, filters, language)
        if correction is None:
            new_terms.append(term)
        else:
            new_terms.append(correction.term)
            corrections[spelling] = correction.text
    # A query of words that occur nowhere is about something else, not misspelled.
    is_about_library = any(term.frequency for term in terms)
    if not is_about_library and not all(term.frequency for term in new_terms):
        return tuple(terms), {}
    return tuple(new_terms), corrections


def is_other_form(word: str, other: str) -> bool:
    """Whether a word is another form of another one in some language other than English."""
    languages = [language for language in LATIN if language is not ENGLISH]
    return any(stem(word, language) == stem(other, language) for language in languages)


def _correction(
    spelling: str,
    candidates: AbstractSet[str],
    store: Store,
    filters: Sequence[Filter],
    language: Language,
) -> _Correction | None:
    """What to search for instead of a misspelled word, if anything. `candidates` are similar."""
    if language is ENGLISH and spelling[1:] in candidates:
        name = name_with_apostrophe(spelling, store, filters)
        if name:
            return phrase_correction(name, store)
    word = best_candidate(spelling, candidates, store, filters)
    if word:
        return _Correction(word, inflected_term(word, store, language))
    if language is not ENGLISH:  # other languages join words on purpose
        return None
    pair = separate_words(spelling, store, filters)
    if not pair:
        return None
    return phrase_correction(pair, store)


def phrase_correction(words: Form, store: Store) -> _Correction:
    return _Correction(" ".join(words), weighted_term(Term((words,)), store))


def is_correctable(term: Term, spelling: str) -> bool:
    """Whether a term may be a misspelled word.

    That includes the word that the user is still typing, if no word begins with it.
    """
    if term.frequency or term.exact or len(term.forms[0]) > 1:
        return False
    return may_be_misspelled(spelling)


def best_candidate(
    spelling: str, candidates: AbstractSet[str], store: Store, filters: Sequence[Filter]
) -> str:
    """The word that was probably meant: the most frequent one.

    Empty if all are in too few messages, or the filters exclude all messages with them.
    """
    if candidates <= ENGLISH.stop_words:
        return ""
    words = sorted(candidates - ENGLISH.stop_words)
    frequencies, _ = store.frequencies([Word(word) for word in words])
    for frequency, word in sorted(zip(frequencies, words, strict=True), reverse=True):
        least = _FREQUENT
        is_similar = has_same_letters(word, spelling)
        is_long = max(len(word), len(spelling)) >= _LONG
        if is_similar or is_long or is_other_form(word, spelling):
            least = 1
        # The caller may not see the messages with the word.
        if frequency >= least and has_match(Word(word), store, filters):
            return word
    return ""


def has_same_letters(word: str, other: str) -> bool:
    """Whether two words differ only in which letters are doubled: "risoto" is risotto."""
    return _DOUBLED.sub(r"\1", word) == _DOUBLED.sub(r"\1", other)


def name_with_apostrophe(spelling: str, store: Store, filters: Sequence[Filter]) -> Form:
    """The two words of a name such as O'Brien. Empty if no message has it."""
    first, rest = spelling[0], spelling[1:]
    if first not in _BEFORE_APOSTROPHE or len(rest) < _MIN_AFTER_APOSTROPHE:
        return ()
    return most_frequent_pair([(first, rest)], store, filters)


def separate_words(spelling: str, store: Store, filters: Sequence[Filter]) -> Form:
    """The two words that were probably meant: the pair in most messages. Empty if there is none."""
    places = range(_MIN_FIRST, len(spelling) - _MIN_SECOND + 1)
    pairs = [(spelling[:place], spelling[place:]) for place in places]
    # "Herman" is a name, and not "her man".
    pairs = [pair for pair in pairs if pair[0] not in ENGLISH.stop_words]
    return most_frequent_pair(pairs, store, filters)


def most_frequent_pair(
    pairs: Sequence[tuple[str, str]], store: Store, filters: Sequence[Filter]
) -> Form:
    words = store.known_words(sorted({word for pair in pairs for word in pair}))
    phrases = [Word(" ".join(pair)) for pair in pairs if words.issuperset(pair)]
    if not phrases:
        return ()
    frequencies, _ = store.frequencies(phrases)
    frequency, phrase = max(zip(frequencies, phrases, strict=True), key=itemgetter(0))
    if not frequency or not has_match(phrase, store, filters):
        return ()
    return tuple(phrase.text.split())


def has_match(word: Word, store: Store, filters: Sequence[Filter]) -> bool:
    return any(store.has_match(word, filter) for filter in filters)
