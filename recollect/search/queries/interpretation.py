"""What a search looks for: the terms of a query, their corrections and its meaning.

The meaning is the vector of the query in the vector space of the library. A word that the library
does not contain and the model knows only as fragments has no meaning: the vectors of its fragments
are those of other words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from recollect.errors import InvalidInput, RecollectError
from recollect.index.meaning import Meaning
from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, classify, is_statement
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Word, all_of
from recollect.language.text import is_unspaced, tokens
from recollect.language.when import windows
from recollect.language.words import Form, may_be_misspelled, neighbours, stem
from recollect.model.search import Filter, SearchOptions
from recollect.search.queries.query_terms import inflected_terms, query_terms
from recollect.search.queries.terms import (
    RankingQuery,
    Term,
    any_term,
    form_name,
    identifier_node,
    own_terms,
    weighted,
)
from recollect.store.base import Store
from recollect.store.values import Space

# Words of a statement that are searched for as a phrase. Fewer are too common, such as "my dog".
_MIN_STATEMENT = 3
# The first words of a pasted text are enough to find it.
_MAX_PHRASE = 32
_MAX_PHRASE_CHARACTERS = 1_000
_ENDS = ".,;:!… "
"""What people may type after keywords. For the model, each is a word with a meaning of its own."""
_NO_VECTORS = "There are no vectors to search yet. Run `recollect index`."
_NO_MEANING = "The model knows none of these words, so they cannot be searched by meaning alone."


class QueryMeaning(NamedTuple):
    """The vector of a query, and whether its neighbours are evidence."""

    space: Space | None = None
    vector: Any = None
    """None if the query is not searched for by meaning."""
    is_known: bool = True
    """Whether any word of the query has a meaning. Otherwise, its neighbours are not evidence."""
    is_mostly_known: bool = True
    """Whether the words with a meaning are at least half of the query, by weight. Otherwise, its
    vector is that of words such as "which" and "use"."""
    problem: str = ""
    """Why the vectors of the library were not used."""

    @property
    def noise_floor(self) -> float | None:
        """The cosine that unrelated messages rarely reach; None if cosines say nothing."""
        if self.space is None or not self.is_mostly_known:
            return None
        return self.space.noise_floor


NO_MEANING = QueryMeaning()
"""Of a query that is searched for by its words only."""


@dataclass(frozen=True)
class Interpretation:
    """What one search looks for. It is the same in every part of the library."""

    query: Query
    options: SearchOptions
    terms: tuple[Term, ...]
    """Words, phrases and identifiers, also synonyms."""
    corrections: Mapping[str, str]
    """Misspelled words, and what is searched for instead."""
    node: Node | None
    """What the text arm searches for; None if only the vector arm is used."""
    ranking_query: RankingQuery
    """What the ranker needs to know."""
    meaning: QueryMeaning = NO_MEANING
    every_term: bool = False
    """A message must contain all words of a plain query."""

    @property
    def is_plain(self) -> bool:
        """Whether the query has no operators, so that hits need not satisfy it exactly."""
        return self.query.plain

    @property
    def intent(self) -> str:
        """Whether it is a question, keywords or an identifier."""
        return self.ranking_query.intent

    @property
    def is_by_meaning(self) -> bool:
        """Whether messages can be hits by their meaning alone. Only the nearest ones are."""
        return self.meaning.vector is not None and self.query.plain

    @property
    def needs_evidence(self) -> bool:
        """Whether hits may be unrelated: not if they satisfy operators or resemble a message."""
        return self.query.plain and self.ranking_query.by_person

    @property
    def mode(self) -> str:
        """What is searched: "text", "vector" or "both"."""
        if self.options.mode == "both" and self.meaning.vector is None:
            return "text"
        return self.options.mode

    @cached_property
    def own_terms(self) -> tuple[Term, ...]:
        """The terms without synonyms."""
        return own_terms(self.terms)

    @cached_property
    def words(self) -> list[Word]:
        """The words to highlight, in all their forms."""
        return [word for term in self.terms for word in term.words]

    @cached_property
    def term_names(self) -> list[str]:
        return [term.name for term in self.terms]

    @cached_property
    def all_terms(self) -> Node:
        """A query for messages that contain every term."""
        return _all_terms(self.own_terms)


def interpret(
    query: Query,
    store: Store,
    filters: Sequence[Filter],
    meaning: Meaning,
    options: SearchOptions,
    *,
    every_term: bool = False,
) -> Interpretation:
    """Decide what to search for. Raises InvalidInput if there are no vectors and they are needed.

    A misspelled word is corrected only to a word of something that passes one of the filters. A
    query with operators is not a question. A question by meaning alone has no terms.
    """
    terms, corrections = corrected_terms(query, store, filters, meaning, options)
    intent = classify(query.rest) if query.plain else KEYWORDS
    ranking_query = RankingQuery(
        query.rest,
        () if options.mode == "vector" and query.plain else terms,
        options.now,
        windows(query.rest, options.now),
        intent=intent,
        phrase=typed_phrase(query, intent, corrections, options),
    )
    meaning_of_query = NO_MEANING
    if options.mode != "text":
        meaning_of_query = query_meaning(query, terms, corrections, store, meaning)
    if options.mode == "vector":
        require_vector(meaning_of_query)
    node = query.node
    if query.plain:
        if options.mode == "vector" or not terms:
            node = None
        elif every_term:
            node = _all_terms(own_terms(terms))
        else:
            node = identifier_node(terms) if intent == IDENTIFIER else any_term(terms)
    return Interpretation(
        query, options, terms, corrections, node, ranking_query, meaning_of_query, every_term
    )


def corrected_terms(
    query: Query,
    store: Store,
    filters: Sequence[Filter],
    meaning: Meaning,
    options: SearchOptions,
) -> tuple[tuple[Term, ...], dict[str, str]]:
    """The terms of a query, and the words that replace misspelled ones."""
    terms = query_terms(query, store, meaning.knows, options.typing)
    if not query.plain or not options.correct or '"' in query.rest:
        return terms, {}
    return correct_terms(terms, store, filters, query.language, meaning.knows)


def _all_terms(terms: Sequence[Term]) -> Node:
    return all_of([term.node for term in terms])


def typed_phrase(
    query: Query, intent: str, corrections: Mapping[str, str], options: SearchOptions
) -> Term | None:
    """The words of keywords or a statement, next to each other.

    A question has none: a message that repeats it does not answer it.
    """
    text = query.pasted or query.rest
    are_keywords = intent == KEYWORDS and not query.pasted
    typed_words = tokens(text[:_MAX_PHRASE_CHARACTERS])[:_MAX_PHRASE]
    if options.mode == "vector" or len(typed_words) < (2 if are_keywords else _MIN_STATEMENT):
        return None
    if not are_keywords and not is_statement(text):
        return None
    words = " ".join([corrections.get(word, word) for word in typed_words])
    return Term((tuple(words.split()),), prefix=options.typing)


# -- the meaning of a query ---


def query_meaning(
    query: Query,
    terms: Sequence[Term],
    corrections: Mapping[str, str],
    store: Store,
    meaning: Meaning,
) -> QueryMeaning:
    """The meaning of a query. If the model fails, `problem` says why."""
    own = own_terms(terms)
    if not query.plain:
        return embed(" ".join(term.name for term in own) or query.rest, store, meaning)
    with_meaning = [term for term in own if has_meaning(term, meaning)]
    meaningless = {term.name for term in own if term not in with_meaning}
    text = query.rest
    if classify(text) == KEYWORDS:
        text = text.rstrip(_ENDS)
    if meaningless or corrections:
        # Without words that have no meaning. If none has one, it is no evidence anyway.
        names = [(word, form_name(tokens(word))) for word in text.split()]
        words = [corrections.get(n, word) for word, n in names if n not in meaningless]
        text = " ".join(words) or text
    result = embed(text, store, meaning)
    known_weight = sum(term.weight for term in with_meaning)
    return result._replace(
        is_known=not terms or bool(with_meaning),
        is_mostly_known=2 * known_weight >= sum(term.weight for term in own),
    )


def require_vector(meaning: QueryMeaning) -> None:
    """Raise InvalidInput if a query cannot be searched for by meaning alone."""
    if meaning.vector is None:
        problem = _NO_VECTORS if meaning.space is None else _NO_MEANING
        raise InvalidInput(meaning.problem or problem)


def has_meaning(term: Term, meaning: Meaning) -> bool:
    """The neighbours of a number are other numbers, and characters are fragments of words."""
    words = [word for form in term.forms for word in form]
    if term.frequency or term.name.isdigit() or any(map(is_unspaced, words)):
        return bool(term.frequency)
    return all(map(meaning.knows, words))


def embed(text: str, store: Store, meaning: Meaning) -> QueryMeaning:
    space: Space | None = None
    try:
        space = meaning.space()
        if space is None:
            return NO_MEANING
        return QueryMeaning(space, meaning.vector(space, text))
    except RecollectError as error:
        return QueryMeaning(space, problem=f"Vectors were not used: {error}")


def stored_meaning(key: int, store: Store, meaning: Meaning) -> QueryMeaning:
    """The mean of the vectors of a message, if it has any."""
    space = meaning.space()
    vectors = store.vectors(space, key) if space is not None else []
    if not vectors:
        return NO_MEANING
    total = sum(vectors[1:], vectors[0])
    return QueryMeaning(space, total / (total @ total) ** 0.5)


# -- misspelled words ---
# A word is corrected only if it occurs nowhere in the library, is not an English word that the
# model knows, and a word of the library is one edit away, or has another letter doubled. That word
# must be frequent, unless one of the two is long, they have the same letters once or twice
# ("risoto" for risotto), or it is another form of the misspelled one in some language: a single
# word does not tell its language.
#
# If there is no such word, but the misspelled one consists of two words that are next to each other
# in some message, it lacks a space: "selfcare" is self-care. So does a name that lacks its
# apostrophe: "obrien" is O'Brien, even if some message has "Brien".
#
# The page says what was corrected, and the caller can turn correction off.

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
