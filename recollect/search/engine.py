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
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.candidates import CandidatePool, Scope, read_pools
from recollect.search.deadline import NOTE
from recollect.search.passages import ScoredCandidate, find_terms
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
from recollect.search.remarks import missing_words, note_unknown_names, remarks, subject_of
from recollect.search.results import Ranking, make_hit, merge_copies
from recollect.settings import EMBEDDINGS, LIMITS, RERANK
from recollect.store.base import Store
from recollect.store.observed import ObservationStore
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
        self.words = interpretation.words
        """The words to highlight."""
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
    def ranking(self) -> Ranking:
        """The candidates of all pools, best first, each text once."""
        from recollect.search.ranking import rank  # imports numpy

        interpretation, options = self.interpretation, self.interpretation.options
        candidates = list(chain(*read_pools(self.pools)))
        ranked = rank(interpretation.ranking_query, candidates)
        if options.observations and len(self.pools) > 1:
            ranked = raise_messages(self.pool, ranked)
        if options.score == "fts":
            if interpretation.node is None:
                raise InvalidInput(
                    "score: 'fts' needs a search for words. Use it with mode 'text' or 'both'."
                )
            keys = [scored.candidate.key for scored in ranked]
            scores = self.scope.store.text_scores(interpretation.node, keys)
            for scored in ranked:
                scored.score = scores.get(scored.candidate.key, 0.0)
                scored.part_names = scored.part_values = ()
            ranked.sort(key=lambda scored: -scored.score)
        # For a concept, each conversation needs its own messages.
        if self._merges_copies and not interpretation.every_term:
            ranked = merge_copies(ranked, by_conversation=options.group == "conversation")
        has_observations = any(each.candidate.kind == OBSERVATION for each in candidates)
        return Ranking(interpretation, ranked, has_observations=has_observations)

    # -- what the user should know ---

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """The words of the query that nothing contains."""
        kinds = [kind for pool in self.pools for kind in pool.scope.filter.kinds]
        store, candidates = self.scope.store, self.ranking.candidates
        return missing_words(self.interpretation, store, candidates, kinds)

    def remarks(self, *, is_weak: bool = False) -> list[str]:
        """`is_weak`: the hits are probably unrelated."""
        kinds = [kind for pool in self.pools for kind in pool.scope.filter.kinds]
        return remarks(
            self.interpretation,
            self.scope.store,
            self.ranking.candidates,
            self.missing,
            subject_of(kinds, self._subject),
            is_weak=is_weak,
        )

    def _remark_on_time(self) -> str:
        """Whether a query names a time and none of the best hits is from it."""
        query, best = self.interpretation.ranking_query, self.ranking.listed[:_BEST_HITS]
        is_single_word = len(query.text.split()) == 1  # "yesterday" may be a name
        if query.intent == IDENTIFIER or is_single_word or not query.windows:
            return ""
        if any(scored.part("phrase") for scored in best):  # the time is part of what was typed
            return ""
        return period_remark(query.windows, query.now, [s.candidate.created_at for s in best])

    # -- pages ---

    def page(self, options: SearchOptions) -> Page:
        """One page of the hits. `options` are those of the search, perhaps for another page."""
        ranking, length = self.ranking, options.snippet_length
        start, end = options.offset, options.offset + options.limit
        is_by_conversation = options.group == "conversation"
        groups: dict[Hashable, list[ScoredCandidate]] = {}
        for scored in ranking.listed:
            candidate = scored.candidate
            group = candidate.document if is_by_conversation else candidate.key
            groups.setdefault(group, []).append(scored)
        hits = []
        for members in list(groups.values())[start:end]:
            first, *also = [ranking.hit(s, length) for s in members[: 1 + _MORE_MESSAGES]]
            hits.append(replace(first, also=tuple(also)) if also else first)
        conversations = {scored.candidate.document for scored in ranking.listed}
        total, is_exact = (
            self.pool.count_conversations(conversations) if is_by_conversation else self._total()
        )
        if end > len(groups) and self.pool.has_more_matches:
            # Matches that were not ranked follow in the order of the text engine, with half of the
            # last score. Of each other conversation, the first one.
            skipped = max(start - len(groups), 0)
            beyond = list(
                islice(self._conversations_beyond(conversations), end - len(groups))
                if is_by_conversation
                else islice(self.pool.matches_beyond(skipped), end - max(start, len(groups)))
            )
            if is_by_conversation:
                total = max(total, len(groups) + len(beyond))
                beyond = beyond[skipped:]
            score = ranking.score(ranking.listed[-1].score) / 2 if groups else 0.0
            hits += [make_hit(candidate, self.words, score, length) for candidate in beyond]
        page = replace(self.empty_page(options), hits=tuple(hits), total=total, exact=is_exact)
        if ranking.candidates:
            remark = self._remark_on_time()
            return replace(page, note=f"{page.note} {remark}".strip()) if remark else page
        nearest = [
            make_hit(candidate, self.words, cosine, length, arms=("vector",))
            for candidate, cosine in self.pool.nearest()
        ]
        if nearest:
            return replace(page, nearest=tuple(nearest))
        note = note_unknown_names(page.note, self.scope.store, self.scope.filter)
        return replace(page, note=note)

    def _conversations_beyond(self, ranked: Iterable[str]) -> Iterator[Candidate]:
        """The first match of each conversation that has no ranked message."""
        documents = set(ranked)
        for candidate in self.pool.matches_beyond():
            if candidate.document not in documents:
                documents.add(candidate.document)
                yield candidate

    def empty_page(self, options: SearchOptions) -> Page:
        """The page without its hits."""
        interpretation, ranking = self.interpretation, self.ranking
        matched = "any"
        if interpretation.query.literal:
            matched = "literal"
        elif not interpretation.is_plain:
            matched = "all"
        else:
            own = {n for n, term in enumerate(interpretation.terms) if not term.weak}
            # A match that was not ranked may have only some of the words.
            is_all = len(own) < 2 or not self.pool.has_more_matches
            if is_all and all(own.issubset((*s.terms, *s.title_terms)) for s in ranking.candidates):
                matched = "all"
        embedded = 0.0
        if interpretation.meaning.space is not None:
            size = max(self.scope.store.size(), 1)
            embedded = round(min(interpretation.meaning.space.last_key / size, 1.0), 4)
        is_weak = ranking.assessment.is_weak
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
            note=" ".join(self.remarks(is_weak=is_weak)),
            missing=self.missing,
            corrections=interpretation.corrections,
        )

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


