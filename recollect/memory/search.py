"""Searching the memory: observations and messages in one ranking.

A search for one concept looks at both. Each observation and each exchange is a result once, at the
place of its best match (`distinct_results`). A search for several concepts finds conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest

from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Word
from recollect.language.text import has_token
from recollect.memory.distinct_results import DistinctResults, Match, conversation_hit
from recollect.memory.lookup import Coverage, observations_by_key
from recollect.memory.reading import ConversationTexts
from recollect.memory.results import MemoryHit, MemoryResults, ObservationHit
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION, OBSERVATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.candidates import CANDIDATES, NEAREST, CandidatePool, Scope
from recollect.search.concepts import search_concepts
from recollect.search.deadline import NOTE
from recollect.search.engine import Search, interpret_query, search
from recollect.search.evidence import UNRELATED
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.queries.query_reading import as_period, resolve_ambiguity
from recollect.search.remarks import note_unknown_names
from recollect.search.results import Ranking
from recollect.store.audience import visible_store
from recollect.store.base import Store
from recollect.store.observed import ObservationStore
from recollect.store.values import SubstringMatches

_REFERENCE = re.compile(r"#\d+\b")
_MAX_UNRANKED = 1_000
"""The most matches beyond the ranking that are read to fill a page."""
_NO_TEXT = 'No text contains all of these words. The mode "both" also finds some of them.'
_MAX_WITHOUT_WORDS = 200
"""The most matches of each kind for a query without words."""


def have_match(parts: Sequence[Scope], node: Node) -> bool:
    return any(part.store.satisfies(node, part.filter) for part in parts)


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
    messages = Scope.begin(
        visible_store(store, audience, can_mask=False), replace(filter_, kinds=(CONVERSATION,))
    )
    observations = messages.with_part(
        ObservationStore(store), replace(filter_, hidden=True, kinds=(OBSERVATION,))
    )
    parts = [observations, messages]
    if options.mode == "text":
        literal_query = _literal_query(text, parts)
        if not literal_query:
            return without_text(text)
        text = literal_query
    query = resolve_ambiguity(
        as_period(parse_any_length(text, messages.store), options.now),
        messages.store,
        [messages.filter],
    )
    parts = [part._replace(filter=narrow_filter(part.filter, query, store)) for part in parts]
    coverage = Coverage(store, parts[0].filter)
    results = DistinctResults(store, coverage, ConversationTexts(store, audience), options.limit)
    if not has_words(query):
        return search_without_words(query, parts, results)
    return _ConceptSearch(meaning, query, parts, options).search(results)


def search_observations(
    store: ObservationStore, meaning: Meaning, text: str, filter_: Filter, options: SearchOptions
) -> MemoryResults:
    """Observations for one concept, best first: only those in the store. Raises InvalidInput."""
    filter_ = replace(filter_, hidden=True, kinds=(OBSERVATION,))
    if options.mode == "text":
        literal_query = _literal_query(text, [Scope.begin(store, filter_)])
        if not literal_query:
            return without_text(text)
        text = literal_query
    page = search(store, meaning, text, filter_, options)
    hits = observation_hits(store, page.hits)
    if page.weak:
        note = page.note.replace(UNRELATED, "").strip()
        return MemoryResults("observations", note=note, nearest=hits[:NEAREST])
    nearest = observation_hits(store, page.nearest)
    total = max(page.total, len(hits))
    note = page.note
    if not hits and not page.partial:
        note = note_without_observations(page, store, filter_)
    return MemoryResults("observations", hits, total, page.exact, note, nearest)


def note_without_observations(page: Page, store: ObservationStore, filter_: Filter) -> str:
    """Why there are no observations.

    If only those of some concepts or files were searched, others may have the words of the query.
    The types of observations are stored as roles, but readers do not know them as such.
    """
    if store.is_filtered:
        return ""
    note = ""
    if page.missing:
        note = f"No observation mentions {' or '.join(f'“{word}”' for word in page.missing)}."
    return note_unknown_names(note, store, replace(filter_, roles=()))


def observation_hits(store: ObservationStore, hits: Sequence[Hit]) -> tuple[MemoryHit, ...]:
    keys = [store.keys[hit.conversation_id, hit.message_id] for hit in hits]
    by_key = observations_by_key(store, keys)
    return tuple(
        by_key[key]._replace(score=hit.score, snippet=hit.snippet, terms=hit.terms)
        for key, hit in zip(keys, hits, strict=True)
        if key in by_key  # otherwise it was deleted during the search
    )


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


def _literal_query(text: str, parts: Sequence[Scope]) -> str:
    """A query for the mode "text": the phrase if it occurs, else all words; empty without matches.

    The words of fields ("project:shop") are no words of the text.
    """
    query = parse_any_length(text, parts[0].store)
    if query.pasted:
        return text
    if query.plain and has_token(query.rest):
        words = query.rest.split()
        fields = [word for word in text.split() if word not in words]
        if have_match(parts, Word(query.rest)):
            words = [query.rest]
        text = " ".join([*fields, *(f'"{word}"' for word in words)])
        query = parse_any_length(text, parts[0].store)
    if query.node is not None and has_words(query) and not have_match(parts, query.node):
        return ""
    return text


def without_text(query: str) -> MemoryResults:
    """No results for the mode "text"."""
    note = _NO_TEXT if len(query.split()) > 1 else ""
    return MemoryResults("observations", note=note)


class _ConceptSearch:
    """A search for observations and messages, which are ranked together."""

    def __init__(
        self, meaning: Meaning, query: Query, parts: Sequence[Scope], options: SearchOptions
    ) -> None:
        observations, messages = parts
        self._text = query.rest
        self._filters = [part.filter for part in parts]
        interpretation = interpret_query(query, messages.store, parts, meaning, options)
        self._interpretation = interpretation
        self._words = interpretation.words
        self._messages = CandidatePool(interpretation, messages, CANDIDATES)
        self._observations = CandidatePool(interpretation, observations, CANDIDATES)
        self._pools = (self._observations, self._messages)
        self._search = Search(interpretation, [self._messages, self._observations], "Nothing")
        self._scope = messages

    def search(self, results: DistinctResults) -> MemoryResults:
        ranking = self._search.ranking
        referring = self._referring(ranking)
        results.add(referring)
        results.add([self._ranked_match(scored, ranking) for scored in ranking.listed])
        if ranking.assessment.is_weak and not referring:
            nearest = results.hits()[:NEAREST]
            return MemoryResults("observations", note=self._note(()), nearest=nearest)
        unranked = self._unranked_matches(ranking.last_score / 2)
        while not results.is_full:
            batch = list(islice(unranked, CANDIDATES))
            if not batch:
                break
            results.add(batch)
        hits = results.hits()
        total, is_exact = self._total(results)
        note = self._note(hits)
        nearest = ()
        if not hits:
            nearest = self._nearest(results)
            note = note_unknown_names(note, self._scope.store, *self._filters, subject="Nothing")
        return MemoryResults(kind(hits), hits, max(total, len(hits)), is_exact, note, nearest)

    def _referring(self, ranking: Ranking) -> list[Match]:
        """What refers to the pull requests or issues of the query, best first.

        In the output of tools, such a number is most often that of a line or row.
        """
        references = _REFERENCE.findall(self._text)
        if not references or not ranking.candidates:
            return []
        places = {scored.candidate.key: n for n, scored in enumerate(ranking.candidates)}
        candidates = [
            candidate
            for reference in references
            for pool in self._pools
            for candidate in pool.scope.store.find_substring(
                reference, without_tools(pool.scope.filter), _MAX_WITHOUT_WORDS, 0
            ).candidates
            if reference in _REFERENCE.findall(candidate.content)
        ]
        candidates.sort(key=lambda candidate: places.get(candidate.key, len(places)))
        score = ranking.scale.score(ranking.candidates[0].score)
        return [Match(each, score, self._words, tuple(references)) for each in candidates]

    def _note(self, hits: Sequence[MemoryHit]) -> str:
        """What the reader should know. Without hits, missing words need no remark."""
        is_remark = not self._interpretation.meaning.problem and not self._scope.is_partial
        if is_remark and not hits:
            return ""
        return " ".join(self._search.remarks.remarks())

    def _ranked_match(self, scored: ScoredCandidate, ranking: Ranking) -> Match:
        names = self._interpretation.term_names
        return Match(
            scored.candidate,
            ranking.scale.score(scored.score),
            self._words,
            tuple([names[number] for number in scored.terms]),
        )

    def _unranked_matches(self, score: float) -> Iterator[Match]:
        """Matches that were not ranked: observations and messages in turn."""
        pages = [pool.all_matches_beyond() for pool in self._pools if not pool.is_exhausted]
        in_turn = chain.from_iterable(zip_longest(*pages))
        candidates = (candidate for candidate in in_turn if candidate is not None)
        for candidate in islice(candidates, _MAX_UNRANKED):
            yield Match(candidate, score, self._words)

    def _total(self, results: DistinctResults) -> tuple[int, bool]:
        """How many results there are, and whether that is exact or a lower bound."""
        is_exact = results.is_exact and not self._scope.is_partial
        for pool in self._pools:
            has_all = len(pool.keys) < CANDIDATES and not pool.has_more_matches
            is_exact = is_exact and has_all
        observations, _ = self._observations.count()
        return max(observations, results.observations) + results.exchanges, is_exact

    def _nearest(self, results: DistinctResults) -> tuple[MemoryHit, ...]:
        """The closest in meaning, if nothing matches."""
        neighbours = [pair for pool in self._pools for pair in pool.nearest()]
        neighbours.sort(key=lambda pair: -pair[1])
        results.add([Match(candidate, cosine, ()) for candidate, cosine in neighbours])
        return results.hits()[:NEAREST]


def without_tools(filter_: Filter) -> Filter:
    if filter_.roles or filter_.kinds == (OBSERVATION,):
        return filter_
    return replace(filter_, roles=("user", "assistant"))


def search_without_words(
    query: Query, parts: Sequence[Scope], results: DistinctResults
) -> MemoryResults:
    """Punctuation and fields are not ranked: observations come first, then exchanges."""
    is_exact = True
    note = query.note
    totals = []
    for part in parts:
        matches = matches_without_words(query, part)
        results.add([Match(candidate, 1.0, ()) for candidate in matches.candidates])
        totals.append(matches.total)
        is_exact = is_exact and matches.total == len(matches.candidates)
        if not matches.is_complete:
            is_exact = False
            note = NOTE
    hits = results.hits()
    total = max(totals[0], results.observations) + results.exchanges
    return MemoryResults(kind(hits), hits, total, is_exact and results.is_exact, note)


def matches_without_words(query: Query, part: Scope) -> SubstringMatches:
    literal = query.rest.strip()
    if literal:
        return part.store.find_substring(literal, part.filter, _MAX_WITHOUT_WORDS, 0)
    if not query.text.strip():
        return SubstringMatches([], 0)
    return SubstringMatches(*part.store.newest(part.filter, _MAX_WITHOUT_WORDS, 0))


def kind(hits: Sequence[MemoryHit]) -> str:
    observations = sum(1 for hit in hits if isinstance(hit, ObservationHit))
    if observations == len(hits):
        return "observations"
    if not observations:
        return "exchanges"
    return "mixed"
