"""Searching the memory: observations and messages in one ranking.

A search for one concept looks at both. Each observation and each exchange is a result once, at the
place of its best match: a message leads to the observation that was made of it, or else to its
exchange. A search for several concepts finds conversations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Word
from recollect.language.text import has_token
from recollect.memory.formats import conversation_path
from recollect.memory.lookup import Coverage, observations_by_key
from recollect.memory.observe import ConversationText
from recollect.memory.reading import ConversationTexts, exchange_lines
from recollect.memory.results import ConversationHit, MemoryHit, MemoryResults, ObservationHit
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION, OBSERVATION, OBSERVATIONS
from recollect.model.names import project_name
from recollect.model.search import Filter, Hit, SearchOptions
from recollect.search.candidates import CANDIDATES, NEAREST, CandidatePool, Scope
from recollect.search.concepts import search_concepts
from recollect.search.deadline import NOTE
from recollect.search.engine import Search, interpret_query
from recollect.search.queries.long_queries import parse_any_length
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.queries.query_reading import as_period, resolve_ambiguity
from recollect.search.remarks import note_unknown_names
from recollect.search.results import make_hit
from recollect.store.audience import visible_store
from recollect.store.base import Store
from recollect.store.observed import ObservationStore
from recollect.store.values import Candidate, CandidatePage

_NO_TEXT = 'No text contains all of these words. The mode "both" also finds some of them.'
_MAX_WITHOUT_WORDS = 200
"""The most matches of each kind for a query without words."""
_FEW_CONVERSATIONS = 16
"""The observations of so many conversations are read at once. If no more have matches, the results
beyond the limit are told apart and counted, too."""


# -- one concept ---


def search_concept(
    store: Store,
    meaning: Meaning,
    text: str,
    filter_: Filter,
    options: SearchOptions,
    audience: Audience,
    observations: ObservationStore | None,
) -> MemoryResults:
    """Observations and exchanges for one concept, best first. Raises InvalidInput.

    With `observations`, only the observations of that view of the store.
    """
    own_filter = replace(filter_, hidden=True, kinds=(OBSERVATION,))
    parts = [Scope.begin(observations or ObservationStore(store), own_filter)]
    if observations is None:
        # Snippets of messages are not masked, so no agent may find human-only messages here. What
        # an observation says may be read by everybody.
        messages = visible_store(store, audience, can_mask=False)
        parts.append(parts[0].with_part(messages, replace(filter_, kinds=(CONVERSATION,))))
    reader = parts[-1]
    if options.mode == "text":
        literal_query = _literal_query(text, parts)
        if not literal_query:
            note = _NO_TEXT if len(text.split()) > 1 else ""
            return MemoryResults("observations", note=note)
        text = literal_query
    query = resolve_ambiguity(
        as_period(parse_any_length(text, reader.store), options.now), reader.store, [reader.filter]
    )
    parts = [part._replace(filter=narrow_filter(part.filter, query, store)) for part in parts]
    results = _Results(store, parts[0].filter, audience, options.limit)
    if not has_words(query):
        return search_without_words(query, parts, results)
    interpretation = interpret_query(query, reader.store, parts, meaning, options)
    pools = [CandidatePool(interpretation, part, CANDIDATES) for part in reversed(parts)]
    search = Search(interpretation, pools, "Nothing")
    results.words = interpretation.words
    ranking = search.ranking
    for scored in ranking.listed:
        names = tuple([interpretation.term_names[number] for number in scored.terms])
        results.matches.append(Match(scored.candidate, ranking.score(scored.score), names))
    hits = results.hits()
    if ranking.assessment.is_weak or not hits:
        return _nothing_found(search, hits, results, observations)
    is_exact = results.is_exact and not reader.is_partial
    is_exact &= all(len(p.keys) < CANDIDATES and not p.has_more_matches for p in pools)
    total = max(pools[-1].count()[0], results.observations) + results.exchanges
    note = " ".join(search.remarks())
    return MemoryResults(kind(hits), hits, max(total, len(hits)), is_exact, note)


def _nothing_found(
    search: Search,
    hits: tuple[MemoryHit, ...],
    results: _Results,
    observations: ObservationStore | None,
) -> MemoryResults:
    """The hits, if there are any, are probably unrelated."""
    note = ""
    is_narrowed = observations is not None and observations.is_filtered
    has_problem = search.interpretation.meaning.problem or search.scope.is_partial
    # If only some observations were searched, others may have the words of the query.
    if has_problem or (observations is not None and not is_narrowed):
        note = " ".join(search.remarks())
    if not hits:
        neighbours = [pair for pool in search.pools for pair in pool.nearest()]
        neighbours.sort(key=lambda pair: -pair[1])
        results.matches = [Match(candidate, cosine) for candidate, cosine in neighbours]
        hits = results.hits()
        if not is_narrowed:  # the types of observations are stored as roles
            filters = [replace(pool.scope.filter, roles=()) for pool in search.pools]
            note = note_unknown_names(note, search.scope.store, *filters, subject="Nothing")
    is_exact = not search.scope.is_partial
    return MemoryResults("observations", note=note, nearest=hits[:NEAREST], is_exact=is_exact)


def _literal_query(text: str, parts: Sequence[Scope]) -> str:
    """A query for the mode "text": the phrase if it occurs, else all words; empty without matches.

    The words of fields ("project:shop") are no words of the text.
    """

    def have_match(node: Node) -> bool:
        return any(part.store.satisfies(node, part.filter) for part in parts)

    query = parse_any_length(text, parts[0].store)
    if query.pasted:
        return text
    if query.plain and has_token(query.rest):
        words = query.rest.split()
        fields = [word for word in text.split() if word not in words]
        if have_match(Word(query.rest)):
            words = [query.rest]
        text = " ".join([*fields, *(f'"{word}"' for word in words)])
        query = parse_any_length(text, parts[0].store)
    if query.node is not None and has_words(query) and not have_match(query.node):
        return ""
    return text


def search_without_words(query: Query, parts: Sequence[Scope], results: _Results) -> MemoryResults:
    """Punctuation and fields are not ranked: observations come first, then exchanges."""
    literal, is_exact, note, totals = query.rest.strip(), True, query.note, []
    for part in parts:
        if literal:
            found = part.store.newest(part.filter, _MAX_WITHOUT_WORDS, text=literal)
        elif query.text.strip():
            found = part.store.newest(part.filter, _MAX_WITHOUT_WORDS)
        else:
            found = CandidatePage([], 0)
        results.matches += [Match(candidate, 1.0) for candidate in found.candidates]
        totals.append(found.total)
        is_exact = is_exact and found.is_complete and found.total == len(found.candidates)
        note = note if found.is_complete else NOTE
    hits = results.hits()
    total = max(totals[0], results.observations) + results.exchanges
    return MemoryResults(kind(hits), hits, total, is_exact and results.is_exact, note)


def kind(hits: Sequence[MemoryHit]) -> str:
    observations = sum(1 for hit in hits if isinstance(hit, ObservationHit))
    if observations == len(hits):
        return "observations"
    return "mixed" if observations else "exchanges"


# -- each observation and each exchange once ---


class Match(NamedTuple):
    """An observation or a message that matches."""

    candidate: Candidate
    score: float
    terms: tuple[str, ...] = ()
    """The words of the query that it contains."""


_Identity = tuple[str, ...]
"""The identity of a result: what it is, and its ids."""


class _Results:
    """The results of a search, in the order of their best matches.

    Reading the observations of a conversation and its text, which tells the exchanges apart, takes
    time. So they are read only for the results that are returned. Beyond the limit, the messages of
    a conversation count as one result, unless few conversations have matches.
    """

    def __init__(self, store: Store, filter_: Filter, audience: Audience, limit: int) -> None:
        self._store = store
        self._coverage = Coverage(store, filter_)
        self._texts = ConversationTexts(store, audience)
        self._limit = limit
        self._best: dict[_Identity, Match] = {}
        self._own: dict[str, Match] = {}
        """The matches of observations with their own text, by their ids."""
        self._observed: set[str] = set()
        """The conversations of observations that are results."""
        self.words: Sequence[Word] = ()
        """The words to highlight."""
        self.matches: list[Match] = []
        """Best first."""
        self.is_exact = True
        """Whether the results were told apart exactly."""

    def hits(self) -> tuple[MemoryHit, ...]:
        """The results, up to the limit, without what was deleted in the meantime."""
        for match in self.matches:
            if match.candidate.kind == OBSERVATION:
                self._own.setdefault(match.candidate.id, match)
                self._observed.add(match.candidate.document.removeprefix(f"{OBSERVATIONS}:"))
        conversations = list(
            dict.fromkeys(
                m.candidate.document for m in self.matches if m.candidate.id not in self._own
            )
        )
        for match in self.matches:
            identity = self._identity(match.candidate, conversations)
            if identity is not None:
                self._best.setdefault(identity, match)
        page = list(self._best.items())[: self._limit]
        own = observations_by_key(
            self._store, [m.candidate.key for _, m in page if m.candidate.kind == OBSERVATION]
        )
        hits = [self._hit(identity, match, own) for identity, match in page]
        return tuple(hit for hit in hits if hit is not None)

    def _hit(
        self, identity: _Identity, match: Match, own: Mapping[int, ObservationHit]
    ) -> MemoryHit | None:
        candidate, score, terms = match
        hit = replace(make_hit(candidate, self.words, score), terms=terms)
        if identity[0] != OBSERVATION:
            text = self._texts.text(candidate.document)
            return None if text is None else conversation_hit(hit, text)
        snippet, quote = " ".join(hit.snippet.split()), ""
        about = own.get(candidate.key)
        if candidate.kind != OBSERVATION:  # found by a message, and perhaps only that says so
            about = self._coverage.observation(identity[1])
            own_match = self._own.get(identity[1])
            if own_match is None or not set(terms) <= set(own_match.terms):
                quote = snippet
        if about is None:
            return None
        return about._replace(score=score, snippet=snippet, terms=terms, quote=quote)

    def _identity(self, candidate: Candidate, conversations: Sequence[str]) -> _Identity | None:
        """The result that a match belongs to; None if it is unknown or was deleted meanwhile."""
        if candidate.kind == OBSERVATION:
            return OBSERVATION, candidate.id
        conversation, is_few = candidate.document, len(conversations) <= _FEW_CONVERSATIONS
        if not self._coverage.is_loaded(conversation):
            if self.is_full and not is_few:
                self.is_exact = False
                if conversation in self._observed:  # perhaps of a result that is counted already
                    return None
                return CONVERSATION, conversation
            start = conversations.index(conversation)
            self._coverage.load(conversations[start : start + _FEW_CONVERSATIONS])
        ids = self._coverage.ids(conversation, candidate.id)
        if ids:  # one that is a result already, or else ranks best
            self._observed.add(conversation)
            found = [id_ for id_ in ids if (OBSERVATION, id_) in self._best]
            return OBSERVATION, (found or [id_ for id_ in self._own if id_ in ids] or ids)[0]
        if self.is_full and not self._texts.is_loaded(conversation):
            if (CONVERSATION, conversation) in self._best:  # perhaps another exchange
                self.is_exact = False
            return CONVERSATION, conversation
        text = self._texts.text(conversation)
        lines = exchange_lines(text, candidate.id) if text is not None else None
        if lines is None:  # on another branch
            return None if text is None else ("message", conversation, candidate.id)
        return "exchange", conversation, str(lines[0])

    @property
    def is_full(self) -> bool:
        return len(self._best) >= self._limit

    @property
    def observations(self) -> int:
        return sum(1 for what, *_ in self._best if what == OBSERVATION)

    @property
    def exchanges(self) -> int:
        return len(self._best) - self.observations


def conversation_hit(hit: Hit, text: ConversationText) -> ConversationHit:
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


# -- several concepts ---


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
    found = [(hit, texts.text(hit.conversation_id)) for hit in page.hits]
    # Without a text, it was deleted during the search.
    hits = tuple(conversation_hit(hit, text) for hit, text in found if text is not None)
    return MemoryResults("conversations", hits, page.total, page.exact, page.note)
