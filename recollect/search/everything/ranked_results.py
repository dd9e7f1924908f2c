"""The results of a search over all kinds, best first.

Conversations are found message by message; other items are found as a whole, by their best passage.
Every kind contributes candidates of its own, so no kind crowds out another. All candidates are
ranked together, so their scores are comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain, islice, repeat, zip_longest
from math import inf
from typing import NamedTuple

from recollect.language.queries.query_tree import Word
from recollect.model.kinds import CONVERSATION
from recollect.search.candidates.pool import NEAREST, CandidatePool, read_pools, require_candidates
from recollect.search.everything.entries import Entry, identity
from recollect.search.everything.results import Results, distinct
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.search.rerank import rerank_if_useful
from recollect.search.results.ranking import Ranking
from recollect.search.results.remarks import Remarks
from recollect.search.results.snippet import first_match
from recollect.search.results.unknown_names import note_unknown_names
from recollect.search.results.variety import merge_copies, spread
from recollect.store.values import Candidate

_PLACES_AT_ONCE = 100
MOST_COUNTED = 20_000
"""The most matches that are counted exactly; beyond that, the number of results is estimated."""


class _Place(NamedTuple):
    """A match that was not ranked."""

    pool: CandidatePool
    key: int
    position: int
    """Its place among all matches that were not ranked."""


class RankedResults(Results):
    """The results of a query that has words, best first."""

    def __init__(
        self,
        interpretation: Interpretation,
        pools: Sequence[CandidatePool],
        remarks: Remarks,
        title_keys: AbstractSet[int],
        *,
        fold: bool = False,
    ) -> None:
        """`pools` has one pool for each kind.

        `title_keys` are the keys of first messages whose conversations were found by their titles.
        With `fold`, messages with the same text are returned once.
        """
        self.interpretation = interpretation
        self.pools = pools
        self._remarks = remarks
        self._title_keys = title_keys
        self._fold = fold
        self.title_node = interpretation.node
        if interpretation.node is not None:
            self.title_filters = [pool.scope.filter for pool in pools]

    @property
    def words(self) -> list[Word]:
        return self.interpretation.words

    @property
    def note(self) -> str:
        note = self._remarks.note(is_weak=self.is_weak)
        if self.ranking.candidates:
            return note
        filters = [pool.scope.filter for pool in self.pools]
        return note_unknown_names(note, self.pools[0].scope.store, *filters, subject="Nothing")

    @property
    def is_weak(self) -> bool:
        return self.ranking.assessment.is_weak

    @property
    def corrections(self) -> Mapping[str, str]:
        return self.interpretation.corrections

    @property
    def is_partial(self) -> bool:
        return any(pool.scope.is_partial for pool in self.pools)

    def nearest(self) -> list[Entry]:
        if self.ranking.candidates:
            return []
        entries = [
            Entry(candidate, cosine, arms=("vector",))
            for pool in self.pools
            for candidate, cosine in pool.nearest()
        ]
        entries.sort(key=lambda entry: -entry.score)
        by_identity = {entry.identity: entry for entry in reversed(entries)}
        return sorted(by_identity.values(), key=lambda entry: -entry.score)[:NEAREST]

    def all_entries(self) -> Iterator[Entry]:
        return chain(self._ranked_entries(), self._read(self._places_beyond_pools()))

    def _ranked_entries(self) -> Iterator[Entry]:
        """The results that were ranked, with scores that never rise.

        A message that comes later because its conversation has better ones keeps its place, so its
        score is at most that of the result before it.
        """
        lowest = inf
        for entry in distinct(map(self.ranked_entry, self.ranking.candidates)):
            lowest = min(lowest, entry.score)
            yield entry._replace(score=lowest)

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """Results that were not ranked are skipped without reading them."""
        ranked: set[tuple[str, str]] = set()
        for entry in self._ranked_entries():
            if len(ranked) == offset:
                return super().entries_from(offset)
            ranked.add(entry.identity)
        places = self._distinct(self._places_beyond_pools(), {name for name, _ in ranked})
        skipped = sum(1 for _ in islice(places, offset - len(ranked)))
        return len(ranked) + skipped, distinct(self._read(places))

    def entries_of(self, kind: str) -> Iterator[Entry]:
        """Of the results that were not ranked, only those of this kind are read."""
        ranked = (entry for entry in self._ranked_entries() if entry.candidate.kind == kind)
        places = self._places_beyond_pools(kind)
        return distinct(chain(ranked, self._read(places)))

    @cached_property
    def ranking(self) -> Ranking:
        candidates = list(chain.from_iterable(read_pools(self.pools)))
        require_candidates(candidates, self.pools[0].scope)
        from recollect.search.ranking import rank  # imports numpy

        ranking = rank(self.interpretation.ranking_query, candidates)
        return self.arrange(ranking)

    def arrange(self, ranking: list[ScoredCandidate]) -> Ranking:
        """The ranking as it is listed: copies merged, reranked, and with variety."""
        if self._fold:
            ranking = merge_copies(ranking)
        query, options = self.interpretation.ranking_query, self.interpretation.options
        before_reranking = spread(query, ranking)
        reranked = rerank_if_useful(options, query, ranking, self.pools[0].scope.store)
        return Ranking(
            self.interpretation,
            spread(query, reranked),
            before_reranking=before_reranking,
        )

    def ranked_entry(self, scored: ScoredCandidate) -> Entry:
        return Entry(
            scored.candidate,
            self.ranking.scale.score(scored.score),
            self._is_by_title(scored),
            scored.arms,
            scored.copies,
        )

    def unranked_entry(self, candidate: Candidate, position: int) -> Entry:
        """A result that was not ranked. Scores fall from the last score of the ranking."""
        size = len(self.ranking.candidates)
        score = self.ranking.last_score * size / (size + 1 + position)
        by_title = candidate.key in self._title_keys
        if candidate.kind == CONVERSATION and first_match(candidate.content, self.words) is None:
            by_title = by_title or first_match(candidate.title, self.words) is not None
        return Entry(candidate, round(score, 6), by_title)

    def _is_by_title(self, scored: ScoredCandidate) -> bool:
        """Whether a conversation was found by its title and not by this message."""
        candidate = scored.candidate
        if candidate.kind != CONVERSATION:
            return False
        if candidate.key in self._title_keys:
            return True
        if scored.terms or not scored.title_terms:
            return False
        # The vector of a first message includes the title. Other messages have their own vectors.
        return candidate.position == 0 or not scored.by_vector

    def _places_beyond_pools(self, kind: str | None = None) -> Iterator[_Place]:
        """Matches that were not ranked: those of all kinds in turn, each in its engine's order.

        With `kind`, only its matches are returned, but the others count for the positions.
        """
        pools = [pool for pool in self.pools if not pool.is_exhausted]
        end: int | None = None
        if kind is not None:
            sizes = [sum(1 for _ in p.all_keys_beyond()) for p in pools if kind in _kinds(p)]
            end = max(sizes, default=0)
        by_kind = [zip(repeat(pool), pool.all_keys_beyond(), strict=False) for pool in pools]
        in_turn = chain.from_iterable(islice(zip_longest(*by_kind), end))
        for position, match in enumerate(filter(None, in_turn)):
            pool, key = match
            if kind is None or kind in _kinds(pool):
                yield _Place(pool, key, position)

    def _distinct(self, places: Iterator[_Place], documents: set[str]) -> Iterator[_Place]:
        """The first match of each item that is not among `documents`, and all messages."""
        for some in _batches(places):
            document_of: dict[int, str] = {}
            for pool, of_pool in _by_pool(some):
                if _kinds(pool) != (CONVERSATION,):
                    times = pool.scope.store.change_times([place.key for place in of_pool])
                    document_of |= {key: document for key, document, _ in times}
            for place in some:
                document = document_of.get(place.key)
                if document is None:
                    yield place
                elif document not in documents:
                    documents.add(document)
                    yield place

    def _read(self, places: Iterator[_Place]) -> Iterator[Entry]:
        """The results in these places. They are read as the caller iterates."""
        for some in _batches(places):
            candidates: dict[int, Candidate] = {}
            for pool, of_pool in _by_pool(some):
                keys = [place.key for place in of_pool]
                candidates |= {candidate.key: candidate for candidate in pool.candidates(keys)}
            for place in some:
                if place.key in candidates:
                    entry = self.unranked_entry(candidates[place.key], place.position)
                    yield entry._replace(score=min(entry.score, self._lowest_score))

    @cached_property
    def _lowest_score(self) -> float:
        """The lowest score in the ranking."""
        return min((entry.score for entry in self._ranked_entries()), default=0.0)

    # -- totals ---

    def total(self) -> int:
        return sum(map(self._count, self.pools))

    def _count(self, pool: CandidatePool) -> int:
        """The number of results of one kind."""
        members = [
            scored for scored in self.ranking.candidates if scored.candidate.key in pool.keys
        ]
        ranked = {identity(scored.candidate, self._is_by_title(scored)) for scored in members}
        node = self.interpretation.node
        if pool.is_exhausted or node is None:
            return len(ranked)
        matches, _ = pool.count()
        by_item = _kinds(pool) != (CONVERSATION,)
        if matches > MOST_COUNTED:
            if by_item:  # Estimate from the share of items among the passages in the pool.
                matches = matches * len(ranked) // max(len(pool.keys), 1)
            return max(matches, len(ranked))
        unranked = pool.text_arm.timed_matches(node).without(pool.keys)
        if not by_item:
            return len(ranked) + len(unranked.keys)
        keys = unranked.one_of_each_document().keys.tolist()
        documents = {document for _, document, _ in pool.scope.store.change_times(keys)}
        return len(documents | {document for document, _ in ranked})


def _kinds(pool: CandidatePool) -> tuple[str, ...]:
    return pool.scope.filter.kinds


def _batches(places: Iterator[_Place]) -> Iterator[list[_Place]]:
    return iter(lambda: list(islice(places, _PLACES_AT_ONCE)), [])


def _by_pool(places: Sequence[_Place]) -> list[tuple[CandidatePool, list[_Place]]]:
    by_pool: dict[int, list[_Place]] = {}
    for place in places:
        by_pool.setdefault(id(place.pool), []).append(place)
    return [(of_pool[0].pool, of_pool) for of_pool in by_pool.values()]
