"""The terms of a query in a library: its words in all their forms, with their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.intent import (
    QUESTION,
    classify,
    identifiers,
    is_identifier,
)
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, words
from recollect.language.text import fold, is_unspaced, tokens
from recollect.language.words.acronym_plurals import singular_or_plural
from recollect.language.words.english_spellings import other_spelling, separate_words
from recollect.language.words.ligatures import other_ligature
from recollect.language.words.names import names_in
from recollect.language.words.synonyms import synonyms
from recollect.model.search import SearchOptions
from recollect.search.queries.forms.compounds import Parts, split_compounds
from recollect.search.queries.forms.families import relatives_in_library
from recollect.search.queries.forms.katakana import parts_in_library
from recollect.search.queries.forms.other_forms import with_other_forms
from recollect.search.queries.forms.umlauts import umlaut_forms
from recollect.search.queries.terms import (
    WEAK,
    Form,
    Term,
    term_weight,
    weighted,
    weighted_term,
    with_more_forms,
)
from recollect.search.queries.topics import query_topic
from recollect.store.base import Store

_RARE = 10  # passages with a word
_RARE_FAMILY = 20  # passages with any word of its family


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
        terms = with_more_forms(terms, umlaut_forms(terms, store, query), store)
        terms = with_other_forms(terms, store, query, is_english)
        compounds = _compounds(terms, store, query.language)
        terms, head_terms = _with_parts(terms, compounds, store)
        terms = _with_relatives(terms, store, query)
        terms += _synonym_terms(terms, store, query)
        terms += head_terms
        terms += _katakana_parts(terms, store)
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
    spellings: list[str | None] = []
    for word in words:
        spellings += [word, other_ligature(word)]
        if language is ENGLISH:
            spellings += [other_spelling(word), singular_or_plural(word)]
    return list(dict.fromkeys(filter(None, spellings)))


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


def _compounds(terms: Sequence[Term], store: Store, language: Language) -> dict[str, Parts]:
    """The parts of the words that the library contains only in parts."""
    absent = [term for term in terms if not term.frequency and not term.prefix and not term.exact]
    words = [term.forms[0][0] for term in absent if len(term.forms[0]) == 1]
    return split_compounds(words, store, language)


def _with_parts(
    terms: Sequence[Term], compounds: Mapping[str, Parts], store: Store
) -> tuple[list[Term], list[Term]]:
    """The terms, where the parts of a compound are forms of it if the library has them all.

    Also a weak term for the last part of each compound whose first part the library lacks.
    """
    split_terms = []
    for term in terms:
        parts = compounds.get(term.name)
        if parts is not None and parts.modifier:
            forms = [(word,) for word in (*parts.modifier, *parts.head)]
            split_terms.append(term._replace(forms=tuple(dict.fromkeys([*term.forms, *forms]))))
    head_terms = [
        Term(tuple((form,) for form in parts.head), weak=True, stands_for=word, is_head=True)
        for word, parts in compounds.items()
        if not parts.modifier
    ]
    all_terms = weighted([*split_terms, *head_terms], store)  # one query of the store
    by_name = {term.name: term for term in all_terms[: len(split_terms)]}
    return (
        [by_name.get(term.name, term) for term in terms],
        [term._replace(weight=WEAK * term.weight) for term in all_terms[len(split_terms) :]],
    )


def _katakana_parts(terms: Sequence[Term], store: Store) -> list[Term]:
    """A weak term for each word in katakana of which the library has only parts."""
    part_terms = []
    for term in terms:
        if not (term.frequency or term.prefix or term.weak):
            parts = parts_in_library(term.forms[0], store)
            if parts:
                part_terms.append(Term(tuple(parts), weak=True, stands_for=term.name))
    if not part_terms:
        return []
    return [term._replace(weight=WEAK * term.weight) for term in weighted(part_terms, store)]


def _with_relatives(terms: Sequence[Term], store: Store, query: Query) -> list[Term]:
    """The terms of a question, where words of the same family are forms of a rare word.

    Keywords name words, so other words would be noise. If many messages have the word itself, its
    family is not needed. A rare word does not stand for a frequent one, "creamer" not for "cream".
    """
    if classify(query.rest) != QUESTION:
        return list(terms)
    names: set[str] = set()
    if query.language is ENGLISH:
        names = names_in(query.rest)
    words = [term.name for term in terms if _may_have_relatives(term) and term.name not in names]
    relatives = relatives_in_library(words, store, query.language)
    if not relatives:
        return list(terms)
    with_family = []
    for term in terms:
        family = [(word,) for word in relatives.get(term.name, ())]
        with_family.append(term._replace(forms=tuple(dict.fromkeys([*term.forms, *family]))))
    return [
        extended if not term.frequency or extended.frequency <= _RARE_FAMILY else term
        for term, extended in zip(terms, weighted(with_family, store), strict=True)
    ]


def _may_have_relatives(term: Term) -> bool:
    is_word = len(term.forms[0]) == 1 and not term.prefix and not term.exact
    return is_word and term.frequency <= _RARE


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
