"""Searching for conversations that contain several concepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.candidates import Scope
from recollect.search.engine import Search, message_search
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import interpret
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.remarks import note_unknown_names
from recollect.search.results import make_hit
from recollect.settings import LIMITS
from recollect.store.base import Store

MOST_MATCHES = 10_000
"""The most messages with a concept that are looked at. Conversations of others may be missing."""
_MOST_RANKED = 1_000
"""The most conversations that are ranked. The others follow, in the order of the text engine."""
_ENOUGH_CONVERSATIONS = 20
"""With fewer, those that have the concepts in other words follow."""
_MIN_SIMILARITY = 0.65
"""The mean similarity of a conversation to all concepts, as a share of the noise floor, from which
their meaning is enough. That several concepts are all near is rarer than that one is."""


def search_concepts(
    store: Store, meaning: Meaning, concepts: Sequence[str], filter: Filter, options: SearchOptions
) -> Page:
    """Conversations that contain all of several concepts, best first.

    The best messages of a concept may all be in conversations that lack another concept. So the
    conversations that have all concepts are found first, and only their messages are ranked.
    """
    if not 2 <= len(concepts) <= LIMITS.concepts:
        raise InvalidInput(
            f"Give 2 to {LIMITS.concepts} concepts, or a single text, not {len(concepts)} concepts."
        )
    searches = [search_for(store, meaning, concept, filter, options) for concept in concepts]
    # The rarest narrows the others most.
    searches.sort(key=lambda search: search.pool.count()[0])
    first_keys, is_complete = matches(searches)
    found = list(first_keys[-1]) if first_keys else []
    ranked = _RankedConversations(searches, found[:_MOST_RANKED] if first_keys else None)
    order = [*ranked.order, *(name for name in found if name not in ranked.scores)]
    is_by_both = all(search.interpretation.mode == "both" for search in searches)
    near: _RankedConversations | None = None
    if len(order) < _ENOUGH_CONVERSATIONS and is_by_both:
        near = _RankedConversations(list(map(by_meaning, searches)), None)
        order += [name for name in near.order if name not in order and near.is_similar(name)]
    last_score = ranked.score(min(ranked.scores.values(), default=0.0)) / 2
    hits = []
    for name in order[options.offset : options.offset + options.limit]:
        if name in ranked.scores:
            hits.append(ranked.hit(name, options.snippet_length))
        elif near is not None and name in near.scores:
            hits.append(near.hit(name, options.snippet_length))
        else:
            hits += unranked_hit(searches, [keys[name] for keys in first_keys], last_score)
    page = ranked.empty_page(options)
    if not order:
        for each in dict.fromkeys(search.scope.filter for search in searches):
            page = replace(page, note=note_unknown_names(page.note, store, each))
    is_partial = any(search.scope.is_partial for search in searches)
    is_exhausted = all(search.pool.is_exhausted for search in ranked.searches)
    return replace(
        page,
        hits=tuple(hits),
        total=len(order),
        exact=not is_partial and (is_complete or is_exhausted),
        partial=is_partial,
        matched="all",
    )


def search_for(
    store: Store, meaning: Meaning, concept: str, filter: Filter, options: SearchOptions
) -> Search:
    query = parse_any_length(concept, store)
    if not has_words(query):
        raise InvalidInput(f"The concept {concept!r} contains no word to search for.")
    scope = Scope.begin(store, narrow_filter(filter, query, store))
    interpretation = interpret(
        query, scope.store, [scope.filter], meaning, options, every_term=True
    )
    return message_search(interpretation, scope)


def by_meaning(search: Search) -> Search:
    """The same search in the mode "vector"."""
    interpretation = search.interpretation
    query = replace(interpretation.ranking_query, terms=(), phrase=None)
    options = replace(interpretation.options, mode="vector")
    return message_search(
        replace(interpretation, options=options, node=None, ranking_query=query), search.scope
    )


def matches(searches: Sequence[Search]) -> tuple[list[Mapping[str, int]], bool]:
    """For each concept, the key of the first match in each conversation that also has those before.

    Also whether all matches were looked at. Nothing if a concept is searched for by its meaning
    alone.
    """
    if any(search.interpretation.node is None for search in searches):
        return [], False
    first_keys: list[Mapping[str, int]] = []
    is_complete = True
    for search in searches:
        if first_keys:
            search = search.restricted_to(first_keys[-1])
        keys = search.pool.matches(MOST_MATCHES)
        is_complete = is_complete and len(keys) < MOST_MATCHES
        documents = {key: name for key, name, _ in search.scope.store.change_times(keys)}
        first: dict[str, int] = {}
        for key in keys:
            if key in documents:
                first.setdefault(documents[key], key)
        first_keys.append(first)
    return first_keys, is_complete


def unranked_hit(searches: Sequence[Search], keys: Sequence[int], score: float) -> list[Hit]:
    """The hit of a conversation that was not ranked: the first match of each concept."""
    hits = [
        make_hit(candidate, search.words, score, search.interpretation.options.snippet_length)
        for search, key in zip(searches, keys, strict=True)
        for candidate in search.pool.candidates([key])
    ]
    return [with_others(hits, hits[0])] if hits else []


class _RankedConversations:
    """The conversations in which every concept has a ranked message."""

    def __init__(self, searches: Sequence[Search], conversations: Iterable[str] | None) -> None:
        """`searches`: one for each concept. With `conversations`, they look only in these."""
        self.searches: list[Search] = []
        """Each looks only in the conversations that the one before it has found."""
        self._best: list[dict[str, ScoredCandidate]] = []
        """The best message of each conversation for each concept."""
        for search in searches:
            if conversations is not None:
                search = search.restricted_to(conversations)
            best: dict[str, ScoredCandidate] = {}
            for scored in search.ranking.candidates:
                best.setdefault(scored.candidate.document, scored)
            self.searches.append(search)
            self._best.append(best)
            conversations = best
        self.score = self.searches[0].ranking.score
        self.scores = {
            name: sum(best[name].score for best in self._best) / len(self._best)
            for name in self._best[-1]
        }
        """The ranker's score of each conversation: the mean of those of its best messages."""
        self.order = sorted(self.scores, key=lambda name: (-self.scores[name], name))

    def is_similar(self, conversation: str) -> bool:
        """Whether a conversation is near enough to all concepts."""
        similarity = 0.0
        for search, best in zip(self.searches, self._best, strict=True):
            floor = search.interpretation.meaning.noise_floor
            if floor:  # otherwise the cosines mean nothing
                similarity += (best[conversation].cosine or 0.0) / floor
        return similarity >= _MIN_SIMILARITY * len(self.searches)

    def empty_page(self, options: SearchOptions) -> Page:
        """A page without hits, with the remarks on all concepts, each once."""
        pages = [search.empty_page(options) for search in self.searches]
        remarks: dict[str, None] = {}
        corrections: dict[str, str] = {}
        for search, page in zip(self.searches, pages, strict=True):
            remarks |= dict.fromkeys(search.remarks(is_weak=page.weak))
            corrections |= page.corrections
        return replace(
            pages[-1],
            weak=any(page.weak for page in pages),
            note=" ".join(remarks),
            missing=tuple(dict.fromkeys(word for page in pages for word in page.missing)),
            corrections=corrections,
        )

    def hit(self, conversation: str, length: int) -> Hit:
        """A conversation as a hit: its best message for any concept, and those for the others."""
        hits = [
            search.ranking.hit(best[conversation], length)
            for search, best in zip(self.searches, self._best, strict=True)
        ]
        first = max(hits, key=lambda hit: hit.score)
        return replace(with_others(hits, first), score=self.score(self.scores[conversation]))


def with_others(hits: Sequence[Hit], first: Hit) -> Hit:
    return replace(first, also=tuple(hit for hit in hits if hit.message_id != first.message_id))