def page_without_words(store: Store, query: Query, filter: Filter, options: SearchOptions) -> Page:
    """Punctuation is searched for literally. Fields or a time alone give the newest."""
    page = Page((), 0, options.offset, options.limit, note=query.note)
    literal = query.rest.strip()
    by_document = options.group == "conversation"
    length = options.snippet_length
    if literal:
        matches = store.newest(
            filter, options.limit, options.offset, text=literal, by_document=by_document
        )
        hits = tuple(make_hit(c, [Word(literal)], 1.0, length) for c in matches.candidates)
        page = replace(page, hits=hits, total=matches.total, matched="literal", note=AS_TYPED)
        if not matches.is_complete:
            page = replace(page, exact=False, partial=True, note=f"{AS_TYPED} {NOTE}")
    elif query.text.strip():
        found = store.newest(filter, options.limit, options.offset, by_document=by_document)
        hits = tuple(make_hit(each, [], 1.0, length, arms=()) for each in found.candidates)
        page = replace(page, hits=hits, total=found.total)
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
    interpretation = Interpretation(
        query,
        options,
        terms,
        corrections,
        any_term(terms) if by_words else None,
        RankingQuery(
            "", terms if by_words else (), candidate.created_at or options.now, by_person=False
        ),
        message_meaning,
    )
    return Search(interpretation, [CandidatePool(interpretation, scope, None, {key})]).page(options)


# -- observations ---

# An observation says in a few sentences what came of an exchange: a decision, a cause, a
# preference. So it often has the words of a question that no single message has. Observations are
# ranked together with messages, and each stands for one of the messages that it was made of.
_OBSERVATIONS = 60
"""Observations of each arm. They are short, so the best of them come first."""
_MOST_RAISED = 20
"""The best observations that stand for messages. Further ones are on no first page."""


def observation_pool(messages: CandidatePool) -> CandidatePool | None:
    """The pool of the observations for the query of a pool of messages; None if none can match.

    An observation cannot satisfy what operators and identifiers require of a message, and has
    neither role nor author.
    """
    interpretation, filter = messages.interpretation, messages.scope.filter
    if not interpretation.is_plain or interpretation.intent == IDENTIFIER:
        return None
    possible = Filter(
        projects=filter.projects,
        not_projects=filter.not_projects,
        after=filter.after,
        before=filter.before,
    )
    if not messages.scope.has_messages or filter != replace(possible, kinds=filter.kinds):
        return None
    scope = messages.scope.with_part(
        ObservationStore(messages.scope.store), replace(possible, hidden=True, kinds=(OBSERVATION,))
    )
    return CandidatePool(interpretation, scope, _OBSERVATIONS)


def raise_messages(
    messages_pool: CandidatePool, ranking: Sequence[ScoredCandidate]
) -> list[ScoredCandidate]:
    """The messages of a ranking, each with the score of its best observation if it is higher.

    If none of the messages of an observation was found itself, its first one is added.
    """

    def id_of(scored: ScoredCandidate) -> tuple[str, str]:
        return scored.candidate.document, scored.candidate.id

    store = messages_pool.scope.store
    messages = {id_of(s): s for s in ranking if s.candidate.kind != OBSERVATION}
    observations = [s for s in ranking if s.candidate.kind == OBSERVATION][:_MOST_RAISED]
    ids: dict[int, list[tuple[str, str]]] = {}
    """The messages of each observation. Without any, it was deleted during the search."""
    for key, (_, passage) in store.passages_by_key([s.candidate.key for s in observations]).items():
        conversation = str(passage.metadata.get("conversation"))
        ids[key] = [(conversation, str(id_)) for id_ in passage.metadata.get("passages") or ()]
    first_ids = {of[0]: None for of in ids.values() if of and messages.keys().isdisjoint(of)}
    # Those that were deleted, or are hidden from the reader, are missing.
    candidates = store.candidates(list(first_ids), messages_pool.scope.filter)
    added = [ScoredCandidate(candidate, by_text=True) for candidate in candidates]
    find_terms(messages_pool.interpretation.ranking_query, added)
    messages |= {id_of(scored): scored for scored in added}
    for observation in observations:
        own = [messages[id_] for id_ in ids.get(observation.candidate.key, ()) if id_ in messages]
        if not own:
            continue
        message = max(own, key=lambda scored: scored.score)
        if message.score < observation.score:
            message.score = observation.score
            message.part_names = observation.part_names
            message.part_values = observation.part_values
    return sorted(messages.values(), key=lambda each: (-each.score, -each.candidate.key))
