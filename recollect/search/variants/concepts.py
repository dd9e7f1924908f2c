"""Searching for conversations that contain several concepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.candidates.scope import Scope
from recollect.search.engine import Search
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import interpret
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.results.hits import make_hit
from recollect.search.results.unknown_names import note_unknown_names
from recollect.settings import LIMITS
from recollect.store.base import Store

FEW_MATCHES = 1_000
"""The most messages with a concept that are examined at first."""
MOST_MATCHES = 10_000
"""The most if those are too few. Conversations of further messages may be missing."""
_ENOUGH_CONVERSATIONS = 20
"""Enough for a ranking."""

_MIN_SIMILARITY = 0.65
"""The mean similarity of a conversation to all concepts, as a share of the noise floor, from which
their meaning is enough. That several concepts are all near is rarer than that one is."""

_Best = dict[str, ScoredCandidate]
"""The best message of each conversation."""


class _Matches(NamedTuple):
    """The conversations in which every concept has a match."""

    first_keys: Sequence[Mapping[str, int]] = ()
    """For each concept, the key of the first match in each conversation."""
    is_complete: bool = False
    """Whether all matches were looked at."""

    @property
    def conversations(self) -> Iterable[str]:
        """Each concept was searched for only in the conversations of the one before it."""
        if not self.first_keys:
            return ()
        return self.first_keys[-1]

    def with_more(self, other: _Matches) -> _Matches:
        """These matches, and those of a wider search in other conversations."""
        pairs = zip(other.first_keys, self.first_keys, strict=True)
        return _Matches([{**more, **own} for more, own in pairs], other.is_complete)


def search_concepts(
    store: Store, meaning: Meaning, concepts: Sequence[str], filter: Filter, options: SearchOptions
) -> Page:
    """Conversations that contain all of several concepts, best first."""
    if not 2 <= len(concepts) <= LIMITS.concepts:
        raise InvalidInput(
            f"Give 2 to {LIMITS.concepts} concepts, or a single text, not {len(concepts)} concepts."
        )
    searches = [_prepare(store, meaning, concept, filter, options) for concept in concepts]
    # The rarest narrows the others most.
    searches.sort(key=lambda search: search.pool.count()[0])
    return _ConceptSearch(searches, options).page()


def _prepare(
    store: Store, meaning: Meaning, concept: str, filter: Filter, options: SearchOptions
) -> Search:
    query = parse_any_length(concept, store)
    if not has_words(query):
        raise InvalidInput(f"The concept {concept!r} contains no word to search for.")
    filter = narrow_filter(filter, query, store)
    scope = Scope.begin(store, filter)
    interpretation = interpret(query, scope.store, [filter], meaning, options, every_term=True)
    return Search(interpretation, scope)


class _ConceptSearch:
    """A search for conversations, with a search for the messages of each concept.

    The best messages of a concept may all be in conversations that lack another concept. So the
    conversations that have all concepts are found first, and only their messages are ranked.
    """

    def __init__(self, searches: Sequence[Search], options: SearchOptions) -> None:
        self._searches = searches
        self._options = options

    def page(self) -> Page:
        matches = self._enough_matches()
        conversations: Iterable[str] | None = None
        if matches.first_keys:
            conversations = matches.conversations
        ranking = _RankedConversations(self._searches, conversations, self._options)
        order = ranking.order()
        order += [name for name in matches.conversations if name not in ranking.scores]
        rankings = [ranking]
        if len(order) < _ENOUGH_CONVERSATIONS and self._is_by_both:
            near = _RankedConversations(list(map(_by_meaning, self._searches)), None, self._options)
            order += [name for name in near.order() if name not in order and near.is_similar(name)]
            rankings.append(near)
        start, end = self._options.offset, self._options.offset + self._options.limit
        if end > len(order) and not matches.is_complete:
            # The first ones stay in their places, so that pages neither repeat nor omit any.
            listed_names = set(order)
            matches = matches.with_more(self._matches(MOST_MATCHES))
            order += [name for name in matches.conversations if name not in listed_names]
        is_partial = any(search.scope.is_partial for search in self._searches)
        is_complete = matches.is_complete or ranking.is_complete()
        page = ranking.empty_page()
        if not order:
            page = replace(page, note=self._note_unknown_names(page.note))
        return replace(
            page,
            hits=self._hits(order[start:end], matches, rankings),
            total=len(order),
            exact=is_complete and not is_partial,
            partial=is_partial,
            matched="all",
        )

    @property
    def _is_by_both(self) -> bool:
        """Whether conversations may also have the concepts in other words."""
        return all(search.interpretation.mode == "both" for search in self._searches)

    def _note_unknown_names(self, note: str) -> str:
        """Each concept may name other projects, and so on."""
        store = self._searches[0].scope.store
        for filter in dict.fromkeys(search.scope.filter for search in self._searches):
            note = note_unknown_names(note, store, filter)
        return note

    def _enough_matches(self) -> _Matches:
        matches = self._matches(FEW_MATCHES)
        if not matches.is_complete and len(list(matches.conversations)) < _ENOUGH_CONVERSATIONS:
            matches = self._matches(MOST_MATCHES)
        return matches

    def _matches(self, limit: int) -> _Matches:
        """The conversations with all concepts, among the first matches of each concept.

        Nothing if a concept is searched for by its meaning alone.
        """
        if any(search.interpretation.node is None for search in self._searches):
            return _Matches()
        first_keys: list[dict[str, int]] = []
        is_complete = True
        for search in self._searches:
            if first_keys:
                search = search.restricted_to(first_keys[-1])
            keys = search.pool.text_arm.matches(limit)
            is_complete = is_complete and len(keys) < limit
            times = search.scope.store.change_times(keys)
            documents = {key: document for key, document, _ in times}
            first: dict[str, int] = {}
            for key in keys:
                if key in documents:
                    first.setdefault(documents[key], key)
            first_keys.append(first)
        return _Matches(first_keys, is_complete)

    def _hits(
        self,
        conversations: Sequence[str],
        matches: _Matches,
        rankings: Sequence[_RankedConversations],
    ) -> tuple[Hit, ...]:
        """The hits of these conversations, in order. Some of them may not be in a ranking."""
        ranked = {name: each for each in reversed(rankings) for name in each.scores}
        unranked = [name for name in conversations if name not in ranked]
        hits = self._unranked_hits(matches, unranked, rankings[0].last_score() / 2)
        hits |= {name: ranked[name].hit(name) for name in conversations if name in ranked}
        return tuple(hits[name] for name in conversations if name in hits)

    def _unranked_hits(
        self, matches: _Matches, conversations: Sequence[str], score: float
    ) -> dict[str, Hit]:
        """The hits of conversations that were not ranked: the first match of each concept."""
        if not conversations:
            return {}
        hits: dict[str, list[Hit]] = {name: [] for name in conversations}
        for search, first_keys in zip(self._searches, matches.first_keys, strict=True):
            keys = [first_keys[name] for name in conversations if name in first_keys]
            words = search.interpretation.words
            for candidate in search.restricted_to(conversations).pool.candidates(keys):
                hit = make_hit(candidate, words, score, self._options.snippet_length)
                hits[candidate.document].append(hit)
        return {
            name: replace(own_hits[0], also=_others(own_hits, own_hits[0]))
            for name, own_hits in hits.items()
            if own_hits
        }


class _RankedConversations:
    """The conversations in which every concept has a ranked message."""

    def __init__(
        self,
        searches: Sequence[Search],
        conversations: Iterable[str] | None,
        options: SearchOptions,
    ) -> None:
        """`searches`: one for each concept. With `conversations`, they look only in these."""
        self._options = options
        self._searches: list[Search] = []
        """Each looks only in the conversations that the one before it has found."""
        self._best: list[_Best] = []
        """The best messages for each concept."""
        for search in searches:
            if conversations is not None:
                search = search.restricted_to(conversations)
            best: _Best = {}
            for scored in search.ranking.candidates:
                best.setdefault(scored.candidate.document, scored)
            self._searches.append(search)
            self._best.append(best)
            conversations = best
        self.scores = {name: self._mean_score(name) for name in self._best[-1]}
        """The ranker's score of each conversation: the mean of those of its best messages."""

    def _mean_score(self, conversation: str) -> float:
        return sum(best[conversation].score for best in self._best) / len(self._best)

    def order(self) -> list[str]:
        """The conversations, best first."""
        return sorted(self.scores, key=lambda name: (-self.scores[name], name))

    def last_score(self) -> float:
        """The lowest score, as users see it."""
        return self._scaled(min(self.scores.values(), default=0.0))

    def is_similar(self, conversation: str) -> bool:
        """Whether a conversation is near enough to all concepts."""
        similarity = 0.0
        for search, best in zip(self._searches, self._best, strict=True):
            floor = search.interpretation.meaning.noise_floor
            if floor:  # otherwise the cosines mean nothing
                similarity += (best[conversation].cosine or 0.0) / floor
        return similarity >= _MIN_SIMILARITY * len(self._searches)

    def is_complete(self) -> bool:
        """Whether all matches of every concept were ranked."""
        return all(search.pool.is_exhausted for search in self._searches)

    def empty_page(self) -> Page:
        """A page without hits, with the remarks on all concepts.

        A remark on several of them is made once.
        """
        remarks: dict[str, None] = {}
        missing: dict[str, None] = {}
        corrections: dict[str, str] = {}
        is_weak = False
        for search in self._searches:
            assessment = search.ranking.assessment
            remarks |= dict.fromkeys(search.remarks.remarks(is_weak=assessment.is_weak))
            missing |= dict.fromkeys(search.remarks.missing_words)
            corrections |= search.interpretation.corrections
            is_weak = is_weak or assessment.is_weak
        return replace(
            self._searches[-1].page_maker(self._options).empty_page(),
            weak=is_weak,
            note=" ".join(remarks),
            missing=tuple(missing),
            corrections=corrections,
        )

    def hit(self, conversation: str) -> Hit:
        """A conversation as a hit: its best message for any concept, and those for the others."""
        hits = [
            search.page_maker(self._options).hit(best[conversation])
            for search, best in zip(self._searches, self._best, strict=True)
        ]
        first = max(hits, key=lambda hit: hit.score)
        score = self._scaled(self.scores[conversation])
        return replace(first, score=score, also=_others(hits, first))

    def _scaled(self, score: float) -> float:
        return self._searches[0].ranking.scale.score(score)


def _by_meaning(search: Search) -> Search:
    """The same search in the mode "vector"."""
    interpretation = search.interpretation
    query = replace(interpretation.ranking_query, terms=(), phrase=None)
    options = replace(interpretation.options, mode="vector")
    by_meaning = replace(interpretation, options=options, node=None, ranking_query=query)
    return Search(by_meaning, search.scope)


def _others(hits: Sequence[Hit], first: Hit) -> tuple[Hit, ...]:
    return tuple(hit for hit in hits if hit.message_id != first.message_id)
