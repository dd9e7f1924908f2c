"""Other forms in which the library may have the terms of a query.

They are searched for if the library lacks a term as it was typed; words that join others always
are. How a form is made is in `language.words` and in the modules beside this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.intent import KEYWORDS, classify, identifiers
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Word
from recollect.language.text import tokens
from recollect.language.words.code_names import has_inner_capital, other_names
from recollect.language.words.dates import formats_in
from recollect.language.words.ligatures import with_ligatures
from recollect.language.words.numbers import other_number_formats
from recollect.search.queries.forms.compounds import forms_in_library
from recollect.search.queries.forms.digit_groups import groupings, long_numbers
from recollect.search.queries.forms.joined_spellings import compounds_of, joined_spellings
from recollect.search.queries.forms.joined_words import joined_words, longer_words
from recollect.search.queries.forms.katakana import other_endings
from recollect.search.queries.forms.library_languages import joining_languages
from recollect.search.queries.forms.separated_codes import separated_forms
from recollect.search.queries.forms.shorter_identifiers import shorter_forms
from recollect.search.queries.terms import Form, Term, with_more_forms
from recollect.store.base import Store

_CODE = re.compile(r"\W*+[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*\W*")


def with_other_forms(
    terms: list[Term], store: Store, query: Query, is_english: Callable[[str], bool]
) -> list[Term]:
    """The terms of a plain query, with the other forms of those that need them."""
    languages = cache(lambda: joining_languages(store, query))
    longer = _longer_words(terms, store, query, is_english, lambda: bool(languages()))
    compounds = _compounds_of_words(terms, store, languages)
    terms = with_more_forms(terms, _other_formats(terms, query.rest), store)
    terms = with_more_forms(terms, _other_groups(terms, store, query.rest), store)
    terms = with_more_forms(terms, _shorter_identifiers(terms, store, query.rest), store)
    terms = with_more_forms(terms, _joined_spellings(terms, store, query), store)
    terms = with_more_forms(terms, _separated_codes(terms, store, query.rest), store)
    terms = with_more_forms(terms, compounds, store)
    return with_more_forms(terms, longer, store)


def _is_absent(term: Term) -> bool:
    return not term.frequency and not term.prefix


def _other_formats(terms: Sequence[Term], text: str) -> dict[Form, list[Form]]:
    """Other formats of dates, numbers, names in code, and words with ligatures."""
    dates = {tuple(tokens(word)): formats_in(word) for word in text.split()}
    names = other_names(text)
    formats: dict[Form, list[Form]] = {}
    for term in filter(_is_absent, terms):
        form = term.forms[0]
        others = dates.get(form) or other_number_formats(form) or names.get(form, [])
        formats[form] = [*others, tuple(map(with_ligatures, form)), *other_endings(form)]
    return {form: others for form, others in formats.items() if set(others) != {form}}


def _other_groups(terms: Sequence[Term], store: Store, text: str) -> dict[Form, list[Form]]:
    """Other groups of digits. The words of a number in groups get the whole number, too."""
    forms: dict[Form, list[Form]] = {}
    for words, number in long_numbers(text).items():
        parts = {words, *((word,) for word in words)}
        own = [term for term in terms if term.forms[0] in parts]
        if any(term.forms[0] == words and term.frequency for term in own):
            continue
        others = groupings(number, store)
        forms |= {term.forms[0]: others for term in own}
    return forms


def _shorter_identifiers(terms: Sequence[Term], store: Store, text: str) -> dict[Form, list[Form]]:
    """The longest part of each identifier that the library has."""
    by_form = {tuple(tokens(word)): word for word in identifiers(text)}
    parts: dict[Form, list[Form]] = {}
    for term in filter(_is_absent, terms):
        identifier = by_form.get(term.forms[0], "")
        shorter = shorter_forms(identifier) if term.exact else []
        if not shorter:
            continue
        frequencies, _ = store.frequencies([Word(" ".join(form)) for form in shorter])
        in_library = [form for form, n in zip(shorter, frequencies, strict=True) if n]
        parts[term.forms[0]] = in_library[:1]
    return parts


def _separated_codes(terms: Sequence[Term], store: Store, text: str) -> dict[Form, list[Form]]:
    """The absent codes as the library writes them with separators, or with other ones."""
    codes = {tuple(tokens(word)) for word in text.split() if _CODE.fullmatch(word)}
    forms = [term.forms[0] for term in filter(_is_absent, terms)]
    return {form: separated_forms("".join(form), store) for form in forms if form in codes}


def _joined_spellings(terms: Sequence[Term], store: Store, query: Query) -> dict[Form, list[Form]]:
    """The words of the library that join several keywords. Each is a form of all of them."""
    if classify(query.rest) != KEYWORDS:
        return {}
    spellings = joined_spellings(query.rest, {term.name for term in terms})
    if not spellings:
        return {}
    library_words = store.known_words(sorted(frozenset().union(*spellings.values())))
    return {
        (word,): [(joined,) for joined in sorted(words & library_words)]
        for word, words in spellings.items()
    }


def _compounds_of_words(
    terms: Sequence[Term], store: Store, languages: Callable[[], Sequence[Language]]
) -> dict[Form, list[Form]]:
    """The compounds of the library that two neighbours form, of which it lacks one.

    In any order: the "Kosten" for a "Handwerker" are "Handwerkerkosten".
    """
    compounds = {
        (first.forms[0], second.forms[0]): compounds_of(first.name, second.name)
        for first, second in pairwise(terms)
        if _is_absent(first) or _is_absent(second)
    }
    spellings = sorted({word for words in compounds.values() for word in words})
    forms: dict[Form, list[Form]] = {}
    for language in languages() if spellings else ():
        inflected = forms_in_library(spellings, store, language)
        for pair, words in compounds.items():
            for form in pair:
                joined = [(word,) for spelling in words for word in inflected[spelling]]
                forms.setdefault(form, []).extend(joined)
    return forms


def _longer_words(
    terms: Sequence[Term],
    store: Store,
    query: Query,
    is_english: Callable[[str], bool],
    joins_words: Callable[[], bool],
) -> dict[Form, list[Form]]:
    """For each word that the library lacks, the longer words that contain it.

    With several words, only in languages that join words: there, the longer word is the usual way
    to say it. Elsewhere, the other words find the messages.
    """
    absent = [term for term in terms if _is_absent(term) and len(term.forms[0]) == 1]
    if len(terms) > 1:
        absent = [term for term in absent if not term.exact and term.name.isalpha()]
        if query.language is ENGLISH:  # in a library with several languages, it may be English
            absent = [term for term in absent if not is_english(term.name)]
        if not absent or not joins_words():
            return {}
    words = [term.forms[0][0] for term in absent]
    if len(terms) == 1 and absent and (absent[0].exact or has_inner_capital(query.rest)):
        longer = {words[0]: longer_words(words[0], store)}  # part of a name in code
    else:
        longer = joined_words(words, store, is_english, joins_words)
    return {(word,): [(each,) for each in longer[word]] for word in longer}
