"""Searching for conversations that contain several concepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.query import parse_query
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.engine import Search
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.ranking.scored import ScoredCandidate
from recollect.settings import LIMITS
from recollect.store.base import Store

_Best = dict[str, ScoredCandidate]
"""The best message of each conversation."""


def search_concepts(
    store: Store, meaning: Meaning, concepts: Sequence[str], filter: Filter, options: SearchOptions
) -> Page:
    """Conversations that contain all of several concepts, best first."""
    if not 2 <= len(concepts) <= LIMITS.concepts:
        raise InvalidInput(
            f"Give 2 to {LIMITS.concepts} concepts, or a single text, not {len(concepts)} concepts."
        )
    searches = [_prepare(store, meaning, concept, filter, options) for concept in concepts]
    searches.sort(key=lambda search: search.count()[0])  # the rarest narrows the others most
    best = _best_for_each(searches)
    scores = {
        conversation: sum(each[conversation].score for each in best) / len(best)
        for conversation in best[-1]
    }
    order = sorted(scores, key=lambda conversation: (-scores[conversation], conversation))
    hits = []
    for conversation in order[options.offset : options.offset + options.limit]:
        candidates = [each[conversation] for each in best]
        hits.append(_hit(searches, candidates, scores[conversation]))
    return replace(
        searches[-1].empty_page(),
        hits=tuple(hits),
        total=len(order),
        exact=all(search.is_exhausted and not search.is_partial for search in searches),
        partial=any(search.is_partial for search in searches),
        matched="all",
    )


def _prepare(
    store: Store, meaning: Meaning, concept: str, filter: Filter, options: SearchOptions
) -> Search:
    query = parse_query(concept)
    if not has_words(query):
        raise InvalidInput(f"The concept {concept!r} contains no word to search for.")
    filter = narrow_filter(filter, query, store)
    return Search(store, meaning, query, filter, options, every_term=True)


def _best_for_each(searches: Sequence[Search]) -> list[_Best]:
    """For each concept, the best message of every conversation that contains all concepts."""
    results: list[_Best] = []
    for search in searches:
        if results:
            search.restrict_to(results[-1])
        best: _Best = {}
        for scored in search.ranking():
            best.setdefault(scored.candidate.document, scored)
        results.append(best)
    common = results[-1]  # each search was restricted to the conversations of the one before it
    return [{name: best[name] for name in common} for best in results]


def _hit(searches: Sequence[Search], candidates: Sequence[ScoredCandidate], score: float) -> Hit:
    """One conversation: its best message for any concept, and those for the other concepts."""
    hits = [search.hit(each) for search, each in zip(searches, candidates, strict=True)]
    first = max(hits, key=lambda hit: hit.score)
    others = tuple(hit for hit in hits if hit.message_id != first.message_id)
    return replace(first, score=searches[0].scale.score(score), also=others)
