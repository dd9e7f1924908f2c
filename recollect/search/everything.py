"""One search over every kind of item, with a single ranking.

Conversations are found message by message; other items are found as a whole, by their best
passage. Every kind contributes candidates of its own, so no kind crowds out another. All candidates
are ranked together, so their scores are comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.matching import matches
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Word, all_words
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, SearchOptions
from recollect.search import rank
from recollect.search.arms import MATCHES_OF_QUESTION
from recollect.search.deadline import NOTE
from recollect.search.engine import NEAREST, Search
from recollect.search.evidence import UNRELATED, Assessment
from recollect.search.pool import read_pools
from recollect.search.queries.period_questions import read_query
from recollect.search.queries.query_filter import has_words, may_relax, narrow_filter
from recollect.search.queries.terms import term_plan
from recollect.search.ranking.scored import Question, Scale, ScoredCandidate
from recollect.search.rerank import may_rerank, rerank
from recollect.search.results.snippet import first_match
from recollect.search.results.variety import merge_copies, spread
from recollect.search.title_views import ExcludingView, TitleView
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, SearchPlan

ORDERS = ("relevance", "recent")
MATCH_IN = ("both", "title", "message")
"""Where the words of a query may be in a conversation."""
MOST_SORTED = 10_000
"""The most matches of one kind that are sorted by time."""
_ITEM_CANDIDATES = 40
MOST_COUNTED = 1_000
"""The most matches of which the items are counted; beyond that, their number is estimated."""


class Entry(NamedTuple):
    """One result: an item with its best passage, or a message."""

    candidate: Candidate
    score: float
    by_title: bool = False
    """A conversation that was found by its title, not by this message."""
    arms: tuple[str, ...] = ("text",)
    """How it was found: by words ("text"), by meaning ("vector"), or both."""
    copies: int = 0
    """Other messages with the same text, which this one represents."""

    @property
    def identity(self) -> tuple[str, str]:
        """The document and the message that this result is about; no message for whole items.

        Results with the same identity are duplicates.
        """
        candidate = self.candidate
        if candidate.kind == CONVERSATION and not self.by_title:
            return candidate.document, candidate.id
        return candidate.document, ""


@dataclass(frozen=True, slots=True)
class KindQuery:
    """What to search for in one kind of item."""

    filter: Filter
    match_in: str = "both"
    """One of MATCH_IN; only conversations distinguish them."""


class Results:
    """All results of a search, in order. They are computed only as far as they are read."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        text: str,
        queries: Sequence[KindQuery],
        options: SearchOptions,
        order: str = "relevance",
        fold: bool = False,
    ) -> None:
        """With `fold`, messages with the same text are returned once."""
        if order not in ORDERS:
            raise InvalidInput(f"order_by: {order!r} is not one of {', '.join(ORDERS)}.")
        query = read_query(text, store, options)
        store.expect_terms(term_plan(query, options, meaning, with_kinds=True))
        self._store = store
        self._options = options
        self._by_time = order == "recent"
        self._fold = fold
        self._queries = [replace(q, filter=narrow_filter(q.filter, query, store)) for q in queries]
        self._query = query
        self._title_keys: set[int] = set()
        """The keys of first messages whose conversations were found by their titles."""
        self._is_scan_incomplete = False
        """Whether a search for punctuation was stopped."""
        self._searches: list[Search] = []
        if has_words(query):
            self._searches = self._make_searches(meaning, query, options)
        elif options.mode == "vector":
            raise InvalidInput("A search by meaning needs words.")

    def _make_searches(
        self, meaning: Meaning, query: Query, options: SearchOptions
    ) -> list[Search]:
        """One search for each kind."""
        if may_relax(query) and not self._has_match(query):
            query = query._replace(plain=True)
        search = Search(self._store, meaning, query, Filter(), options)
        search.absence = "Nothing"
        search.search_only([kind for q in self._queries for kind in q.filter.kinds])
        return [
            search.with_filter(q.filter, self._store_for(q, search), _candidates(q))
            for q in self._queries
        ]

    def _has_match(self, query: Query) -> bool:
        assert query.node is not None
        plans = [SearchPlan((query.node,), q.filter, 1) for q in self._queries]
        self._store.expect(*plans)
        return any(self._store.match(query.node, plan.filter, 1) for plan in plans)

    def _store_for(self, query: KindQuery, search: Search) -> Store:
        """The part of the store in which the words may be."""
        if query.match_in == "both" or search.node is None:
            return self._store
        keys = self._store.title_matches(list(all_words(search.node)))
        openings = self._store.candidates(keys, query.filter)
        if query.match_in == "title":
            self._title_keys |= {candidate.key for candidate in openings}
            return TitleView(self._store, openings)
        by_title_only = {c.key for c in openings if not matches(search.node, "", c.content)}
        if not by_title_only:
            return self._store
        return ExcludingView(self._store, by_title_only)

    # -- results ---

    @property
    def words(self) -> list[Word]:
        """The words to highlight."""
        if self._searches:
            return self._searches[0].words
        text = self._query.rest.strip()
        if not text:
            return []
        return [Word(text)]

    @property
    def mode(self) -> str:
        """What was searched: "text", "vector" or "both"."""
        if not self._searches:
            return "text"
        return self._searches[0].empty_page().mode

    @property
    def note(self) -> str:
        """What the user should know, such as why vectors were not used."""
        if self._is_scan_incomplete:
            return NOTE
        if not self._searches:
            return self._query.note
        note = self._searches[0].empty_page().note
        if self.is_weak:
            note = f"{note} {UNRELATED}".strip()
        return note

    @property
    def is_weak(self) -> bool:
        """Whether the results are probably unrelated; see `search.evidence`."""
        return bool(self._searches) and self._assessment.is_weak

    @cached_property
    def _assessment(self) -> Assessment:
        return self._searches[0].assess(self._ranking)

    @cached_property
    def _scale(self) -> Scale:
        return self._searches[0].scale_of(self._ranking, self._assessment)

    @property
    def is_partial(self) -> bool:
        """Whether the search was stopped, so that there may be more and better results."""
        if self._is_scan_incomplete:
            return True
        return any(search.is_partial for search in self._searches)

    @property
    def missing(self) -> tuple[str, ...]:
        """The words of the query that no item contains."""
        if not self._searches:
            return ()
        return self._searches[0].missing_words

    @property
    def corrections(self) -> Mapping[str, str]:
        """Misspelled words of the query, and what was searched for instead."""
        if not self._searches:
            return {}
        return self._searches[0].corrections

    def nearest(self) -> list[Entry]:
        """If there are no results, up to three that are the closest in meaning."""
        if not self._searches or self._ranking:
            return []
        entries = [
            Entry(candidate, cosine, arms=("vector",))
            for search in self._searches
            for candidate, cosine in search.nearest()
        ]
        entries.sort(key=lambda entry: -entry.score)
        by_identity = {entry.identity: entry for entry in reversed(entries)}
        return sorted(by_identity.values(), key=lambda entry: -entry.score)[:NEAREST]

    def entries(self) -> Iterator[Entry]:
        """Every result once, in order."""
        identities: set[tuple[str, str]] = set()
        for entry in self._all_entries():
            if entry.identity not in identities:
                identities.add(entry.identity)
                yield entry

    def _all_entries(self) -> Iterator[Entry]:
        if not self._searches:
            return chain.from_iterable(map(self._entries_without_words, self._queries))
        if self._by_time:
            return self._entries_by_time()
        return chain(map(self._ranked_entry, self._ranking), self._entries_beyond_pool())

    @cached_property
    def _ranking(self) -> list[ScoredCandidate]:
        if not self._searches:
            return []
        pool = list(chain.from_iterable(read_pools(self._searches)))
        self._searches[0].require_candidates(pool)
        ranking = rank.rank(self._question, pool)
        if self._by_time:
            return ranking
        if self._fold:
            ranking = merge_copies(ranking)
        if may_rerank(self._options, self._question, ranking):
            self._store.release_snapshot()
            ranking = rerank(self._question, ranking)
        return spread(self._question, ranking)

    @property
    def _question(self) -> Question:
        return self._searches[0].question

    def _ranked_entry(self, scored: ScoredCandidate) -> Entry:
        return Entry(
            scored.candidate,
            self._scale.score(scored.score),
            self._is_by_title(scored),
            scored.arms,
            scored.copies,
        )

    def _unranked_entry(self, candidate: Candidate, position: int) -> Entry:
        """A result that was not ranked. Scores fall from the lowest score of the ranking."""
        lowest = 1.0
        if self._ranking:
            lowest = self._scale.score(self._ranking[-1].score)
        size = len(self._ranking)
        score = lowest * size / (size + 1 + position)
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

    def _entries_beyond_pool(self) -> Iterator[Entry]:
        """Matches that were not ranked: those of all kinds in turn, each in its engine's order."""
        by_kind = [search.beyond_pool() for search in self._searches if not search.is_exhausted]
        candidates = (c for row in zip_longest(*by_kind) for c in row if c is not None)
        for position, candidate in enumerate(candidates):
            yield self._unranked_entry(candidate, position)

    def _entries_without_words(self, query: KindQuery) -> Iterator[Entry]:
        """Punctuation is searched for literally. Fields alone give the newest."""
        text = self._query.rest.strip()
        if not text and not self._query.text.strip():
            return
        size = LIMITS.page_size
        for start in range(0, LIMITS.page_offset, size):
            if text:
                matches = self._store.find_substring(text, query.filter, size, start)
                candidates = matches.candidates
                if not matches.is_complete:
                    self._is_scan_incomplete = True
            else:
                candidates, _ = self._store.newest(query.filter, size, start)
            for position, candidate in enumerate(candidates, start):
                by_title = candidate.kind == CONVERSATION and self._is_about_titles
                yield Entry(candidate, round(1 / (1 + position / size), 6), by_title)
            if len(candidates) < size:
                return

    @property
    def _is_about_titles(self) -> bool:
        """Whether the query has `title:` fields and none that is about messages."""
        fields = self._query.fields
        about_messages = (
            fields.roles,
            fields.authors,
            fields.after,
            fields.before,
            fields.not_roles,
            fields.not_authors,
        )
        return bool(fields.titles) and not any(about_messages)

    # -- by time ---

    def _entries_by_time(self) -> Iterator[Entry]:
        """Last changed first; results without a date come last."""
        ranking = {scored.candidate.key: scored for scored in self._ranking}
        timeline = self._timeline()
        for start in range(0, len(timeline), LIMITS.page_size):
            page = timeline[start : start + LIMITS.page_size]
            candidates = self._read(page)
            for position, (key, _) in enumerate(page, start):
                if key not in candidates:
                    continue
                if key in ranking:
                    yield self._ranked_entry(ranking[key])._replace(candidate=candidates[key])
                else:
                    yield self._unranked_entry(candidates[key], position)

    def _timeline(self) -> list[tuple[int, Search]]:
        """The keys of all matches with their searches, last changed first."""
        times: list[tuple[bool, float, int, Search]] = []
        for search, keys in self._matches():
            for key, _, changed_at in self._store.change_times(keys):
                timestamp = 0.0
                if changed_at is not None:
                    timestamp = changed_at.timestamp()
                times.append((changed_at is None, -timestamp, -key, search))
        times.sort(key=lambda each: each[:3])
        return [(-negative_key, search) for _, _, negative_key, search in times]

    def _matches(self) -> list[tuple[Search, list[int]]]:
        """Items that contain all words; if there are none, items that contain any of them."""
        full = [(search, search.full_matches(MOST_SORTED)) for search in self._searches]
        if any(keys for _, keys in full):
            return full
        return [
            (search, search.text_matches(MOST_SORTED))
            for search in self._searches
            if search.node is not None
        ]

    def _read(self, page: Sequence[tuple[int, Search]]) -> dict[int, Candidate]:
        candidates: dict[int, Candidate] = {}
        for search in self._searches:
            keys = [key for key, own_search in page if own_search is search]
            candidates |= {candidate.key: candidate for candidate in search.candidates(keys)}
        return candidates

    # -- totals ---

    def total(self) -> tuple[int, bool]:
        """The number of results, and whether it is exact or an estimate."""
        if not self._searches or self._by_time:
            count = sum(1 for _ in islice(self.entries(), MOST_SORTED + 1))
            return min(count, MOST_SORTED), count <= MOST_SORTED
        total, is_exact = 0, True
        for query, search in zip(self._queries, self._searches, strict=True):
            count, is_count_exact = self._count(query, search)
            total += count
            is_exact = is_exact and is_count_exact and not search.is_partial
        return total, is_exact

    def _count(self, query: KindQuery, search: Search) -> tuple[int, bool]:
        """The number of results of one kind, and whether it is exact."""
        ranked = {
            self._ranked_entry(scored).identity
            for scored in self._ranking
            if search.is_in_pool(scored.candidate.key)
        }
        if search.is_exhausted or search.node is None:
            return len(ranked), search.is_exhausted
        matches, is_exact = search.count()
        is_exact = is_exact and self.mode == "text"
        if query.filter.kinds == (CONVERSATION,):
            copies = sum(s.copies for s in self._ranking if search.is_in_pool(s.candidate.key))
            return max(matches - copies, len(ranked)), is_exact
        if matches > MOST_COUNTED:
            # Estimate from the share of items among the passages in the pool.
            items_per_match = max(len(ranked), 1) / max(search.pool_size, 1)
            return max(len(ranked), int(matches * items_per_match)), False
        keys = search.all_matches(matches)
        documents = {document for _, document, _ in self._store.change_times(keys)}
        documents |= {document for document, _ in ranked}
        return len(documents), is_exact


def _candidates(query: KindQuery) -> int:
    """The candidates of each arm. Items are found by their best passage, so few are enough."""
    if query.filter.kinds == (CONVERSATION,):
        return MATCHES_OF_QUESTION
    return _ITEM_CANDIDATES
