"""The pool of a search: the candidates of both arms that are read and ranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice, zip_longest

from recollect.errors import SearchTimeout
from recollect.language.queries.intent import QUESTION
from recollect.language.text import comparable
from recollect.search.candidates.arms import (
    Neighbour,
    Neighbours,
    TextArm,
    VectorArm,
    named_authors,
    named_periods,
)
from recollect.search.candidates.candidate_reader import CandidateReader
from recollect.search.candidates.deadline import NOTHING_IN_TIME
from recollect.search.candidates.scope import Scope
from recollect.search.candidates.sizes import ALWAYS_RANKED, Sizes
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.settings import LIMITS
from recollect.store.values import Candidate, SearchPlan

NEAREST = 3
"""The most messages that are shown if there are no hits."""
_CANDIDATES_AT_ONCE = 100
# The most matches that are read to count conversations. If there are more, the count is a minimum.
_COUNTED_MATCHES = 1_000


class CandidatePool:
    """The candidates for one query in one scope. `read_pools` fills it."""

    def __init__(
        self,
        interpretation: Interpretation,
        scope: Scope,
        max_arm_size: int | None = None,
        excluded_keys: AbstractSet[int] = frozenset(),
    ) -> None:
        """`max_arm_size`: the most candidates of each arm, if fewer than usual.

        Messages with `excluded_keys` are not read.
        """
        self.scope = scope
        self.text_arm = TextArm(interpretation, scope)
        self.is_exhausted = True
        """Whether the arms have no candidates beyond the pool."""
        self.has_more_matches = True
        """Whether the text arm may have candidates beyond the pool."""
        self._new_keys: AbstractSet[int] = frozenset()
        """The candidates that `find` has found."""
        self._interpretation = interpretation
        self._vector_arm = VectorArm(interpretation, scope)
        self.reader = CandidateReader(interpretation, scope, self._vector_arm)
        self._sizes = Sizes(interpretation, scope.store, max_arm_size)
        self.keys = frozenset(excluded_keys)
        """The keys of the candidates so far, and the excluded keys."""
        self._all_matches: list[int] | None = None
        """All matches of the text arm, if it has found all of them."""
        self._matches: Sequence[int] = ()
        """What `find_matches` has found."""
        self._new_matches: AbstractSet[int] = frozenset()
        self._neighbours = Neighbours([])
        self._cosines: dict[int, float] = {}
        self._conversation_count: tuple[int, bool] | None = None

    # -- finding candidates ---

    def plans(self) -> list[SearchPlan]:
        """The calls of `match` and `nearest` that are likely to follow."""
        interpretation = self._interpretation
        nodes = tuple(self.text_arm.nodes())
        plan = SearchPlan(nodes, self.scope.filter, self._sizes.arm)
        if interpretation.is_by_meaning and not self._vector_arm.is_for_concept:
            meaning = interpretation.meaning
            plan = plan._replace(space=meaning.space, vector=meaning.vector)
        period_plan = plan._replace(
            nodes=nodes[-1:], limit=self._sizes.period_arm, after_matches=self._sizes.many_matches
        )
        periods = named_periods(interpretation, self.scope.filter)
        plans = [plan, *(period_plan._replace(filter=period) for period in periods)]
        statement_plan = self.text_arm.statement_plan()
        if statement_plan is not None:
            plans.append(statement_plan._replace(after_matches=self._sizes.many_matches))
        return plans

    def find_matches(self) -> bool:
        """Find the candidates of the text arm. Returns whether there are any."""
        self._matches = self.text_arm.matches(self._sizes.arm)
        return bool(self._matches)

    def find(self, has_hits: bool) -> None:
        """Find the candidates of both arms, by their keys. Only after `find_matches`.

        `has_hits`: `find_matches` has found some, in this pool or in another of the same ranking.
        """
        all_matches = list(self._matches)
        has_word = bool(all_matches)
        self._neighbours = self._vector_arm.nearest(
            self._sizes.arm, has_word=has_word, has_hits=has_hits
        )
        all_neighbours = self._neighbours.hits
        if len(all_matches) < self._sizes.arm and not self.scope.store.deadline.stopped_steps:
            self._all_matches = all_matches
        matches, neighbours = self._ranked(all_matches, all_neighbours, self._by_authors())
        self.has_more_matches = self._has_more(all_matches, matches)
        has_more_neighbours = self._has_more(all_neighbours, neighbours)
        self.is_exhausted = not self.has_more_matches and not has_more_neighbours
        for period in named_periods(self._interpretation, self.scope.filter):
            if self.has_more_matches:
                matches += self.text_arm.matches_in(period, self._sizes.period_arm)
            neighbours += self._vector_arm.nearest_in(
                period, self._sizes.period_arm, neighbours, has_word=bool(matches)
            )
        if self.has_more_matches:
            matches += self.text_arm.statements()
        self._cosines = dict(neighbours)
        self._new_matches = set(matches) - self.keys
        new_keys = self._new_matches | ({key for key, _ in neighbours} - self.keys)
        self.keys |= new_keys
        self._new_keys = new_keys

    def _by_authors(self) -> list[int]:
        """Matches by authors that the query names, if the text arm has not found all matches.

        Only in a large library, and after `find_matches`.
        """
        if len(self._matches) < self._sizes.arm or not self._sizes.is_large_library:
            return []
        filter = named_authors(self._interpretation, self.scope)
        if filter is None:
            return []
        return self.text_arm.matches_in(filter, self._sizes.ranked)

    def _has_more(self, candidates: Sequence[object], ranked: Sequence[object]) -> bool:
        """Whether an arm has, or may have, candidates that are not ranked."""
        return len(candidates) >= self._sizes.arm or len(ranked) < len(candidates)

    def _ranked(
        self, matches: list[int], neighbours: list[Neighbour], by_authors: list[int]
    ) -> tuple[list[int], list[Neighbour]]:
        """The candidates of both arms that are read and ranked."""
        sizes = self._sizes
        if not sizes.has_shortlist:
            matches = list(dict.fromkeys([*matches[: sizes.ranked], *by_authors]))
            return matches, neighbours[: sizes.ranked]
        from recollect.search.candidates.shortlist import shortlist  # imports numpy

        keys = shortlist(
            [matches, [key for key, _ in neighbours], by_authors],
            sizes.shortlist,
            ALWAYS_RANKED,
            is_large_library=sizes.is_large_library,
        )
        return (
            [key for key in dict.fromkeys([*matches, *by_authors]) if key in keys],
            [(key, cosine) for key, cosine in neighbours if key in keys],
        )

    # -- reading candidates ---

    def read(self) -> list[ScoredCandidate]:
        """The new candidates that both arms have found, without their terms and cosines."""
        return [
            ScoredCandidate(
                candidate, candidate.key in self._new_matches, candidate.key in self._cosines
            )
            for candidate in self.candidates(list(self._new_keys))
        ]

    def set_cosines(self, candidates: Sequence[ScoredCandidate]) -> None:
        self.reader.set_cosines(candidates, self._cosines)

    def candidates(self, keys: Sequence[int]) -> list[Candidate]:
        """The messages with these keys, in any order."""
        return self.scope.store.candidates(keys, self.scope.filter)

    # -- what was found ---

    def count(self) -> tuple[int, bool]:
        """How many messages the text arm finds, and whether that is exact or a minimum."""
        if self._all_matches is not None:
            return len(self._all_matches), True
        return self.text_arm.count()

    def count_conversations(self, ranked: Iterable[str]) -> tuple[int, bool]:
        """How many conversations have hits, and whether that is exact or a minimum.

        `ranked` are those in the ranking. They are counted once, so all pages have the same number.
        """
        if self._conversation_count is None:
            self._conversation_count = self._count_conversations(set(ranked))
        return self._conversation_count

    def _count_conversations(self, documents: set[str]) -> tuple[int, bool]:
        interpretation, options = self._interpretation, self._interpretation.options
        is_exact = self.is_exhausted
        # Counting takes up to half as long as the search. Agents and people who are typing rarely
        # go past the ranked conversations, so a minimum is enough. It is also enough for a
        # question, because answers in other words cannot be counted anyway.
        is_question = interpretation.is_by_meaning and interpretation.intent == QUESTION
        is_quick = options.typing or options.observations or is_question or self.scope.is_partial
        if self.has_more_matches and interpretation.node is not None and not is_quick:
            keys = self.text_arm.matches(_COUNTED_MATCHES)
            unranked = [key for key in keys if key not in self.keys]
            documents.update([name for _, name, _ in self.scope.store.change_times(unranked)])
            is_exact = len(keys) < _COUNTED_MATCHES and not interpretation.is_by_meaning
        return len(documents), is_exact and not self.scope.is_partial

    def matches_beyond(self, start: int, count: int) -> list[Candidate]:
        """A page of the matches that were not ranked, in the order of the text engine."""
        limit = self._sizes.arm + len(self.keys) + start + count
        keys = [key for key in self.text_arm.matches(limit) if key not in self.keys]
        return self._in_order(keys[start : start + count])

    def all_matches_beyond(self) -> Iterator[Candidate]:
        """All matches that were not ranked. They are read as the caller iterates."""
        for keys in self._pages_beyond():
            yield from self._in_order(keys)

    def all_keys_beyond(self) -> Iterator[int]:
        """The keys of all matches that were not ranked."""
        return chain.from_iterable(self._pages_beyond())

    def _pages_beyond(self) -> Iterator[list[int]]:
        if self._interpretation.node is None or not self.has_more_matches:
            return
        keys_before = set(self.keys)
        limit = self._sizes.arm + len(keys_before)
        while True:
            matches = self.text_arm.matches(limit)
            keys = [key for key in matches if key not in keys_before]
            keys_before.update(keys)
            for start in range(0, len(keys), _CANDIDATES_AT_ONCE):
                yield keys[start : start + _CANDIDATES_AT_ONCE]
            if len(matches) < limit or limit > LIMITS.page_offset:
                return
            limit *= 4

    def _in_order(self, keys: Sequence[int]) -> list[Candidate]:
        candidates = {candidate.key: candidate for candidate in self.candidates(keys)}
        return [candidates[key] for key in keys if key in candidates]

    def nearest(self) -> list[tuple[Candidate, float]]:
        """Up to three candidates that are nearest in meaning but are not hits, and their cosines.

        They are from different conversations if the search is for conversations, and otherwise
        have different texts. Only if no neighbour is a hit.
        """
        cosines = dict(self._neighbours.distant)
        candidates = sorted(self.candidates(list(cosines)), key=lambda c: -cosines[c.key])
        distinct: dict[str, Candidate] = {}
        for candidate in candidates:
            name = comparable(candidate.content)
            if self._interpretation.options.group == "conversation":
                name = candidate.document
            distinct.setdefault(name, candidate)
        first = islice(distinct.values(), NEAREST)
        return [(candidate, round(cosines[candidate.key], 6)) for candidate in first]


# -- several pools at once ---


def read_pools(pools: Sequence[CandidatePool]) -> list[list[ScoredCandidate]]:
    """The candidates of several pools, and the messages before the best of them.

    A store on a server reads them together.
    """
    return add_context(pools, read_candidates(pools, in_one_ranking=True))


def read_candidates(
    pools: Sequence[CandidatePool], *, in_one_ranking: bool = False
) -> list[list[ScoredCandidate]]:
    """The candidates of several pools, without the messages before them.

    `in_one_ranking`: the pools are ranked together, so the matches of each count as hits for all.
    """
    store = pools[0].scope.store
    store.expect(*(plan for pool in pools for plan in pool.plans()))
    have_matches = [pool.find_matches() for pool in pools]
    for pool in pools:
        pool.find(in_one_ranking and any(have_matches))
    by_pool = [pool.read() for pool in pools]
    # Finding the terms of all candidates at once is faster. The pools take turns, so that none is
    # left out if time runs out.
    in_turn = [c for row in zip_longest(*by_pool) for c in row if c is not None]
    with_terms = pools[0].reader.with_terms(in_turn)
    by_pool = [[s for s in with_terms if s.candidate.key in pool.keys] for pool in pools]
    for pool, candidates in zip(pools, by_pool, strict=True):
        pool.set_cosines(candidates)
    return by_pool


def add_context(
    pools: Sequence[CandidatePool],
    candidates: Sequence[list[ScoredCandidate]],
) -> list[list[ScoredCandidate]]:
    """The candidates of each pool with the messages before the best of them."""
    return [own + pool.reader.context(own) for pool, own in zip(pools, candidates, strict=True)]


def require_candidates(candidates: Sequence[ScoredCandidate], scope: Scope) -> None:
    """Raise SearchTimeout if there was no time to find anything.

    It must not look as if there were nothing.
    """
    if not candidates and scope.store.deadline.stopped_steps:
        raise SearchTimeout(NOTHING_IN_TIME)
