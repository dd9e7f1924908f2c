"""What a search looks for: the terms of a query, their corrections and its meaning.

The meaning is the vector of the query in the vector space of the library. A word that the library
does not contain and the model knows only as fragments has no meaning: the vectors of its fragments
are those of other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from recollect.errors import InvalidInput, RecollectError
from recollect.index.meaning import Meaning
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, classify, is_statement
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Word, all_of
from recollect.language.text import is_unspaced, tokens
from recollect.language.when import windows
from recollect.model.search import Filter, SearchOptions
from recollect.search.queries.correction import correct_terms
from recollect.search.queries.query_terms import query_terms
from recollect.search.queries.terms import (
    RankingQuery,
    Term,
    any_term,
    form_name,
    identifier_node,
    own_terms,
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
