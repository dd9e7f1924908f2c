"""The search: read the query, find candidates in each arm, rank them, make a page.

Messages, items and observations are passages of different kinds. A search looks in one or several
pools of candidates, each for a kind or a part of the store, and ranks what they have together.
`search` is for messages (`search.everything` for all kinds, `memory.search` for observations and
messages): they share `interpret_query` and `Search`, and present its ranking in their own way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain, islice

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.intent import IDENTIFIER
from recollect.language.queries.query import Query, parse_query
from recollect.language.queries.query_tree import Word
from recollect.language.text import tokens
from recollect.language.words import synonyms_version
from recollect.model.audience import Audience
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.candidates import CandidatePool, Scope, read_pools
from recollect.search.deadline import NOTE
from recollect.search.observations import observation_pool, raise_messages
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import (
    NO_MEANING,
    Interpretation,
    corrected_terms,
    interpret,
    query_meaning,
    require_vector,
    stored_meaning,
)
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.query_reading import period_remark, read_query
from recollect.search.queries.terms import RankingQuery, any_term, own_terms
from recollect.search.remarks import Remarks, note_unknown_names
from recollect.search.results import Ranking, make_hit, merge_copies
from recollect.settings import EMBEDDINGS, LIMITS, RERANK
from recollect.store.base import Store
from recollect.store.values import Candidate

AS_TYPED = "Searched for the text as typed, because it has no words."
_BEST_HITS = 10  # a page, unless the caller asks for another number
_MORE_MESSAGES = 2  # of a conversation, besides its best
_TERMS_OF_MESSAGE = 12  # terms of a message used to find similar ones
# What is remembered for the next pages of the last searches: so many, and as long. Recency and
# words such as "yesterday" depend on the time.
_MAX_SEARCHES = 8
_MAX_AGE = timedelta(minutes=1)
_MAX_CHARACTERS = 2_000_000  # candidates with more text are not held in memory
_ANY_TIME = datetime.max.replace(tzinfo=UTC)


class Searches:
    """The searches of a library. Those whose next page may be asked for are remembered.

    They are valid until anybody writes to the library. So pages neither repeat nor omit a hit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: object = None
        self._searches: OrderedDict[Hashable, Search] = OrderedDict()

    def page(
        self,
        store: Store,
        meaning: Meaning,
        text: str,
        filter: Filter,
        options: SearchOptions,
        audience: Audience,
    ) -> Page:
        """Like `search`, where `store` is what the audience sees."""
        of_first_page = replace(options, offset=0, limit=1, snippet_length=1, now=_ANY_TIME)
        settings = (RERANK.get(), EMBEDDINGS.get(), synonyms_version())
        key = (audience, text, filter, of_first_page, settings)
        with store.snapshot():
            version = store.version()
            with self._lock:
                if version != self._version:
                    self._searches.clear()
                    self._version = version
                found = self._searches.get(key)
            if found is None or abs(options.now - found.now) > _MAX_AGE:
                made = search_messages(store, meaning, text, filter, options)
                if isinstance(made, Page):
                    return made
                found = made
            page = found.page(options)
            with self._lock:
                if version == self._version and found.may_be_kept:
                    self._searches[key] = found
                    self._searches.move_to_end(key)
                while len(self._searches) > _MAX_SEARCHES:
                    self._searches.popitem(last=False)
            return page


def search(
    store: Store, meaning: Meaning, text: str, filter: Filter, options: SearchOptions
) -> Page:
    """A page of messages for a query. See `language.queries.query` for its syntax.

    Every hit satisfies operators, quotes and fields. Plain words are a question: messages that
    contain any of them or are similar in meaning are ranked. If no message contains all the words
    and phrases of a query without operators, they are ranked like a question. `Page.matched`
    says how the query was handled.
    """
    with store.snapshot():
        found = search_messages(store, meaning, text, filter, options)
        return found if isinstance(found, Page) else found.page(options)


def search_messages(
    store: Store, meaning: Meaning, text: str, filter: Filter, options: SearchOptions
) -> Search | Page:
    """A search for messages; its page if the query has no words."""
    query = read_query(text, store, options, [filter])
    filter = narrow_filter(filter, query, store)
    if not has_words(query):
        return page_without_words(store, query, filter, options)
    scope = Scope.begin(store, filter)
    return message_search(interpret_query(query, scope.store, [scope], meaning, options), scope)


