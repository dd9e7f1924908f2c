"""What a search looks for: the terms of a query, their corrections and its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.index.meaning import Meaning
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, classify, is_statement
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import And, Node, Word
from recollect.language.text import tokens
from recollect.language.when import windows
from recollect.model.search import Filter, SearchOptions
from recollect.search.queries.correction import correct_terms, is_other_form
from recollect.search.queries.forms import with_forms_of_library_languages
from recollect.search.queries.query_meaning import (
    NO_MEANING,
    QueryMeaning,
    query_meaning,
    require_vector,
)
from recollect.search.queries.query_terms import may_correct, query_terms
from recollect.search.queries.terms import RankingQuery, Term, any_term, identifier_node, own_terms
from recollect.store.base import Store

# Words of a statement that are searched for as a phrase. Fewer are too common, such as "my dog".
_MIN_STATEMENT = 3
# The first words of a pasted text are enough to find it.
_MAX_PHRASE = 32
_MAX_PHRASE_CHARACTERS = 1_000


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

    A misspelled word is corrected only to a word of something that passes one of the filters.
    """
    terms, corrections = corrected_terms(query, store, filters, meaning, options)
    intent = query_intent(query)
    ranking_query = RankingQuery(
        query.rest,
        scoring_terms(query, terms, options),
        options.now,
        windows(query.rest, options.now),
        intent=intent,
        phrase=_typed_phrase(query, intent, corrections, options),
    )
    meaning_of_query = NO_MEANING
    if options.mode != "text":
        meaning_of_query = query_meaning(query, terms, corrections, store, meaning)
    if options.mode == "vector":
        require_vector(meaning_of_query)
    node = text_node(query, terms, intent, options, every_term=every_term)
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
    if not may_correct(query, options):
        return terms, {}
    corrected, corrections = correct_terms(terms, store, filters, query.language, meaning.knows)
    if any(is_other_form(word, typo) for typo, word in corrections.items()):
        # In a language of the library, it is another form of the word and no correction of it.
        terms = with_forms_of_library_languages(terms, store, query, meaning.knows)
        return correct_terms(terms, store, filters, query.language, meaning.knows)
    return with_forms_of_library_languages(corrected, store, query, meaning.knows), corrections


def query_intent(query: Query) -> str:
    """What the user probably wants. A query with operators is not a question."""
    if not query.plain:
        return KEYWORDS
    return classify(query.rest)


def scoring_terms(
    query: Query, terms: tuple[Term, ...], options: SearchOptions
) -> tuple[Term, ...]:
    """The terms that affect the score. A question by meaning alone has none."""
    if options.mode == "vector" and query.plain:
        return ()
    return terms


def text_node(
    query: Query,
    terms: Sequence[Term],
    intent: str,
    options: SearchOptions,
    *,
    every_term: bool = False,
) -> Node | None:
    """What the text arm searches for; None if only the vector arm is used."""
    if not query.plain:
        return query.node
    if options.mode == "vector" or not terms:
        return None
    if every_term:
        return _all_terms(own_terms(terms))
    if intent == IDENTIFIER:
        return identifier_node(terms)
    return any_term(terms)


def _all_terms(terms: Sequence[Term]) -> Node:
    nodes = tuple(term.node for term in terms)
    if len(nodes) == 1:
        return nodes[0]
    return And(nodes)


def _typed_phrase(
    query: Query, intent: str, corrections: Mapping[str, str], options: SearchOptions
) -> Term | None:
    """The words of keywords or a statement, next to each other.

    A question has none: a message that repeats it does not answer it.
    """
    if options.mode == "vector":
        return None
    text = query.pasted or query.rest
    fewest = _MIN_STATEMENT
    if intent == KEYWORDS and not query.pasted:
        fewest = 2
    elif not is_statement(text):
        return None
    typed_words = tokens(text[:_MAX_PHRASE_CHARACTERS])[:_MAX_PHRASE]
    if len(typed_words) < fewest:
        return None
    text = " ".join([corrections.get(word, word) for word in typed_words])
    return Term((tuple(text.split()),), prefix=options.typing)
