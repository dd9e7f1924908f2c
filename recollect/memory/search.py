"""Searching the memory: observations and messages in one ranking.

A search for one concept looks at both. Each observation and each exchange is a result once, at the
place of its best match (`distinct_results`). A search for several concepts finds conversations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query, parse_query
from recollect.language.queries.query_tree import Node, Word
from recollect.language.text import has_token
from recollect.memory.distinct_results import DistinctResults, Match, conversation_hit
from recollect.memory.lookup import Coverage, observations_by_key
from recollect.memory.reading import ConversationTexts
from recollect.memory.results import MemoryHit, MemoryResults, ObservationHit
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION, OBSERVATION
from recollect.model.search import Filter, SearchOptions
from recollect.search import engine, rank
from recollect.search.arms import CANDIDATES
from recollect.search.deadline import NOTE
from recollect.search.engine import NEAREST, Search
from recollect.search.pool import read_pools
from recollect.search.queries.period_questions import as_period, unless_only_mentioned
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.terms import term_plan
from recollect.search.ranking.scored import Scale, ScoredCandidate
from recollect.search.rerank import may_rerank, rerank
from recollect.search.results.variety import merge_copies, spread
from recollect.search.variants.concepts import search_concepts
from recollect.store.base import Store
from recollect.store.values import SearchPlan, SubstringMatches
from recollect.store.views.audience import visible_store
from recollect.store.views.observed import ObservationStore

_MAX_UNRANKED = 1_000
"""The most matches beyond the ranking that are read to fill a page."""
_MAX_WITHOUT_WORDS = 200
"""The most matches of each kind for a query without words."""


class _Scope(NamedTuple):
    """Where to search: the observations, or the messages that the reader may find."""

    store: Store
    filter: Filter


def _have_match(scopes: Sequence[_Scope], node: Node) -> bool:
    plans = [SearchPlan((node,), scope.filter, 1) for scope in scopes]
    scopes[0].store.expect(*plans)
    return any(scope.store.match(node, scope.filter, 1) for scope in scopes)


def search_concept(
    store: Store,
    meaning: Meaning,
    text: str,
    filter_: Filter,
    options: SearchOptions,
    audience: Audience,
) -> MemoryResults:
    """Observations and exchanges for one concept, best first. Raises InvalidInput."""
    # Snippets of messages are not masked, so no agent may find human-only messages here. What an
    # observation says may be read by everybody.
    observations = _Scope(
        ObservationStore(store), replace(filter_, hidden=True, kinds=(OBSERVATION,))
    )
    messages = _Scope(
        visible_store(store, audience, can_mask=False), replace(filter_, kinds=(CONVERSATION,))
    )
    scopes = [observations, messages]
    if options.mode == "text":
        text = _literal_query(text, scopes)
    query = unless_only_mentioned(as_period(parse_query(text), options.now), messages.store)
    messages.store.expect_terms(term_plan(query, options, meaning, with_kinds=True))
    scopes = [scope._replace(filter=narrow_filter(scope.filter, query, store)) for scope in scopes]
    coverage = Coverage(store, scopes[0].filter)
    results = DistinctResults(store, coverage, ConversationTexts(store, audience), options.limit)
    if not has_words(query):
        return _search_without_words(query, scopes, results)
    return _ConceptSearch(meaning, query, scopes, options).search(results)


def search_observations(
    store: ObservationStore, meaning: Meaning, text: str, filter_: Filter, options: SearchOptions
) -> MemoryResults:
    """Observations for one concept, best first: only those in the store. Raises InvalidInput."""
    filter_ = replace(filter_, hidden=True, kinds=(OBSERVATION,))
    if options.mode == "text":
        text = _literal_query(text, [_Scope(store, filter_)])
    page = engine.search(store, meaning, text, filter_, options)
    keys = [store.keys[hit.conversation_id, hit.message_id] for hit in page.hits]
    by_key = observations_by_key(store, keys)
    hits = []
    for key, hit in zip(keys, page.hits, strict=True):
        if key in by_key:  # otherwise it was deleted during the search
            hits.append(by_key[key]._replace(score=hit.score, snippet=hit.snippet, terms=hit.terms))
    total = max(page.total, len(hits))
    return MemoryResults("observations", tuple(hits), total, page.exact, page.note)


def search_conversations(
    store: Store,
    meaning: Meaning,
    concepts: list[str],
    filter_: Filter,
    options: SearchOptions,
    audience: Audience,
) -> MemoryResults:
    """Conversations that contain all of several concepts, best first. Raises InvalidInput."""
    page = search_concepts(
        visible_store(store, audience, can_mask=False),
        meaning,
        concepts,
        replace(filter_, kinds=(CONVERSATION,)),
        replace(options, group="conversation"),
    )
    texts = ConversationTexts(store, audience)
    texts.read(hit.conversation_id for hit in page.hits)
    hits = []
    for hit in page.hits:
        text = texts.text(hit.conversation_id)
        if text is not None:  # otherwise it was deleted during the search
            hits.append(conversation_hit(hit, text))
    return MemoryResults("conversations", tuple(hits), page.total, page.exact, page.note)


def _literal_query(text: str, scopes: Sequence[_Scope]) -> str:
    """A query of plain words for the mode "text": the phrase if it occurs, else all its words.

    If no text has all the words either, the search falls back to any of them.
    """
    query = parse_query(text)
    if not query.plain or query.rest != text or not has_token(text):
        return text
    if _have_match(scopes, Word(text)):
        return f'"{text}"'
    return " ".join(f'"{word}"' for word in text.split())


class _ConceptSearch:
    """One search for observations and one for messages, whose candidates are ranked together."""

    def __init__(
        self, meaning: Meaning, query: Query, scopes: Sequence[_Scope], options: SearchOptions
    ) -> None:
        self._options = options
        observations, messages = scopes
        assert query.node is not None
        if may_relax(query) and not _have_match(scopes, query.node):
            query = query._replace(plain=True)
        search = Search(messages.store, meaning, query, Filter(), options)
        search.absence = "Nothing"
        self._store = messages.store
        self._search = search
        self._words = search.words
        self._names = [term.name for term in search.question.terms]
        self._observations = search.with_filter(observations.filter, observations.store, CANDIDATES)
        self._messages = search.with_filter(messages.filter, messages.store, CANDIDATES)

    def search(self, results: DistinctResults) -> MemoryResults:
        ranking = self._ranking()
        assessment = self._search.assess(ranking)
        scale = self._search.scale_of(ranking, assessment)
        results.add([self._ranked_match(scored, scale) for scored in ranking])
        if assessment.is_weak:
            nearest = results.hits()[:NEAREST]
            return MemoryResults("observations", nearest=nearest)
        lowest = 0.0
        if ranking:
            lowest = scale.score(ranking[-1].score) / 2
        unranked = self._unranked_matches(lowest)
        while not results.is_full:
            batch = list(islice(unranked, CANDIDATES))
            if not batch:
                break
            results.add(batch)
        hits = results.hits()
        total, is_exact = self._total(results)
        nearest = ()
        if not hits:
            nearest = self._nearest(results)
        return MemoryResults(
            _kind(hits), hits, max(total, len(hits)), is_exact, self._note(hits), nearest
        )

    def _note(self, hits: Sequence[MemoryHit]) -> str:
        """What the reader should know. Without hits, missing words need no remark."""
        is_remark = not self._search.is_without_model and not self._search.is_partial
        if is_remark and not hits:
            return ""
        return self._search.empty_page().note

    def _ranking(self) -> list[ScoredCandidate]:
        question = self._search.question
        observed, messages = read_pools(self._searches)
        self._search.has_observations = bool(observed)
        pool = observed + messages
        self._search.require_candidates(pool)
        ranking = merge_copies(rank.rank(question, pool))
        if may_rerank(self._options, question, ranking):
            self._store.release_snapshot()
            ranking = rerank(question, ranking)
        return spread(question, ranking)

    def _ranked_match(self, scored: ScoredCandidate, scale: Scale) -> Match:
        return Match(
            scored.candidate,
            scale.score(scored.score),
            self._words,
            tuple([self._names[number] for number in scored.terms]),
        )

    def _unranked_matches(self, score: float) -> Iterator[Match]:
        """Matches that were not ranked: observations and messages in turn."""
        pages = [search.beyond_pool() for search in self._searches if not search.is_exhausted]
        in_turn = chain.from_iterable(zip_longest(*pages))
        candidates = (candidate for candidate in in_turn if candidate is not None)
        for candidate in islice(candidates, _MAX_UNRANKED):
            yield Match(candidate, score, self._words)

    @property
    def _searches(self) -> tuple[Search, Search]:
        return self._observations, self._messages

    def _total(self, results: DistinctResults) -> tuple[int, bool]:
        """How many results there are, and whether that is exact or a lower bound."""
        is_exact = results.is_exact
        for search in self._searches:
            has_all = search.pool_size < CANDIDATES and not search.has_more_matches
            is_exact = is_exact and has_all and not search.is_partial
        observations, _ = self._observations.count()
        return max(observations, results.observations) + results.exchanges, is_exact

    def _nearest(self, results: DistinctResults) -> tuple[MemoryHit, ...]:
        """The closest in meaning, if nothing matches."""
        neighbours = [pair for search in self._searches for pair in search.nearest()]
        neighbours.sort(key=lambda pair: -pair[1])
        results.add([Match(candidate, cosine, ()) for candidate, cosine in neighbours])
        return results.hits()[:NEAREST]


def _search_without_words(
    query: Query, scopes: Sequence[_Scope], results: DistinctResults
) -> MemoryResults:
    """Punctuation and fields are not ranked: observations come first, then exchanges."""
    is_exact = True
    note = query.note
    totals = []
    for scope in scopes:
        matches = _matches_without_words(query, scope)
        results.add([Match(candidate, 1.0, ()) for candidate in matches.candidates])
        totals.append(matches.total)
        is_exact = is_exact and matches.total == len(matches.candidates)
        if not matches.is_complete:
            is_exact = False
            note = NOTE
    hits = results.hits()
    total = max(totals[0], results.observations) + results.exchanges
    return MemoryResults(_kind(hits), hits, total, is_exact and results.is_exact, note)


def _matches_without_words(query: Query, scope: _Scope) -> SubstringMatches:
    literal = query.rest.strip()
    if literal:
        return scope.store.find_substring(literal, scope.filter, _MAX_WITHOUT_WORDS, 0)
    if not query.text.strip():
        return SubstringMatches([], 0)
    return SubstringMatches(*scope.store.newest(scope.filter, _MAX_WITHOUT_WORDS, 0))


def _kind(hits: Sequence[MemoryHit]) -> str:
    observations = sum(1 for hit in hits if isinstance(hit, ObservationHit))
    if observations == len(hits):
        return "observations"
    if not observations:
        return "exchanges"
    return "mixed"
