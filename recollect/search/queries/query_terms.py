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
from recollect.language.spellings import (
    joined_word,
    other_spellings,
    parts_that_stand_alone,
    separate_words,
)
from recollect.language.text import fold, is_unspaced, tokens
from recollect.language.when import period_words
from recollect.language.words import content_words, synonyms
from recollect.search.queries.forms import with_other_forms
from recollect.search.queries.terms import WEAK, Form, Term, weighted, weighted_term
from recollect.store.base import Store

_POSSESSIVE = re.compile(r"(?<=\w)['’]s\W*$", re.IGNORECASE)
_KATAKANA_WORD = re.compile(r"[\u30a1-\u30fa\u30fc]{3,}")
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
    terms, weak_terms = with_other_forms(terms, store, query, is_english)
    return (*terms, *_synonym_terms(terms, store, query), *weak_terms)


def inflected_term(word: str, store: Store, language: Language) -> Term:
    """A word in all its inflected forms, with its weight in this library."""
    (term,) = inflected_terms([(word,)], store, language)
    return weighted_term(term, store)


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
    """The forms of the words, without particles of scripts without spaces if others remain.

    Keywords lose the "s" of "Ann's". Questions keep it, because their weights were fitted with it.
    """
    if classify(query.rest) == KEYWORDS:
        topic = [Word(_POSSESSIVE.sub("", word.text), word.prefix) for word in topic]
    language = unspaced_language(query.rest)
    forms = [f for word in topic for f in _forms(word.text, language) if is_telling(word, f)]
    if forms:
        return forms
    other_words = [word for word in topic if not is_identifier(word.text)]
    return [form for word in other_words for form in _forms(word.text, None)]


def is_telling(word: Word, form: Form) -> bool:
    """Whether a part of a word says something by itself. The numbers of a version do not."""
    if form == tuple(tokens(word.text)) or not is_identifier(word.text):
        return True
    return len(form[0]) >= _MIN_PART_LETTERS and form[0].isalpha()


def _forms(text: str, language: Language | None) -> Iterator[Form]:
    """The forms in one typed word, which may hold several (`asyncio.gather`, `well-known`).

    Text in a script without spaces is of this language, if it is known.
    """
    if language is not None:
        text = language.without_dates(text)
    joined = joined_word(text)
    if joined:
        yield (joined,)
        return
    run = ""  # consecutive characters of a script without spaces
    for token in tokens(text):
        if is_unspaced(token):
            run += token
            continue
        yield from unspaced_forms(run, language)
        run = ""
        yield (token,)
    yield from unspaced_forms(run, language)


def unspaced_forms(run: str, language: Language | None) -> Iterator[Form]:
    """The pairs of characters and words of each part of a text between its particles.

    Also its nouns.
    """
    topics = [run]
    if language is not None:
        topics = language.topics_in(run)
        yield from map(tuple, language.nouns_in(run))
    for topic in topics:
        yield from parts_and_words(topic)


def parts_and_words(topic: str) -> Iterator[Form]:
    """The pairs of characters of a text, and its words in katakana.

    These are words of other languages, and say nothing in part: コンピュータ (computer) is not in
    キャンピングカー (camper), although both have a pair of the other.
    """
    place = 0
    for match in _KATAKANA_WORD.finditer(topic):
        yield from pairs(topic, place, match.start())
        yield tuple(match[0])
        place = match.end()
    yield from pairs(topic, place, len(topic))


def pairs(text: str, start: int, end: int) -> Iterator[Form]:
    """The pairs of characters in a part of a text. A single character is paired with the next."""
    if start == end:
        return
    if end - start == 1:
        start, end = max(start - 1, 0), min(end + (start == 0), len(text))
    if end - start == 1:
        yield (text[start],)
    else:
        yield from pairwise(text[start:end])


# -- words in all their forms ---


def inflected_terms(forms: Sequence[Form], store: Store, language: Language) -> list[Term]:
    forms = list(dict.fromkeys(forms))
    spellings = with_spellings([form[0] for form in forms if len(form) == 1], language)
    variants = dict(zip(spellings, store.variants(spellings, language), strict=True))
    terms = []
    for form in forms:
        all_forms = [form]
        if len(form) == 1:
            all_forms = [(w,) for each in with_spellings(form, language) for w in variants[each]]
            all_forms += separate_words(form[0])
        terms.append(Term(tuple(dict.fromkeys(all_forms))))
    return terms


def with_spellings(words: Sequence[str], language: Language) -> list[str]:
    """The words with their other spellings and, in English, plurals of acronyms, each once."""
    spellings = [each for word in words for each in (word, *other_spellings(word, language))]
    return list(dict.fromkeys(spellings))


def without_accidental_pairs(terms: Sequence[Term]) -> list[Term]:
    """Drop the pairs of characters that span two words.

    No passage contains them, but passages contain the pair before or after them.
    """
    remaining = []
    for number, term in enumerate(terms):
        neighbours = [*terms[max(number - 1, 0) : number], *terms[number + 1 : number + 2]]
        is_accidental = not term.frequency and any(
            other.frequency and overlap(term, other) for other in neighbours
        )
        if not is_accidental:
            remaining.append(term)
    return remaining


def overlap(first: Term, second: Term) -> bool:
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
