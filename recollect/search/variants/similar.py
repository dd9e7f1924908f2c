"""Searching for messages that are similar to a message."""

from __future__ import annotations

from dataclasses import replace

from recollect.index.meaning import Meaning
from recollect.language.queries.query import parse_query
from recollect.language.text import tokens
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.candidates.scope import Scope
from recollect.search.engine import Search
from recollect.search.queries.interpretation import (
    Interpretation,
    corrected_terms,
    query_intent,
    scoring_terms,
    text_node,
)
from recollect.search.queries.query_meaning import (
    NO_MEANING,
    QueryMeaning,
    query_meaning,
    require_vector,
)
from recollect.search.queries.terms import RankingQuery, own_terms
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate

_TERMS_OF_MESSAGE = 12  # terms of a message used to find similar ones


def related(
    store: Store,
    meaning: Meaning,
    conversation: str,
    message: str,
    filter: Filter,
    options: SearchOptions,
) -> Page:
    """Messages similar to a message, in words and in meaning, without the message itself."""
    key = store.passage_key(conversation, message)
    (candidate,) = store.candidates([key], Filter(hidden=True))
    scope = Scope.begin(store, filter)
    interpretation = _interpret(candidate, scope, meaning, options)
    search = Search(interpretation, scope, excluded_keys={key})
    page = search.page(options)
    if options.group == "conversation":
        return page
    total = page.total
    if page.exact and not search.pool.is_exhausted and search.pool.candidates([key]):
        total -= 1  # the text index counts the message itself
    return replace(page, total=max(total, len(search.ranking.candidates)))


def _interpret(
    candidate: Candidate, scope: Scope, meaning: Meaning, options: SearchOptions
) -> Interpretation:
    """A search for the most telling words that a message shares with others, and its meaning."""
    text = " ".join(dict.fromkeys(tokens(candidate.content)))
    query = parse_query(_truncate_query(text))
    all_terms, corrections = corrected_terms(query, scope.store, [scope.filter], meaning, options)
    shared_terms = [term for term in own_terms(all_terms) if term.frequency > 1]
    shared_terms.sort(key=lambda term: -term.weight)
    terms = tuple(shared_terms[:_TERMS_OF_MESSAGE])
    now = candidate.created_at or options.now
    message_meaning = NO_MEANING
    if options.mode != "text":
        message_meaning = _stored_meaning(candidate, scope, meaning)
        if message_meaning.vector is None:
            message_meaning = query_meaning(query, all_terms, corrections, scope.store, meaning)
    if options.mode == "vector":
        require_vector(message_meaning)
    return Interpretation(
        query,
        options,
        terms,
        corrections,
        text_node(query, terms, query_intent(query), options),
        RankingQuery("", scoring_terms(query, terms, options), now, by_person=False),
        message_meaning,
    )


def _stored_meaning(candidate: Candidate, scope: Scope, meaning: Meaning) -> QueryMeaning:
    """The mean of the vectors of a message, if it has any."""
    space = meaning.space()
    if space is None:
        return NO_MEANING
    vectors = scope.store.vectors(space, candidate.key)
    if not vectors:
        return NO_MEANING
    total = sum(vectors[1:], vectors[0])
    return QueryMeaning(space, total / (total @ total) ** 0.5)


def _truncate_query(text: str) -> str:
    """As much of a text as a query may have."""
    beginning = text.encode()[: LIMITS.query_bytes].decode(errors="ignore")
    return " ".join(beginning.split()[: LIMITS.query_terms])
