"""The candidates of a search: those of the text arm and of the vector arm.

The text arm finds candidates by their words, the vector arm by their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property

from recollect.errors import SearchTimeout
from recollect.language.languages.english import ENGLISH
from recollect.language.queries.addressee import is_to_assistant
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, QUESTION
from recollect.language.queries.query_tree import And, Node, Or, Word, excludes_words
from recollect.model.search import Filter
from recollect.models.embeddings import STATIC
from recollect.search import rank
from recollect.search.deadline import NOTHING_IN_TIME
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.terms import any_term
from recollect.search.ranking.scored import ScoredCandidate
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, CandidateRead, SearchPlan, Space

CANDIDATES = 150
"""Candidates of each arm."""
MATCHES_OF_QUESTION = 300
"""If a question has both arms, they find more, of which a shortlist is ranked."""
_SHORTLIST = 160
_SHORTLIST_FOR_CONVERSATIONS = 250
"""Longer, because a list of conversations judges each by its messages."""
_LARGE_LIBRARY = 20_000
"""In a library with fewer messages, the first candidates of the arms include most answers. Then the
shortlist is shorter, and a list of conversations ranks all candidates without one."""
_SHORTLIST_IN_SMALL_LIBRARY = 120
_ALWAYS_RANKED = 30
"""The first of each arm are in the shortlist in any case."""
_RANKED_MESSAGES = 100
"""Candidates of each arm that are ranked if there is no shortlist."""
_RANKED_KEYWORDS = 60
"""Fewer for keywords, because the text arm finds them in almost the same order."""
_CANDIDATES_WHILE_TYPING = 60
"""Fewer, because each key is a search, and the next key replaces its result."""
# The weight of a term in a tenth of all messages. Terms with less say little and match many
# messages, so candidates with a rarer term come first.
_COMMON_WEIGHT = math.log(1 + 0.9 / 0.1)
_CANDIDATES_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 300_000  # the deadline is checked after each batch
# For the best candidates, the previous message is read as well.
_MESSAGES_WITH_CONTEXT = 16
_CONVERSATIONS_WITH_CONTEXT = 64
_CANDIDATES_OF_PERIOD = 50  # of each arm, for each period that a question names
_STATEMENTS = 50  # preferences and instructions, if a question is for the assistant
_PERIODS = 3  # as many are searched
_DISTANT = 12  # more than are shown, because some have the same text


class CandidatePool(Interpretation):
    """What the arms of one search find."""

    is_exhausted = True
    """Whether the arms have no candidates beyond the pool."""
    has_more_matches = True
    """Whether the text arm may have candidates beyond the pool."""
    _pool_keys: frozenset[int] = frozenset()
    _count: tuple[int, bool] | None = None
    _all_matches: list[int] | None = None
    """What the text arm has found, if that is all."""
    _distant: Sequence[tuple[int, float]] = ()
    """The nearest neighbours, if they are no evidence."""
    candidate_read = CandidateRead()
    """The candidates that `find` has found."""
    _text_keys: Sequence[int] = ()
    """Those that `find_matches` has found."""
    _new_text_keys: AbstractSet[int] = frozenset()
    _neighbours: dict[int, float]

    @property
    def store(self) -> Store:
        return self._store

    @cached_property
    def _arm_size(self) -> int:
        """How many candidates each arm may have."""
        if self._options.typing:
            return _CANDIDATES_WHILE_TYPING
        has_both_arms = self.node is not None and self._vector is not None
        if self.question.intent != QUESTION or not self._plain or not has_both_arms:
            return CANDIDATES
        if self._options.group == "conversation" and self._store.size() < _LARGE_LIBRARY:
            return CANDIDATES
        return MATCHES_OF_QUESTION

    @property
    def _has_shortlist(self) -> bool:
        """Whether only some of the candidates of the arms are read and ranked, see `shortlist`."""
        return self._arm_size > CANDIDATES

    @cached_property
    def _ranked_size(self) -> int:
        """How many candidates of each arm are read and ranked if there is no shortlist."""
        if self._options.group == "conversation":
            return self._arm_size
        if self.question.intent == KEYWORDS:
            return min(_RANKED_KEYWORDS, self._arm_size)
        return min(_RANKED_MESSAGES, self._arm_size)

    @property
    def _many_matches(self) -> int:
        """If the text arm finds so many, there may be more than are ranked."""
        if self._has_shortlist:
            return _ALWAYS_RANKED + 1
        return min(self._arm_size, self._ranked_size + 1)

    def restrict_to(self, conversations: Iterable[str]) -> None:
        """Search in these conversations only."""
        self._filter = replace(self._filter, conversations=tuple(conversations) or ("",))

    # -- the text arm ---

    def text_matches(self, limit: int) -> list[int]:
        """The keys that the text arm finds, best first."""
        keys: list[int] = []
        for node in self._text_nodes():
            if len(keys) < limit:
                keys = list(dict.fromkeys([*keys, *self._store.match(node, self._filter, limit)]))
        return keys[:limit]

    def _text_nodes(self) -> list[Node]:
        """What the text arm searches for, the most telling first, and at last all of it.

        Identifiers and quotes come first. Then, for a question, its rarer terms; for keywords, all
        of them.
        """
        assert self.node is not None
        if not self._plain or isinstance(self.node, And) or len(self._terms) == 1:
            return [self.node]
        nodes = [term.node for term in self._terms if term.exact]
        if self.question.intent == QUESTION:
            rare = [term for term in self._terms if term.frequency and term.weight > _COMMON_WEIGHT]
            if 0 < len(rare) < len(self._terms):
                nodes.append(any_term(rare))
        elif len(self._own_terms) > 1:
            if self.question.phrase is not None:
                nodes.append(self.question.phrase.node)
            nodes.append(self._all_terms())
        return [*nodes, self.node]

    def all_matches(self, count: int) -> list[int]:
        """The keys of all matches, of which there are so many."""
        if self._all_matches is not None:
            return self._all_matches
        return self.text_matches(count)

    def full_matches(self, limit: int) -> list[int]:
        """The keys of messages that contain every term."""
        node = self.node
        if self._plain and node is not None:
            node = self._all_terms()
        if node is None:
            return []
        return self._store.match(node, self._filter, limit)

    def count(self) -> tuple[int, bool]:
        """How many messages the text arm finds, and whether that is exact or a minimum."""
        if self.node is None:
            return 0, True
        if self._count is None:
            self._count = self._store.count(self.node, self._filter)
        return self._count

    # -- periods ---

    def _periods(self) -> list[Filter]:
        """The periods that a question names.

        The answer is probably in one of them, but among the messages of all times, it may have too
        few words of the question to be a candidate.
        """
        if self._options.typing or self.question.intent != QUESTION or not self._plain:
            return []
        after, before = self._filter.after, self._filter.before
        periods = []
        for window in self.question.windows[:_PERIODS]:
            start = max(filter(None, (after, window.start)))
            end = min(filter(None, (before, window.end)))
            if start < end:
                periods.append(replace(self._filter, after=start, before=end))
        return periods

    @property
    def _period_arm_size(self) -> int:
        return min(_CANDIDATES_OF_PERIOD, self._arm_size)

    def _matches_in(self, period: Filter) -> list[int]:
        """The keys that the text arm finds in a period, if it has not found all of them."""
        if self.node is None or not self.has_more_matches:
            return []
        return self._store.match(self.node, period, self._period_arm_size)

    # -- what the user told the assistant ---

    @property
    def _statements(self) -> SearchPlan | None:
        """The search for preferences and instructions, if a question is for the assistant.

        They have few words of the question, so in a large library they are no candidates otherwise.
        """
        words = sorted(self._query.language.statement_words)
        if self._options.typing or not self._plain or not words or self.node is None:
            return None
        if self.question.intent != QUESTION or not is_to_assistant(self.question.text):
            return None
        roles = self._filter.roles or ("user",)
        if "user" not in roles:
            return None
        node = And((self.node, Or(tuple(map(Word, words)))))
        filter = replace(self._filter, roles=("user",))
        return SearchPlan((node,), filter, _STATEMENTS, after_matches=self._many_matches)

    def _matching_statements(self) -> list[int]:
        """The keys of preferences and instructions, if the text arm has not found all matches."""
        plan = self._statements
        if plan is None or not self.has_more_matches:
            return []
        (node,) = plan.nodes
        return self._store.match(node, plan.filter, plan.limit)

    # -- the vector arm ---

    def _nearest(self, has_word: bool, has_hits: bool) -> list[tuple[int, float]]:
        """The keys that the vector arm finds, with their cosines.

        `has_word`: the text arm found messages with a word of the query. `has_hits`: so did another
        search whose hits are in the same ranking.

        Nothing for a query with operators, since every hit must satisfy them, nor for a concept,
        since a conversation must contain its words. If nothing satisfies the operators, the
        neighbours are the closest in meaning, unless the query excludes words.
        """
        if self._vector is None or self._space is None:
            return []
        if not self._plain and (has_word or has_hits or self._excludes_words()):
            return []
        if self._every_term and self._options.mode == "both":
            return []
        neighbours = self._store.nearest(self._space, self._vector, self._filter, self._arm_size)
        evidence = []
        if self._plain and self._meaning_is_evidence():
            evidence = rank.drop_distant(neighbours)
        if evidence and self._needs_similarity(has_word):
            evidence = self._above_noise(evidence, self._space)
        if not evidence:
            self._distant = neighbours[:_DISTANT]
        return evidence

    def _excludes_words(self) -> bool:
        return self.node is None or excludes_words(self.node)

    def _nearest_in(
        self, period: Filter, neighbours: Sequence[tuple[int, float]], has_word: bool
    ) -> list[tuple[int, float]]:
        """The nearest messages of a period, unless they are far behind the nearest of all."""
        if not neighbours or self._space is None:
            return []
        others = self._store.nearest(self._space, self._vector, period, self._period_arm_size)
        others = rank.drop_distant([*neighbours[:1], *others])[1:]
        if self._needs_similarity(has_word):
            return self._above_noise(others, self._space)
        return others

    def _above_noise(
        self, neighbours: Iterable[tuple[int, float]], space: Space
    ) -> list[tuple[int, float]]:
        floor = space.noise_floor
        return [(key, cosine) for key, cosine in neighbours if floor and cosine > floor]

    def _meaning_is_evidence(self) -> bool:
        """Whether neighbours of the query's vector can be hits. Identifiers have no meaning."""
        if self._options.mode != "vector" and self.question.intent == IDENTIFIER:
            return False
        return not self._terms or any(map(self._has_meaning, self._own_terms))

    def _needs_similarity(self, has_word: bool) -> bool:
        """Whether only a similarity above that of unrelated words is evidence.

        It is if the library has none of the words. Keywords name words, so messages with other
        words must be very similar. The answer to a question often has other words, but the built-in
        model knows only those of English.
        """
        if self._options.mode == "both" and self.question.intent == KEYWORDS:
            return True
        if self._options.mode == "both" and self._is_in_unknown_language():
            return True
        return not has_word and not self._has_word_in_filter()

    def _is_in_unknown_language(self) -> bool:
        """Whether the model does not know the language of the query."""
        is_built_in = self._space is not None and self._space.name == STATIC
        return is_built_in and self._query.language is not ENGLISH

    def _has_word_in_filter(self) -> bool:
        """Whether a message that passes the filter contains a word of the query.

        The text arm knows it, except if only meaning is searched.
        """
        terms = [term for term in self._terms if term.frequency]
        if self.node is not None or not terms:
            return False
        return bool(self._store.match(any_term(terms), self._filter, 1))

    # -- the pool ---

    def pool(self) -> list[ScoredCandidate]:
        """The candidates of both arms, and the messages before the best of them."""
        (pool,) = read_pools([self])
        return pool

    def plans(self) -> list[SearchPlan]:
        """The calls of `match` and `nearest` that are likely to follow."""
        nodes: tuple[Node, ...] = ()
        if self.node is not None:
            nodes = tuple(self._text_nodes())
        plan = SearchPlan(nodes, self._filter, self._arm_size)
        is_by_meaning = self._vector is not None and self._plain
        if is_by_meaning and not (self._every_term and self._options.mode == "both"):
            plan = plan._replace(space=self._space, vector=self._vector)
        period_plan = plan._replace(
            nodes=nodes[-1:], limit=self._period_arm_size, after_matches=self._many_matches
        )
        plans = [plan, *(period_plan._replace(filter=period) for period in self._periods())]
        statements = self._statements
        if statements is not None:
            plans.append(statements)
        return plans

    def find_matches(self) -> bool:
        """Find the candidates of the text arm. Returns whether there are any."""
        self._text_keys = []
        if self.node is not None:
            self._text_keys = self.text_matches(self._arm_size)
        return bool(self._text_keys)

    def find(self, has_hits: bool) -> None:
        """Find the candidates of both arms, by their keys. Only after `find_matches`.

        `has_hits`: a search has found matches whose hits are in the same ranking.
        """
        text_keys = list(self._text_keys)
        neighbours = self._nearest(bool(text_keys), has_hits)
        self._count = None
        self._all_matches = None
        if len(text_keys) < self._arm_size and not self._deadline.stopped_steps:
            self._count = len(text_keys), True
            self._all_matches = text_keys
        matches, similar = len(text_keys), len(neighbours)
        text_keys, neighbours = self._ranked(text_keys, neighbours)
        self.has_more_matches = matches >= self._arm_size or len(text_keys) < matches
        has_more_neighbours = similar >= self._arm_size or len(neighbours) < similar
        self.is_exhausted = not self.has_more_matches and not has_more_neighbours
        for period in self._periods():
            text_keys += self._matches_in(period)
            neighbours += self._nearest_in(period, neighbours, bool(text_keys))
        text_keys += self._matching_statements()
        self._neighbours = dict(neighbours)
        self._new_text_keys = set(text_keys) - self._pool_keys
        new_keys = self._new_text_keys | ({key for key, _ in neighbours} - self._pool_keys)
        self._pool_keys |= new_keys
        self.candidate_read = CandidateRead(tuple(new_keys), self._filter)

    def _ranked(
        self, text_keys: list[int], neighbours: list[tuple[int, float]]
    ) -> tuple[list[int], list[tuple[int, float]]]:
        """Those of the candidates of both arms that are read and ranked."""
        if not self._has_shortlist:
            return text_keys[: self._ranked_size], neighbours[: self._ranked_size]
        from recollect.search.shortlist import shortlist  # imports numpy

        size = _SHORTLIST
        if self._options.group == "conversation":
            size = _SHORTLIST_FOR_CONVERSATIONS
        elif self._store.size() < _LARGE_LIBRARY:
            size = _SHORTLIST_IN_SMALL_LIBRARY
        keys = shortlist([text_keys, [key for key, _ in neighbours]], size, _ALWAYS_RANKED)
        return (
            [key for key in text_keys if key in keys],
            [(key, cosine) for key, cosine in neighbours if key in keys],
        )

    def read(self) -> list[ScoredCandidate]:
        """The new candidates that both arms have found, as many as there is time for."""
        by_vector = self._neighbours.keys()
        pool = self._with_terms(
            [
                ScoredCandidate(
                    candidate, candidate.key in self._new_text_keys, candidate.key in by_vector
                )
                for candidate in self.candidates(self.candidate_read.keys)
            ]
        )
        self._set_cosines(pool, self._neighbours)
        return pool

    def require_candidates(self, pool: Sequence[ScoredCandidate]) -> None:
        """Raise SearchTimeout if there was no time to find anything.

        It must not look as if there were nothing.
        """
        if not pool and self._deadline.stopped_steps:
            raise SearchTimeout(NOTHING_IN_TIME)

    def _with_terms(self, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The candidates with the terms in them, as many as there is time for."""
        # A server must start without numpy, which takes long to import.
        from recollect.search.ranking.passages import find_terms

        pool: list[ScoredCandidate] = []
        for batch in _batches(candidates):
            if pool and self._deadline.is_over():
                break
            find_terms(self.question, batch)
            pool += batch
        return pool

    def _set_cosines(self, pool: Sequence[ScoredCandidate], cosines: dict[int, float]) -> None:
        if self._vector is None or self._space is None:
            return
        keys = [scored.candidate.key for scored in pool]
        missing = [key for key in keys if key not in cosines]
        cosines |= self._store.cosines(self._space, self._vector, missing)
        for scored, key in zip(pool, keys, strict=True):
            scored.cosine = cosines.get(key)

    def context_read(self, pool: Sequence[ScoredCandidate]) -> CandidateRead:
        """The messages before the best candidates, on which the ranking of questions depends."""
        if not pool or self.question.intent != QUESTION or self._deadline.is_over():
            return CandidateRead()
        size = _MESSAGES_WITH_CONTEXT
        if self._options.group == "conversation":
            size = _CONVERSATIONS_WITH_CONTEXT
        best = sorted(pool, key=rank.preliminary_score, reverse=True)[:size]
        return CandidateRead(tuple([scored.candidate.key for scored in best]))

    def context(
        self, pool: Sequence[ScoredCandidate], read: CandidateRead
    ) -> list[ScoredCandidate]:
        """Those of the messages before the best candidates that are not candidates themselves."""
        if not read.keys:
            return []
        keys = {scored.candidate.key for scored in pool}
        previous = self._store.previous_passages(read.keys)
        context = self._with_terms(
            [ScoredCandidate(candidate) for candidate in previous if candidate.key not in keys]
        )
        self._set_cosines(context, {})
        return context

    def candidates(self, keys: Sequence[int]) -> list[Candidate]:
        return self._store.candidates(keys, self._filter)

    def is_in_pool(self, key: int) -> bool:
        return key in self._pool_keys

    @property
    def pool_size(self) -> int:
        return len(self._pool_keys)

    def beyond_pool(self) -> Iterator[Candidate]:
        """Matches that were not ranked, in the order of the text engine."""
        keys_before = set(self._pool_keys)
        limit = self._arm_size + len(keys_before)
        while self.node is not None and self.has_more_matches:
            matches = self.text_matches(limit)
            keys = [key for key in matches if key not in keys_before]
            keys_before.update(keys)
            for start in range(0, len(keys), _CANDIDATES_AT_ONCE):
                yield from self._in_order(keys[start : start + _CANDIDATES_AT_ONCE])
            if len(matches) < limit or limit > LIMITS.page_offset:
                return
            limit *= 4

    def _in_order(self, keys: Sequence[int]) -> list[Candidate]:
        candidates = {candidate.key: candidate for candidate in self.candidates(keys)}
        return [candidates[key] for key in keys if key in candidates]


def read_pools(searches: Sequence[CandidatePool]) -> list[list[ScoredCandidate]]:
    """The pools of several searches in a library. A store on a server reads them together."""
    return add_context(searches, read_candidates(searches, in_one_ranking=True))


def read_candidates(
    searches: Sequence[CandidatePool], *, in_one_ranking: bool = False
) -> list[list[ScoredCandidate]]:
    """The same without the messages before the candidates."""
    store = searches[0].store
    store.expect(*(plan for search in searches for plan in search.plans()))
    have_matches = [search.find_matches() for search in searches]
    for search in searches:
        search.find(in_one_ranking and any(have_matches))
    store.expect_candidates(*(search.candidate_read for search in searches))
    return [search.read() for search in searches]


def add_context(
    searches: Sequence[CandidatePool],
    pools: Sequence[list[ScoredCandidate]],
    *other_reads: CandidateRead,
) -> list[list[ScoredCandidate]]:
    """The pools with the messages before the best candidates.

    `other_reads` are likely to follow, so they are announced as well.
    """
    reads = [search.context_read(pool) for search, pool in zip(searches, pools, strict=True)]
    searches[0].store.expect_candidates(*reads, *other_reads)
    return [
        pool + search.context(pool, read)
        for search, pool, read in zip(searches, pools, reads, strict=True)
    ]


def _batches(candidates: Sequence[ScoredCandidate]) -> Iterator[Sequence[ScoredCandidate]]:
    """Candidates in batches of limited length."""
    lengths = [len(scored.candidate.content) for scored in candidates]
    if sum(lengths) <= _CHARACTERS_AT_ONCE:  # as usual
        if candidates:
            yield candidates
        return
    start = 0
    characters = 0
    longest = LIMITS.ranked_characters
    for end, length in enumerate(lengths, 1):
        characters += min(length, longest)
        if characters > _CHARACTERS_AT_ONCE:
            yield candidates[start:end]
            start, characters = end, 0
    if start < len(candidates):
        yield candidates[start:]