def message_search(interpretation: Interpretation, scope: Scope) -> Search:
    """The search for the messages of a scope, with the help of observations if they are wanted."""
    pools = [CandidatePool(interpretation, scope)]
    if interpretation.options.observations:
        observations = observation_pool(pools[0])
        if observations is not None:
            pools.append(observations)
    return Search(interpretation, pools)


def interpret_query(
    query: Query,
    store: Store,
    parts: Sequence[Scope],
    meaning: Meaning,
    options: SearchOptions,
) -> Interpretation:
    """What to search for in some parts of a store. If nothing matches quotes, they are text."""
    node = query.node
    if node is not None and may_relax(query):
        is_satisfied = any(part.store.satisfies(node, part.filter) for part in parts)
        query = query._replace(plain=not is_satisfied)
    return interpret(query, store, [part.filter for part in parts], meaning, options)


class Search:
    """One search: its candidates, their ranking and its pages of messages."""

    def __init__(
        self,
        interpretation: Interpretation,
        pools: Sequence[CandidatePool],
        subject: str = "No message",
        *,
        merges_copies: bool = True,
    ) -> None:
        """The first pool is that of the messages of a page.

        `subject`: of remarks if all kinds are searched.
        """
        self.interpretation = interpretation
        self.pools = pools
        self.pool = pools[0]
        self.scope = self.pool.scope
        self.now = interpretation.ranking_query.now
        self._subject = subject
        self._merges_copies = merges_copies

    def restricted_to(self, conversations: Iterable[str]) -> Search:
        """The same search in these conversations only."""
        return message_search(self.interpretation, self.scope.restricted_to(conversations))

    @property
    def may_be_kept(self) -> bool:
        """Whether it had all the time and the model that it needed, and is small enough."""
        if self.scope.is_partial or self.interpretation.meaning.problem:
            return False
        sizes = [len(scored.candidate.content) for scored in self.ranking.candidates]
        return sum(sizes) <= _MAX_CHARACTERS

    @cached_property
    def candidates(self) -> list[list[ScoredCandidate]]:
        """What is ranked of each pool."""
        return read_pools(self.pools)

    @cached_property
    def ranking(self) -> Ranking:
        """The candidates of all pools, best first, each text once."""
        from recollect.search.ranking import rank  # imports numpy

        options = self.interpretation.options
        ranked = rank(self.interpretation.ranking_query, list(chain(*self.candidates)))
        if options.observations and len(self.pools) > 1:
            ranked = raise_messages(self.pool, ranked)
        if options.score == "fts":
            ranked = self._order_by_text_score(ranked)
        # For a concept, each conversation needs its own messages.
        if self._merges_copies and not self.interpretation.every_term:
            ranked = merge_copies(ranked, by_conversation=options.group == "conversation")
        has_observations = any(
            scored.candidate.kind == OBSERVATION for scored in chain(*self.candidates)
        )
        return Ranking(
            self.interpretation, ranked, self.scope.store, has_observations=has_observations
        )

    def _order_by_text_score(self, ranked: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The candidates with the text engine's scores, best first."""
        node = self.interpretation.node
        if node is None:
            raise InvalidInput(
                "score: 'fts' needs a search for words. Use it with mode 'text' or 'both'."
            )
        scores = self.scope.store.text_scores(node, [s.candidate.key for s in ranked])
        for scored in ranked:
            scored.score = scores.get(scored.candidate.key, 0.0)
            scored.part_names = scored.part_values = ()
        return sorted(ranked, key=lambda scored: -scored.score)

    @cached_property
    def remarks(self) -> Remarks:
        kinds = [kind for pool in self.pools for kind in pool.scope.filter.kinds]
        return Remarks(
            self.interpretation, self.scope.store, self.ranking.candidates, kinds, self._subject
        )

    # -- pages ---

    def page(self, options: SearchOptions) -> Page:
        """One page of the hits. `options` are those of the search, perhaps for another page."""
        if options.group == "conversation":
            page = self._page_of_conversations(options)
        else:
            page = self._page_of_messages(options)
        if self.ranking.candidates:
            return replace(page, note=" ".join(filter(None, (page.note, self._remark_on_time()))))
        nearest = [
            make_hit(candidate, self.words, cosine, options.snippet_length, arms=("vector",))
            for candidate, cosine in self.pool.nearest()
        ]
        if nearest:
            return replace(page, nearest=tuple(nearest))
        note = note_unknown_names(page.note, self.scope.store, self.scope.filter)
        return replace(page, note=note)

    def empty_page(self, options: SearchOptions) -> Page:
        """The page without its hits."""
        interpretation, is_weak = self.interpretation, self.ranking.assessment.is_weak
        # A match that was not ranked may have only some of the words.
        has_several = interpretation.is_plain and len(interpretation.own_terms) > 1
        matched = "any"
        if interpretation.query.literal:
            matched = "literal"
        elif self.ranking.has_all_terms and not (has_several and self.pool.has_more_matches):
            matched = "all"
        embedded = 0.0
        if interpretation.meaning.space is not None:
            size = max(self.scope.store.size(), 1)
            embedded = round(min(interpretation.meaning.space.last_key / size, 1.0), 4)
        return Page(
            hits=(),
            total=0,
            offset=options.offset,
            limit=options.limit,
            matched=matched,
            partial=self.scope.is_partial,
            weak=is_weak,
            score_type=options.score,
            mode=interpretation.mode,
            embedded=embedded,
            note=" ".join(self.remarks.remarks(is_weak=is_weak)),
            missing=self.remarks.missing_words,
            corrections=interpretation.corrections,
        )

    @property
    def words(self) -> list[Word]:
        """The words to highlight."""
        return self.interpretation.words

    @cached_property
    def listed(self) -> Sequence[ScoredCandidate]:
        """The candidates in the order in which they are listed."""
        options = self.interpretation.options
        if options.group == "conversation" or options.score != "rank":
            return self.ranking.candidates
        return self.ranking.listed

    def _remark_on_time(self) -> str:
        """Whether a query names a time and none of the best hits is from it."""
        query, best = self.interpretation.ranking_query, self.listed[:_BEST_HITS]
        is_single_word = len(query.text.split()) == 1  # "yesterday" may be a name
        if query.intent == IDENTIFIER or is_single_word or not query.windows:
            return ""
        if any(scored.part("phrase") for scored in best):  # the time is part of what was typed
            return ""
        return period_remark(query.windows, query.now, [s.candidate.created_at for s in best])

    def _page_of_messages(self, options: SearchOptions) -> Page:
        start, end = options.offset, options.offset + options.limit
        hits = [self.ranking.hit(s, options.snippet_length) for s in self.listed[start:end]]
        ranked = len(self.listed)
        if end > ranked and self.pool.has_more_matches and self.interpretation.node is not None:
            # Matches that were not ranked follow in the order of the text engine.
            first = max(start, ranked)
            candidates = self.pool.matches_beyond(first - ranked, end - first)
            hits += self._unranked_hits(candidates, options)
        total, is_exact = self._total()
        return replace(self.empty_page(options), hits=tuple(hits), total=total, exact=is_exact)

    def _unranked_hits(self, candidates: Iterable[Candidate], options: SearchOptions) -> list[Hit]:
        """The hits of matches that were not ranked. Their score is half of the last score."""
        score = self.ranking.scale.score(self.listed[-1].score) / 2 if self.listed else 0.0
        length = options.snippet_length
        return [make_hit(candidate, self.words, score, length) for candidate in candidates]

    def _total(self) -> tuple[int, bool]:
        """How many messages are hits, with their copies, and whether that is exact or a minimum."""
        interpretation = self.interpretation
        ranked = sum(1 + scored.copies for scored in self.ranking.candidates)
        if self.pool.is_exhausted and not self.scope.is_partial:
            return ranked, True
        if interpretation.node is None:
            return ranked, False
        total, is_exact = self.pool.count()
        if interpretation.is_by_meaning:
            total += sum(1 + s.copies for s in self.ranking.candidates if not s.all_terms)
        if interpretation.is_by_meaning or self.scope.is_partial:
            return max(total, ranked), False
        return total, is_exact

    def _page_of_conversations(self, options: SearchOptions) -> Page:
        start, end = options.offset, options.offset + options.limit
        groups: dict[str, list[ScoredCandidate]] = {}
        for scored in self.listed:
            groups.setdefault(scored.candidate.document, []).append(scored)
        hits = []
        for group in list(groups.values())[start:end]:
            first, *also = [self.ranking.hit(s, options.snippet_length) for s in group[:3]]
            hits.append(replace(first, also=tuple(also[:_MORE_MESSAGES])))
        ranked = len(groups)
        total, is_exact = self.pool.count_conversations(groups)
        if end > ranked and not self.pool.is_exhausted:
            beyond = list(islice(self._conversations_beyond(set(groups)), end - ranked))
            hits += self._unranked_hits(beyond[max(start - ranked, 0) :], options)
            total = max(total, ranked + len(beyond))
        return replace(self.empty_page(options), hits=tuple(hits), total=total, exact=is_exact)

    def _conversations_beyond(self, documents: set[str]) -> Iterator[Candidate]:
        """The first match of each conversation that has no ranked message."""
        for candidate in self.pool.all_matches_beyond():
            if candidate.document not in documents:
                documents.add(candidate.document)
                yield candidate


def page_without_words(store: Store, query: Query, filter: Filter, options: SearchOptions) -> Page:
    """Punctuation is searched for literally. Fields or a time alone give the newest."""
    page = Page((), 0, options.offset, options.limit, note=query.note)
    literal = query.rest.strip()
    by_document = options.group == "conversation"
    length = options.snippet_length
    if literal:
        matches = store.find_substring(literal, filter, options.limit, options.offset, by_document)
        hits = tuple(make_hit(c, [Word(literal)], 1.0, length) for c in matches.candidates)
        page = replace(page, hits=hits, total=matches.total, matched="literal", note=AS_TYPED)
        if not matches.is_complete:
            page = replace(page, exact=False, partial=True, note=f"{AS_TYPED} {NOTE}")
    elif query.text.strip():
        candidates, total = store.newest(filter, options.limit, options.offset, by_document)
        hits = tuple(make_hit(candidate, [], 1.0, length, arms=()) for candidate in candidates)
        page = replace(page, hits=hits, total=total)
    if page.total:
        return page
    return replace(page, note=note_unknown_names(page.note, store, filter))


# -- similar messages ---


def related(
    store: Store,
    meaning: Meaning,
    conversation: str,
    message: str,
    filter: Filter,
    options: SearchOptions,
) -> Page:
    """Messages similar to a message, in words and in meaning, without the message itself.

    Words are the most telling ones that the message shares with others.
    """
    key = store.passage_key(conversation, message)
    (candidate,) = store.candidates([key], Filter(hidden=True))
    scope = Scope.begin(store, filter)
    words = " ".join(dict.fromkeys(tokens(candidate.content)))
    beginning = words.encode()[: LIMITS.query_bytes].decode(errors="ignore")
    query = parse_query(" ".join(beginning.split()[: LIMITS.query_terms]))
    all_terms, corrections = corrected_terms(query, scope.store, [filter], meaning, options)
    shared_terms = [term for term in own_terms(all_terms) if term.frequency > 1]
    shared_terms.sort(key=lambda term: -term.weight)
    terms = tuple(shared_terms[:_TERMS_OF_MESSAGE])
    message_meaning = NO_MEANING
    if options.mode != "text":
        message_meaning = stored_meaning(key, scope.store, meaning)
        if message_meaning.vector is None:
            message_meaning = query_meaning(query, all_terms, corrections, scope.store, meaning)
    if options.mode == "vector":
        require_vector(message_meaning)
    by_words = options.mode != "vector" and bool(terms)
    now = candidate.created_at or options.now
    interpretation = Interpretation(
        query,
        options,
        terms,
        corrections,
        any_term(terms) if by_words else None,
        RankingQuery("", terms if by_words else (), now, by_person=False),
        message_meaning,
    )
    found = Search(interpretation, [CandidatePool(interpretation, scope, None, {key})])
    page = found.page(options)
    if options.group == "conversation":
        return page
    total = page.total
    if page.exact and not found.pool.is_exhausted and found.pool.candidates([key]):
        total -= 1  # the text index counts the message itself
    return replace(page, total=max(total, len(found.ranking.candidates)))
