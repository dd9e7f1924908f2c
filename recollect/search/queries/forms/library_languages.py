"""Keywords in the languages of a library, other than English.

A few words do not tell their language. So those that the library lacks are looked up in the
inflected forms of every language that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.queries.intent import KEYWORDS, classify
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Word
from recollect.search.queries.terms import Form, Term, with_more_forms
from recollect.store.base import Store

_MIN_SHARE = 0.01  # of the passages


def with_forms_of_library_languages(
    terms: Sequence[Term], store: Store, query: Query, is_english: Callable[[str], bool]
) -> tuple[Term, ...]:
    """The terms of a query. Keywords that the library lacks get their forms in its languages."""
    if query.language is not ENGLISH or classify(query.rest) != KEYWORDS:
        return tuple(terms)
    absent = [term.forms[0] for term in terms if not (term.frequency or term.prefix or term.exact)]
    words = [form[0] for form in absent if len(form) == 1 and form[0].isalpha()]
    words = [word for word in words if not is_english(word)]
    if not words:
        return tuple(terms)
    forms: dict[Form, list[Form]] = {}
    for language in languages_of(store):
        for word, variants in zip(words, store.variants(words, language), strict=True):
            forms.setdefault((word,), []).extend((variant,) for variant in variants)
    return tuple(with_more_forms(terms, forms, store))


def joining_languages(store: Store, query: Query) -> list[Language]:
    """The languages of a query that join words. Keywords may be in any of the library's."""
    languages = [query.language]
    if query.language is ENGLISH and classify(query.rest) == KEYWORDS:
        languages = languages_of(store)
    return [language for language in languages if language.joins_words]


def languages_of(store: Store) -> list[Language]:
    """The languages of a library, other than English and those written without spaces."""
    frequent = {language: language.fields.words("frequent_words") for language in LATIN[1:]}
    words = [Word(word) for names in frequent.values() for word in names]
    frequencies, passages = store.frequencies(words)
    by_word = dict(zip((word.text for word in words), frequencies, strict=True))
    return [
        language
        for language, names in frequent.items()
        if max(by_word[word] for word in names) > _MIN_SHARE * passages
    ]
