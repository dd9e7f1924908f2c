"""Searching the memory: observations and messages in one ranking.

A search for one concept looks at both. A message leads to the observation that it belongs to, or
else to its exchange. Each observation and each exchange is a result once, at the place of its best
match.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query, parse_query
from recollect.language.queries.query_tree import Node, Word
from recollect.language.text import has_token
from recollect.memory.lookup import Coverage, observations_by_key
from recollect.memory.names import conversation_path
from recollect.memory.observe import ConversationText
from recollect.memory.reading import ConversationTexts, exchange_lines
from recollect.memory.results import ConversationHit, MemoryHit, MemoryResults, ObservationHit
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION, OBSERVATION, OBSERVATIONS
from recollect.model.projects import project_name
from recollect.model.search import Filter, Hit, SearchOptions
from recollect.search import engine, rank
from recollect.search.deadline import NOTE
from recollect.search.engine import NEAREST, Search
from recollect.search.pool import CANDIDATES, read_pools
from recollect.search.queries.period_questions import as_period
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.terms import term_plan
from recollect.search.ranking.scored import Scale, ScoredCandidate
from recollect.search.rerank import may_rerank, rerank
from recollect.search.results.hits import make_hit
from recollect.search.results.variety import merge_copies, spread
from recollect.search.variants.concepts import search_concepts
from recollect.store.base import Store
from recollect.store.values import Candidate, SearchPlan, SubstringMatches
from recollect.store.views.audience import visible_store
from recollect.store.views.observed import ObservationStore

_MAX_UNRANKED = 1_000
"""The most matches beyond the ranking that are read to fill a page."""
_COVERED_AT_ONCE = 16
"""Of how many conversations the observations are read at once."""
_FEW_CONVERSATIONS = 16
"""With so many conversations at most, the observations of all are read and results counted."""
_MAX_WITHOUT_WORDS = 200
"""The most matches of each kind for a query without words."""

_OBSERVATION = "observation"
_EXCHANGE = "exchange"
_MESSAGE = "message"
_CONVERSATION = "conversation"
_Identity = tuple[str, ...]
"""The identity of a result: its kind and ids."""


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
    query = as_period(parse_query(text), options.now)
    messages.store.expect_terms(term_plan(query, options, meaning, with_kinds=True))
    scopes = [scope._replace(filter=narrow_filter(scope.filter, query, store)) for scope in scopes]
    coverage = Coverage(store, scopes[0].filter)
    results = _Results(store, coverage, ConversationTexts(store, audience), options.limit)
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
            hits.append(_conversation_hit(hit, text))
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


# -- matches -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """An observation or a message that matches."""

    candidate: Candidate
    score: float
    words: Sequence[Word]
    """The words to highlight."""
    terms: tuple[str, ...] = ()
    """The words of the query that it contains."""

    @property
    def is_observation(self) -> bool:
        return self.candidate.kind == OBSERVATION

    @property
    def hit(self) -> Hit:
        return replace(make_hit(self.candidate, self.words, self.score), terms=self.terms)


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

    def search(self, results: _Results) -> MemoryResults:
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

    def _ranked_match(self, scored: ScoredCandidate, scale: Scale) -> _Match:
        return _Match(
            scored.candidate,
            scale.score(scored.score),
            self._words,
            tuple([self._names[number] for number in scored.terms]),
        )

    def _unranked_matches(self, score: float) -> Iterator[_Match]:
        """Matches that were not ranked: observations and messages in turn."""
        pages = [search.beyond_pool() for search in self._searches if not search.is_exhausted]
        in_turn = chain.from_iterable(zip_longest(*pages))
        candidates = (candidate for candidate in in_turn if candidate is not None)
        for candidate in islice(candidates, _MAX_UNRANKED):
            yield _Match(candidate, score, self._words)

    @property
    def _searches(self) -> tuple[Search, Search]:
        return self._observations, self._messages

    def _total(self, results: _Results) -> tuple[int, bool]:
        """How many results there are, and whether that is exact or a lower bound."""
        is_exact = results.is_exact
        for search in self._searches:
            has_all = search.pool_size < CANDIDATES and not search.has_more_matches
            is_exact = is_exact and has_all and not search.is_partial
        observations, _ = self._observations.count()
        return max(observations, results.observations) + results.exchanges, is_exact

    def _nearest(self, results: _Results) -> tuple[MemoryHit, ...]:
        """The closest in meaning, if nothing matches."""
        neighbours = [pair for search in self._searches for pair in search.nearest()]
        neighbours.sort(key=lambda pair: -pair[1])
        results.add([_Match(candidate, cosine, ()) for candidate, cosine in neighbours])
        return results.hits()[:NEAREST]


def _search_without_words(
    query: Query, scopes: Sequence[_Scope], results: _Results
) -> MemoryResults:
    """Punctuation and fields are not ranked: observations come first, then exchanges."""
    is_exact = True
    note = query.note
    totals = []
    for scope in scopes:
        matches = _matches_without_words(query, scope)
        results.add([_Match(candidate, 1.0, ()) for candidate in matches.candidates])
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


# -- results -------------------------------------------------------------------


class _Results:
    """The distinct results of a search, in the order of their best matches.

    Reading the observations of a conversation and its text, which tells the exchanges apart, takes
    time. So they are read only for the results that are returned. Beyond the limit, the messages of
    a conversation are counted as one result if its observations have not been read: the count is a
    lower bound then.
    """

    def __init__(
        self, store: Store, coverage: Coverage, texts: ConversationTexts, limit: int
    ) -> None:
        self._store = store
        self._coverage = coverage
        self._texts = texts
        self._limit = limit
        self._matches: dict[_Identity, _Match] = {}
        """The best match of each result."""
        self._own_matches: dict[str, _Match] = {}
        """The matches of observations with their own text, by their ids."""
        self._observed_conversations: set[str] = set()
        """The conversations of observations that match or are results."""
        self.is_exact = True
        """Whether the exchanges were counted exactly."""

    def add(self, matches: Sequence[_Match]) -> None:
        """Add matches, which are worse than those added before."""
        for match in matches:
            if match.is_observation:
                self._own_matches.setdefault(match.candidate.id, match)
                conversation = match.candidate.document.removeprefix(f"{OBSERVATIONS}:")
                self._observed_conversations.add(conversation)
        conversations = [m.candidate.document for m in matches if not m.is_observation]
        unread = deque(dict.fromkeys(conversations))
        is_few = len(unread) <= _FEW_CONVERSATIONS
        for number, match in enumerate(matches):
            needs_coverage = not match.is_observation and (is_few or not self.is_full)
            if needs_coverage and self._load_coverage(match.candidate.document, unread):
                self._texts.read(self._next_exchanges(matches[number:]))
            identity = self._identity(match)
            if identity is not None:
                self._matches.setdefault(identity, match)

    def _load_coverage(self, conversation: str, unread: deque[str]) -> bool:
        """Read the observations of a conversation, and those of the ones that follow.

        Returns False if they were read before.
        """
        is_new = False
        while unread and not self._coverage.is_loaded(conversation):
            batch = [unread.popleft() for _ in range(min(_COVERED_AT_ONCE, len(unread)))]
            self._coverage.load(batch)
            is_new = True
        return is_new

    def _next_exchanges(self, matches: Sequence[_Match]) -> list[str]:
        """The conversations of the next results that are exchanges, as far as that is known."""
        results = set(self._matches)
        conversations: dict[str, None] = {}
        for match in matches:
            candidate = match.candidate
            if len(results) >= self._limit:
                break
            if match.is_observation:
                results.add((_OBSERVATION, candidate.id))
                continue
            if not self._coverage.is_loaded(candidate.document):
                break
            ids = self._coverage.ids(candidate.document, candidate.id)
            if ids:
                results.add((_OBSERVATION, ids[0]))
            else:
                results.add((_CONVERSATION, candidate.document))
                conversations[candidate.document] = None
        return list(conversations)

    def _identity(self, match: _Match) -> _Identity | None:
        """The result that a match belongs to; None if it is unknown or was deleted meanwhile."""
        candidate = match.candidate
        if match.is_observation:
            return _OBSERVATION, candidate.id
        if not self._coverage.is_loaded(candidate.document):
            return self._unknown_identity(candidate)
        ids = self._coverage.ids(candidate.document, candidate.id)
        if not ids:
            return self._exchange_identity(candidate)
        id_ = self._best_observation(ids)
        self._observed_conversations.add(candidate.document)
        return _OBSERVATION, id_

    def _unknown_identity(self, candidate: Candidate) -> _Identity | None:
        """A message beyond the limit, which may belong to a result that is counted already."""
        self.is_exact = False
        if candidate.document in self._observed_conversations:
            return None
        return _CONVERSATION, candidate.document

    def _best_observation(self, ids: Sequence[str]) -> str:
        """The observation of a message that is a result already, or else ranks best."""
        for id_ in ids:
            if (_OBSERVATION, id_) in self._matches:
                return id_
        for id_ in self._own_matches:
            if id_ in ids:
                return id_
        return ids[0]

    def _exchange_identity(self, candidate: Candidate) -> _Identity | None:
        conversation = candidate.document
        if self.is_full and not self._texts.is_loaded(conversation):
            identity = (_CONVERSATION, conversation)
            if identity in self._matches:  # perhaps another exchange, perhaps the same
                self.is_exact = False
            return identity
        text = self._texts.text(conversation)
        if text is None:
            return None
        lines = exchange_lines(text, candidate.id)
        if lines is None:
            return _MESSAGE, conversation, candidate.id
        return _EXCHANGE, conversation, str(lines[0])

    @property
    def is_full(self) -> bool:
        return len(self._matches) >= self._limit

    @property
    def observations(self) -> int:
        return sum(1 for identity in self._matches if identity[0] == _OBSERVATION)

    @property
    def exchanges(self) -> int:
        return len(self._matches) - self.observations

    def hits(self) -> tuple[MemoryHit, ...]:
        """The results, up to the limit, without what was deleted in the meantime."""
        page = list(self._matches.items())[: self._limit]
        keys = [match.candidate.key for _, match in page if match.is_observation]
        by_key = observations_by_key(self._store, keys)
        hits: list[MemoryHit | None] = []
        for identity, match in page:
            if identity[0] != _OBSERVATION:
                hits.append(self._exchange_hit(match))
            elif not match.is_observation:
                hits.append(self._covering_hit(identity[1], match))
            elif match.candidate.key in by_key:
                hits.append(_observation_hit(by_key[match.candidate.key], match))
        return tuple(hit for hit in hits if hit is not None)

    def _covering_hit(self, id_: str, match: _Match) -> ObservationHit:
        """The observation of a message, with what the message says."""
        hit = _observation_hit(self._coverage.observation(id_), match)
        if self._says_as_much(id_, match):
            return hit
        return hit._replace(quote=hit.snippet)

    def _says_as_much(self, id_: str, match: _Match) -> bool:
        """Whether the own text of an observation contains the words of its message."""
        own_match = self._own_matches.get(id_)
        return own_match is not None and set(match.terms) <= set(own_match.terms)

    def _exchange_hit(self, match: _Match) -> ConversationHit | None:
        text = self._texts.text(match.candidate.document)
        if text is None:
            return None
        return _conversation_hit(match.hit, text)


def _observation_hit(hit: ObservationHit, match: _Match) -> ObservationHit:
    snippet = " ".join(match.hit.snippet.split())
    return hit._replace(score=match.score, snippet=snippet, terms=match.terms)


def _conversation_hit(hit: Hit, text: ConversationText) -> ConversationHit:
    """The exchange of a message, with the snippets of the hit."""
    snippets = dict.fromkeys(" ".join(each.snippet.split()) for each in (hit, *hit.also))
    return ConversationHit(
        path=conversation_path(hit.project, hit.conversation_id),
        project=project_name(hit.project),
        title=hit.title,
        created_at=hit.created_at,
        score=hit.score,
        snippets=tuple(snippets),
        lines=exchange_lines(text, hit.message_id),
        terms=hit.terms,
    )


def _kind(hits: Sequence[MemoryHit]) -> str:
    observations = sum(1 for hit in hits if isinstance(hit, ObservationHit))
    if observations == len(hits):
        return "observations"
    if not observations:
        return "exchanges"
    return "mixed"
