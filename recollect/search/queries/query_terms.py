"""The terms of a query in a library: its words in all their forms, with their weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from recollect.language.detection import unspaced_language
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.intent import KEYWORDS, classify, identifiers, is_identifier
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Word, words
from recollect.language.text import fold, is_unspaced, tokens
from recollect.language.when import period_words
from recollect.language.words import (
    Form,
    content_words,
    joined_word,
    parts_that_stand_alone,
    separate_words,
    synonyms,
)
from recollect.search.queries.forms import with_other_forms
from recollect.search.queries.terms import WEAK, Term, weighted
from recollect.store.base import Store

# Words in katakana say nothing in part: コンピュータ (computer) is not in
# キャンピングカー (camper), although each has a pair of characters of the other.
_KATAKANA_WORD = re.compile("([\u30a1-\u30fa\u30fc]{3,})")
_POSSESSIVE_ENDS = ("'s", "’s", "'S", "’S")
_EDGES = '.,;:!?"”)'
_MIN_PART_LETTERS = 3  # of an identifier
_MIN_PREFIX_CHARACTERS = 2  # a single letter is the prefix of too many words


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
    if not query.plain:
        typed = {(tuple(tokens(word.text)), word.prefix): word for word in words(query.node)}
        exact_terms = [
            Term((form,), prefix, exact=is_identifier(word.text))
            for (form, prefix), word in typed.items()
            if form
        ]
        return tuple(without_accidental_pairs(weighted(exact_terms, store)))
    forms, exact, prefix = _topic(query, typing)
    terms = inflected_terms(forms, store, query.language)
    for form in exact:  # its parts stay terms of their own, which match less
        if len(form) > 1:
            terms.append(Term((form,), exact=True))
        else:
            terms = [t._replace(exact=t.exact or t.forms[0] == form) for t in terms]
    if prefix:
        terms.append(Term((tuple(tokens(prefix)),), prefix=True))
    terms = without_accidental_pairs(weighted(terms, store))
    terms = with_other_forms(terms, store, query, is_english)
    return (*terms, *_synonym_terms(terms, store, query))


def inflected_terms(forms: Sequence[Form], store: Store, language: Language) -> list[Term]:
    """A term for each form, without weights. A single word has all its inflected forms."""
    single = list(dict.fromkeys(form[0] for form in forms if len(form) == 1))
    variants = dict(zip(single, store.variants(single, language), strict=True))
    terms = []
    for form in dict.fromkeys(forms):
        inflected: list[Form] = [form]
        if len(form) == 1:
            inflected = [(word,) for word in variants[form[0]]] + separate_words(form[0])
        terms.append(Term(tuple(inflected)))
    return terms


# -- what a query is about ---


def _topic(query: Query, typing: bool) -> tuple[list[Form], list[Form], str]:
    """Words and parts of words, identifiers and quotes, and the word that is still being typed."""
    assert query.node is not None
    topic: Sequence[Word] = content_words(query.node, query.language)
    if len(topic) > 1:
        framing = {word for frame in query.language.frames_in(query.rest) for word in tokens(frame)}
        if query.language is not ENGLISH:  # in English, they also match the dates of messages
            framing |= period_words(query.rest)
        topic = [word for word in topic if not framing.issuperset(tokens(word.text))] or topic
    unfinished = unfinished_word(query.rest) if typing else ""
    prefix = "" if is_too_short(unfinished) else unfinished
    if prefix:
        topic = [word for word in topic if word.text != prefix]
    # What stands for exactly one thing: an identifier, or several words in quotes. Whoever looks
    # for a line of a file is glad to find the file, and a version may stand alone.
    exact = [w.text for w in topic if is_identifier(w.text) or len(w.text.split()) > 1]
    exact += [part for text in exact for part in parts_that_stand_alone(text)]
    forms, exact_forms = topic_forms(query, topic), [tuple(tokens(text)) for text in exact if text]
    beginning = tuple(tokens(unfinished)[:-1])
    if not prefix and beginning and is_identifier(unfinished):  # "JIRA-" of "JIRA-7"
        exact_forms.append(beginning)
        if len(beginning) == 1:
            forms.append(beginning)
    return forms, exact_forms, prefix


def unfinished_word(text: str) -> str:
    """The word that the user is still typing."""
    if not text or text[-1].isspace():
        return ""
    return text.split()[-1]


def is_too_short(unfinished: str) -> bool:
    """Whether a word that the user is still typing is too short to be a prefix."""
    parts = tokens(unfinished)
    return not parts or len(parts[-1]) < _MIN_PREFIX_CHARACTERS or is_unspaced(parts[-1])


def topic_forms(query: Query, topic: Sequence[Word]) -> list[Form]:
    """The forms of typed words, which may hold several (`asyncio.gather`, `well-known`).

    Parts of identifiers that say nothing by themselves are left out, such as the numbers of a
    version, and particles of scripts without spaces if others remain. Keywords lose the "s" of
    "Ann's". Questions keep it, because their weights were fitted with it.
    """
    texts = [word.text for word in topic]
    if classify(query.rest) == KEYWORDS:
        texts = [without_possessive(text) for text in texts]
    language = unspaced_language(query.rest)
    forms: list[Form] = []
    for text in texts:
        parts = list(_forms(text, language))
        if is_identifier(text):
            whole = tuple(tokens(text))
            parts = [form for form in parts if form == whole or is_telling(form[0])]
        forms += parts
    if forms:
        return forms
    return [form for text in texts if not is_identifier(text) for form in _forms(text, None)]


def without_possessive(text: str) -> str:
    bare = text.rstrip(_EDGES)
    return bare[:-2] if bare.endswith(_POSSESSIVE_ENDS) else text


def is_telling(part: str) -> bool:
    """Whether a part of an identifier says something by itself."""
    return len(part) >= _MIN_PART_LETTERS and part.isalpha()


def _forms(text: str, language: Language | None) -> Iterator[Form]:
    """The words of a text. `language` is that of parts that are written without spaces."""
    if language is not None:
        text = language.without_dates(text)
    joined = joined_word(text)
    run = ""  # consecutive characters of a script without spaces
    for token in [joined] if joined else [*tokens(text), ""]:
        if token and is_unspaced(token):
            run += token
            continue
        if run:
            yield from unspaced_forms(run, language)
            run = ""
        if token:
            yield (token,)


def unspaced_forms(run: str, language: Language | None) -> Iterator[Form]:
    """The words in katakana and the pairs of other characters of a text between its particles.

    Also its nouns. A single character is paired with a neighbour.
    """
    topics = [run]
    if language is not None:
        topics = language.topics_in(run)
        yield from map(tuple, language.nouns_in(run))
    for topic in topics:
        start = 0
        for number, part in enumerate(_KATAKANA_WORD.split(topic)):
            if number % 2:
                yield tuple(part)
            elif len(part) == 1:
                yield tuple(topic[max(start - 1, 0) :][:2])
            else:
                yield from pairwise(part)
            start += len(part)


def without_accidental_pairs(terms: Sequence[Term]) -> list[Term]:
    """Drop the pairs of characters that span two words.

    No passage contains them, but passages contain the pair before or after them.
    """

    def overlap(first: Term, second: Term) -> bool:
        one, other = first.forms[0], second.forms[0]
        return len(one) == len(other) == 2 and (one[1] == other[0] or other[1] == one[0])

    return [
        term
        for number, term in enumerate(terms)
        if term.frequency
        or not is_unspaced(term.forms[0][0])
        or not any(
            other.frequency and overlap(term, other)
            for other in [*terms[max(number - 1, 0) : number], *terms[number + 1 : number + 2]]
        )
    ]


def _synonym_terms(terms: Sequence[Term], store: Store, query: Query) -> list[Term]:
    """A weak term for each word that the library does not contain, but synonyms of it.

    Where the library contains the word, messages with synonyms only would be noise. The parts of
    an identifier have none: what is about TLS is not about `ERR_SSL_FAILED`.
    """
    own_forms = {form for term in terms for form in term.forms}
    parts = {
        part
        for identifier in identifiers(query.rest)
        for part in tokens(identifier)
        if part != fold(identifier)
    }
    absent = [term.forms[0] for term in terms if not term.frequency and not term.prefix]
    words = [form[0] for form in absent if len(form) == 1 and form[0] not in parts]
    synonym_terms = []
    for word, phrases in zip(words, synonyms(words), strict=True):
        if phrases:
            inflected = inflected_terms(list(phrases), store, query.language)
            forms = dict.fromkeys(form for each in inflected for form in each.forms)
            other_forms = tuple(form for form in forms if form not in own_forms)
            if other_forms:
                synonym_terms.append(Term(other_forms, weak=True, stands_for=word))
    if not synonym_terms:
        return []
    found = [term for term in weighted(synonym_terms, store) if term.frequency]
    return [term._replace(weight=WEAK * term.weight) for term in found]
