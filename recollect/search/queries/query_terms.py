"""The terms of a query in a library: its words in all their forms, with their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.language.languages import Language
from recollect.language.queries.intent import (
    identifiers,
    is_identifier,
)
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, words
from recollect.language.spellings import other_spellings, separate_words
from recollect.language.text import fold, is_unspaced, tokens
from recollect.language.words import synonyms
from recollect.model.search import SearchOptions
from recollect.search.queries.forms import with_other_forms
from recollect.search.queries.terms import (
    WEAK,
    Form,
    Term,
    term_weight,
    weighted,
    weighted_term,
)
from recollect.search.queries.topics import query_topic
from recollect.store.base import Store


def query_terms(
    query: Query, store: Store, is_english: Callable[[str], bool], typing: bool = False
) -> tuple[Term, ...]:
    """The terms of a query, each with its weight in this library.

    In a plain query a word stands for all its inflected forms, and text in a script without
    spaces is split into particles, which are dropped, and pairs of characters. In any other query
    terms match exactly as typed. With `typing`, the last word of a plain query is a prefix.
    """
    if query.node is None:
        return ()
    if query.plain:
        terms = _plain_terms(query, store, typing)
    else:
        terms = _typed_terms(query.node)
    terms = _without_accidental_pairs(weighted(terms, store))
    if query.plain:
        terms, weak_terms = with_other_forms(terms, store, query, is_english)
        terms += _synonym_terms(terms, store, query) + weak_terms
    return tuple(terms)


def inflected_term(word: str, store: Store, language: Language) -> Term:
    """A word in all its inflected forms, with its weight in this library."""
    (term,) = _inflected_terms([(word,)], store, language)
    return weighted_term(term, store)


def may_correct(query: Query, options: SearchOptions) -> bool:
    """Whether misspelled words of a query are corrected."""
    return query.plain and options.correct and '"' not in query.rest


def _plain_terms(query: Query, store: Store, typing: bool) -> list[Term]:
    topic = query_topic(query, typing)
    terms = _inflected_terms(topic.forms, store, query.language)
    for identifier in topic.identifiers:
        terms = _with_identifier(terms, identifier)
    return terms + _prefix_terms(topic.prefix)


def _typed_terms(node: Node) -> list[Term]:
    forms = {(tuple(tokens(word.text)), word.prefix): word for word in words(node)}
    return [
        Term((form,), prefix, exact=is_identifier(word.text))
        for (form, prefix), word in forms.items()
        if form
    ]


def _prefix_terms(prefix: str) -> list[Term]:
    return [Term((tuple(tokens(prefix)),), prefix=True)] if prefix else []


def _with_identifier(terms: list[Term], form: Form) -> list[Term]:
    """Add an identifier. Its parts stay terms of their own, which match less."""
    if len(form) > 1:
        return [*terms, Term((form,), exact=True)]
    return [term._replace(exact=term.exact or term.forms[0] == form) for term in terms]


def _inflected_terms(forms: Sequence[Form], store: Store, language: Language) -> list[Term]:
    forms = list(dict.fromkeys(forms))
    spellings = _with_spellings([form[0] for form in forms if len(form) == 1], language)
    variants = dict(zip(spellings, store.variants(spellings, language), strict=True))
    terms = []
    for form in forms:
        if len(form) == 1:
            inflected = [
                (word,) for each in _with_spellings(form, language) for word in variants[each]
            ]
            all_forms = dict.fromkeys([*inflected, *separate_words(form[0])])
            terms.append(Term(tuple(all_forms)))
        else:
            terms.append(Term((form,)))
    return terms


def _with_spellings(words: Sequence[str], language: Language) -> list[str]:
    """The words with their other spellings and, in English, plurals of acronyms, each once."""
    spellings = [each for word in words for each in (word, *other_spellings(word, language))]
    return list(dict.fromkeys(spellings))


def _without_accidental_pairs(terms: Sequence[Term]) -> list[Term]:
    """Drop the pairs of characters that span two words.

    No passage contains them, but passages contain the pair before or after them.
    """
    remaining = []
    for number, term in enumerate(terms):
        neighbours = [*terms[max(number - 1, 0) : number], *terms[number + 1 : number + 2]]
        is_accidental = not term.frequency and any(
            other.frequency and _overlap(term, other) for other in neighbours
        )
        if not is_accidental:
            remaining.append(term)
    return remaining


def _overlap(first: Term, second: Term) -> bool:
    """Whether two pairs of characters have one in common."""
    one, other = first.forms[0], second.forms[0]
    if len(one) != 2 or len(other) != 2 or not is_unspaced(one[0]):
        return False
    return one[1] == other[0] or other[1] == one[0]


def _synonym_terms(terms: Sequence[Term], store: Store, query: Query) -> list[Term]:
    """A weak term for each word that the library does not contain, but synonyms of it.

    Where the library contains the word, messages with synonyms only would be noise. The parts of
    an identifier have none: what is about TLS is not about `ERR_SSL_FAILED`.
    """
    own_forms = {form for term in terms for form in term.forms}
    parts = _parts_of_identifiers(query.rest)
    absent = [term for term in terms if not term.frequency and not term.prefix]
    words = [term.forms[0][0] for term in absent if len(term.forms[0]) == 1]
    words = [word for word in words if word not in parts]
    synonym_terms = []
    for word, phrases in zip(words, synonyms(words), strict=True):
        if not phrases:
            continue
        inflected = _inflected_terms(list(phrases), store, query.language)
        forms = dict.fromkeys(form for each in inflected for form in each.forms)
        other_forms = tuple(form for form in forms if form not in own_forms)
        if other_forms:
            synonym_terms.append(Term(other_forms, weak=True, stands_for=word))
    if not synonym_terms:
        return []
    frequencies, passages = store.frequencies([term.node for term in synonym_terms])
    return [
        term._replace(frequency=frequency, weight=WEAK * term_weight(frequency, passages))
        for term, frequency in zip(synonym_terms, frequencies, strict=True)
        if frequency
    ]


def _parts_of_identifiers(text: str) -> set[str]:
    return {
        part
        for identifier in identifiers(text)
        for part in tokens(identifier)
        if part != fold(identifier)
    }
