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

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter

from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.queries.query_tree import Word
from recollect.language.spellings import Form
from recollect.language.words import may_be_misspelled, neighbours, stem
from recollect.model.search import Filter
from recollect.search.queries.query_terms import inflected_terms
from recollect.search.queries.terms import Term, form_name, weighted
from recollect.store.base import Store

_FREQUENT = 3  # a word in fewer messages may itself be a misspelling
_LONG = 9  # letters; words of this length are rarely similar by chance
_MIN_PART = 2  # letters of each of two words: Da Nang, Next.js
_BEFORE_APOSTROPHE = "dlo"  # D'Angelo, L'Oréal, O'Brien
_MIN_AFTER_APOSTROPHE = 4


def correct_terms(
    terms: Sequence[Term],
    store: Store,
    filters: Sequence[Filter],
    language: Language,
    is_known: Callable[[str], bool],
) -> tuple[tuple[Term, ...], dict[str, str]]:
    """The terms, with misspelled words replaced, and the replacements.

    A word is replaced only by a word of something that passes one of the filters. `is_known` says
    whether a word is an English word. The word that the user is still typing may be misspelled, if
    no word begins with it.
    """
    misspelled = {
        spelling: neighbours(spelling)
        for term in terms
        if not (term.frequency or term.exact or len(term.forms[0]) > 1)
        and may_be_misspelled(spelling := form_name(term.forms[0]))
        and not is_known(spelling)
    }
    if not misspelled:
        return tuple(terms), {}
    library_words = store.known_words(sorted(set().union(*misspelled.values())))
    corrections: dict[str, str] = {}
    new_terms = []
    for term in terms:
        spelling = form_name(term.forms[0])
        correction: Form = ()
        if spelling in misspelled:
            candidates = library_words & misspelled[spelling]
            correction = _correction(spelling, candidates, store, filters, language)
        if correction:
            corrections[spelling] = " ".join(correction)
            new_terms += weighted(inflected_terms([correction], store, language), store)
        else:
            new_terms.append(term)
    # A query of words that occur nowhere is about something else, not misspelled.
    is_about_library = any(term.frequency for term in terms)
    if not is_about_library and not all(term.frequency for term in new_terms):
        return tuple(terms), {}
    return tuple(new_terms), corrections


def _correction(
    spelling: str,
    candidates: AbstractSet[str],
    store: Store,
    filters: Sequence[Filter],
    language: Language,
) -> Form:
    """The word or words that were probably meant, if any. `candidates` are similar words."""
    if language is ENGLISH and spelling[1:] in candidates and spelling[0] in _BEFORE_APOSTROPHE:
        name = (spelling[0], spelling[1:])
        if len(name[1]) >= _MIN_AFTER_APOSTROPHE and is_found(name, store, filters):
            return name
    # A word, the most frequent one, unless the caller may not see the messages with it.
    words = sorted(candidates - ENGLISH.stop_words)
    frequencies, _ = store.frequencies([Word(word) for word in words]) if words else ([], 0)
    for frequency, word in sorted(zip(frequencies, words, strict=True), reverse=True):
        is_long = max(len(word), len(spelling)) >= _LONG
        is_sure = is_long or has_same_letters(word, spelling) or is_other_form(word, spelling)
        if frequency >= (1 if is_sure else _FREQUENT) and is_found((word,), store, filters):
            return (word,)
    if language is not ENGLISH:  # other languages join words on purpose
        return ()
    places = range(_MIN_PART, len(spelling) - _MIN_PART + 1)
    pairs = [(spelling[:place], spelling[place:]) for place in places]
    known = store.known_words(sorted({word for pair in pairs for word in pair}))
    # "Herman" is a name, and not "her man".
    known -= ENGLISH.stop_words
    pairs = [pair for pair in pairs if known.issuperset(pair)]
    if not pairs:
        return ()
    frequencies, _ = store.frequencies([Word(" ".join(pair)) for pair in pairs])
    frequency, pair = max(zip(frequencies, pairs, strict=True), key=itemgetter(0))
    return pair if frequency and is_found(pair, store, filters) else ()


def has_same_letters(word: str, other: str) -> bool:
    """Whether two words differ only in which letters are doubled: "risoto" is risotto."""
    return [letter for letter, _ in groupby(word)] == [letter for letter, _ in groupby(other)]


def is_other_form(word: str, other: str) -> bool:
    """Whether a word is another form of another one in some language other than English."""
    return any(stem(word, language) == stem(other, language) for language in LATIN[1:])


def is_found(words: Form, store: Store, filters: Sequence[Filter]) -> bool:
    return any(store.has_match(Word(" ".join(words)), filter) for filter in filters)
