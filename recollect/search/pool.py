"""The pool of a search: the candidates of both arms that are read and ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from recollect.errors import SearchTimeout
from recollect.language.queries.intent import KEYWORDS, QUESTION
from recollect.language.queries.query_tree import Node
from recollect.search import rank
from recollect.search.arms import CANDIDATES, Arms
from recollect.search.deadline import NOTHING_IN_TIME
from recollect.search.ranking.scored import ScoredCandidate
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, CandidateRead, SearchPlan

_SHORTLIST = 160
_SHORTLIST_FOR_CONVERSATIONS = 250
"""Longer, because a list of conversations judges each by its messages."""
_SHORTLIST_IN_SMALL_LIBRARY = 120
_ALWAYS_RANKED = 30
"""The first of each arm are always in the shortlist."""
_RANKED_MESSAGES = 100
"""Candidates of each arm that are ranked if there is no shortlist."""
_RANKED_KEYWORDS = 60
"""Fewer for keywords, because the text arm finds them in almost the same order."""
_CANDIDATES_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 300_000  # the deadline is checked after each batch
# For the best candidates, the previous message is read as well.
_MESSAGES_WITH_CONTEXT = 16
_CONVERSATIONS_WITH_CONTEXT = 64


class CandidatePool(Arms):
    """The candidates of one search."""

    is_exhausted = True
    """Whether the arms have no candidates beyond the pool."""
    has_more_matches = True
    """Whether the text arm may have candidates beyond the pool."""
    _pool_keys: frozenset[int] = frozenset()
    _all_matches: list[int] | None = None
    """What the text arm has found, if that is all."""
    candidate_read = CandidateRead()
    """The candidates that `find` has found."""
    _text_keys: Sequence[int] = ()
    """The matches that `find_matches` has found."""
    _new_text_keys: AbstractSet[int] = frozenset()
    _neighbours: dict[int, float]

    @property
    def store(self) -> Store:
        return self._store

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
        """If the text arm finds this many, there may be more than are ranked."""
        if self._has_shortlist:
            return _ALWAYS_RANKED + 1
        return min(self._arm_size, self._ranked_size + 1)

    def all_matches(self, count: int) -> list[int]:
        """The keys of all matches, of which there are `count`."""
        if self._all_matches is not None:
            return self._all_matches
        return self.text_matches(count)

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
        statement_plan = self._statement_plan()
        if statement_plan is not None:
            plans.append(statement_plan._replace(after_matches=self._many_matches))
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
            if self.has_more_matches:
                text_keys += self._matches_in(period)
            neighbours += self._nearest_in(period, neighbours, bool(text_keys))
        if self.has_more_matches:
            text_keys += self._matching_statements()
        self._neighbours = dict(neighbours)
        self._new_text_keys = set(text_keys) - self._pool_keys
        new_keys = self._new_text_keys | ({key for key, _ in neighbours} - self._pool_keys)
        self._pool_keys |= new_keys
        self.candidate_read = CandidateRead(tuple(new_keys), self._filter)

    def _ranked(
        self, text_keys: list[int], neighbours: list[tuple[int, float]]
    ) -> tuple[list[int], list[tuple[int, float]]]:
        """The candidates of both arms that are read and ranked."""
        if not self._has_shortlist:
            return text_keys[: self._ranked_size], neighbours[: self._ranked_size]
        from recollect.search.shortlist import shortlist  # imports numpy

        is_large = self._is_large_library()
        size = _SHORTLIST
        if self._options.group == "conversation":
            size = _SHORTLIST_FOR_CONVERSATIONS
        elif not is_large:
            size = _SHORTLIST_IN_SMALL_LIBRARY
        arms = [text_keys, [key for key, _ in neighbours]]
        keys = shortlist(arms, size, _ALWAYS_RANKED, is_large_library=is_large)
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
        """The messages before the best candidates, if they are not candidates themselves."""
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
