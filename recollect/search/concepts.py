"""Searching for conversations that contain several concepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.query import parse_query
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.engine import Search
from recollect.search.query_filter import has_words, narrow_filter
from recollect.search.ranking.scored import ScoredCandidate
from recollect.settings import LIMITS
from recollect.store.base import Store


def search_concepts(
    store: Store, meaning: Meaning, concepts: Sequence[str], filter: Filter, options: SearchOptions
) -> Page:
    """Conversations that contain all of several concepts, best first."""
    if not 2 <= len(concepts) <= LIMITS.concepts:
        raise InvalidInput(
            f"Give 2 to {LIMITS.concepts} concepts, or a single text, not {len(concepts)} concepts."
        )
    searches = []
    for concept in concepts:
        query = parse_query(concept)
        if not has_words(query):
            raise InvalidInput(f"The concept {concept!r} contains no word to search for.")
        concept_filter = narrow_filter(filter, query, store)
        searches.append(Search(store, meaning, query, concept_filter, options, every_term=True))
    searches.sort(key=lambda each: each.count()[0])  # the rarest concept narrows the others most
    best_hits: list[dict[str, ScoredCandidate]] = []  # for each concept, by conversation
    for one in searches:
        if best_hits:
            one.restrict_to(best_hits[-1])
        best: dict[str, ScoredCandidate] = {}
        for scored in one.ranking():
            best.setdefault(scored.candidate.document, scored)
        best_hits = [{d: s for d, s in each.items() if d in best} for each in best_hits]
        best_hits.append(best)
    scores = {
        document: sum(each[document].score for each in best_hits) / len(best_hits)
        for document in best_hits[-1]
    }
    order = sorted(scores, key=lambda document: (-scores[document], document))
    hits = []
    for document in order[options.offset : options.offset + options.limit]:
        each = [one.hit(best[document]) for one, best in zip(searches, best_hits, strict=True)]
        first = max(each, key=lambda hit: hit.score)
        others = tuple(hit for hit in each if hit.message_id != first.message_id)
        score = searches[0].scale.score(scores[document])
        hits.append(replace(first, score=score, also=others))
    return replace(
        searches[-1].empty_page(),
        hits=tuple(hits),
        total=len(order),
        exact=all(one.is_exhausted and not one.is_partial for one in searches),
        partial=any(one.is_partial for one in searches),
        matched="all",
    )
