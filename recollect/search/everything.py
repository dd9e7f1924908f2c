"""One search over every kind of item, with a single list of results.

Conversations are found message by message; other items are found as a whole, by their best passage.
Every kind contributes candidates of its own, so no kind crowds out another: a million messages do
not hide three notes. All candidates are ranked together, so their scores are comparable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, repeat, zip_longest
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Word, all_words, matches
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, SearchOptions
from recollect.search.candidates import MATCHES_OF_QUESTION, NEAREST, CandidatePool, Scope
from recollect.search.deadline import NOTE
from recollect.search.engine import AS_TYPED, Search, interpret_query
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.queries.query_reading import read_query
from recollect.search.remarks import note_unknown_names
from recollect.search.snippets import first_match
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, Space, TimedMatches
from recollect.store.views import StoreView

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ORDERS = ("relevance", "recent")
MATCH_IN = ("both", "title", "message")
"""Where the words of a query may be in a conversation."""
MOST_COUNTED = 20_000
"""The most matches that are counted exactly; beyond that, the number of results is estimated."""
_ITEM_CANDIDATES = 40
"""Of each arm. Items are found by their best passage, so few are enough."""
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class KindQuery:
    """What to search for in one kind of item."""

    filter: Filter
    match_in: str = "both"
    """One of MATCH_IN; only conversations distinguish them."""

    @property
    def is_for_conversations(self) -> bool:
        return self.filter.kinds == (CONVERSATION,)


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
        """The document and the message; no message for whole items. Duplicates have the same."""
        if self.candidate.kind == CONVERSATION and not self.by_title:
            return self.candidate.document, self.candidate.id
        return self.candidate.document, ""


def search_everything(
    store: Store,
    meaning: Meaning,
    text: str,
    queries: Sequence[KindQuery],
    options: SearchOptions,
    order: str = "relevance",
    *,
    fold: bool = False,
) -> Results:
    """The results of a search. With `fold`, messages with the same text are returned once."""
    if order not in ORDERS:
        raise InvalidInput(f"order_by: {order!r} is not one of {', '.join(ORDERS)}.")
    query = read_query(text, store, options, [q.filter for q in queries])
    queries = [replace(q, filter=narrow_filter(q.filter, query, store)) for q in queries]
    if not has_words(query):
        return ResultsWithoutWords(store, query, queries)
    scope = Scope.begin(store, Filter())
    parts = [scope._replace(filter=kind_query.filter) for kind_query in queries]
    interpretation = interpret_query(query, scope.store, parts, meaning, options)
    pools = []
    title_keys: set[int] = set()
    for kind_query in queries:
        view, keys = part_with_words(scope.store, kind_query, interpretation.node)
        title_keys |= keys
        part = scope.with_part(view, kind_query.filter)
        size = MATCHES_OF_QUESTION if kind_query.is_for_conversations else _ITEM_CANDIDATES
        pools.append(CandidatePool(interpretation, part, size))
    if order == "recent":
        search = Search(interpretation, pools, "Nothing", merges_copies=False)
        return ResultsByTime(search, title_keys)
    return RankedResults(Search(interpretation, pools, "Nothing", merges_copies=fold), title_keys)


class Results(ABC):
    """All results of a search, in order. They are computed only as far as they are read."""

    words: Sequence[Word] = ()
    """The words to highlight."""
    corrections: Mapping[str, str] = {}
    """Misspelled words of the query, and what was searched for instead."""
    is_weak = False
    """Whether the results are probably unrelated; see `search.evidence`."""
    title_filters: Sequence[Filter] = ()
    """Where conversations without messages may be found by their titles."""
    title_node: Node | None = None
    """What these titles must match."""

    @property
    @abstractmethod
    def note(self) -> str:
        """What the user should know, such as why vectors were not used."""

    @property
    @abstractmethod
    def is_partial(self) -> bool:
        """Whether the search was stopped, so that there may be more and better results."""

    @abstractmethod
    def total(self) -> int:
        """The number of results; if there are very many, an estimate."""

    @abstractmethod
    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """The results from an offset on, each once, and how many come before them.

        That is less than the offset if there are not so many.
        """

    def entries(self) -> Iterator[Entry]:
        """All results, each once."""
        return self.entries_from(0)[1]

    def nearest(self) -> list[Entry]:
        """If there are no results, up to three that are the closest in meaning."""
        return []


def distinct(
    entries: Iterable[Entry], identities: set[tuple[str, str]] | None = None
) -> Iterator[Entry]:
    """Each result once, without those that have one of these identities."""
    identities = set() if identities is None else identities
    for entry in entries:
        if entry.identity not in identities:
            identities.add(entry.identity)
            yield entry


# -- best first --------------------------------------------------------------------


class _Place(NamedTuple):
    """A match that was not ranked."""

    pool: CandidatePool
    key: int
    position: int
    """Its place among all matches that were not ranked."""


class RankedResults(Results):
    """The results of a query that has words, best first."""

    def __init__(self, search: Search, title_keys: AbstractSet[int]) -> None:
        """`search` has one pool for each kind.

        `title_keys` are the keys of first messages whose conversations were found by their titles.
        """
        self.search = search
        self.interpretation: Interpretation = search.interpretation
        self.pools = search.pools
        self._title_keys = title_keys
        self.words = self.interpretation.words
        self.corrections = self.interpretation.corrections
        self.title_node = self.interpretation.node
        if self.title_node is not None:
            self.title_filters = [pool.scope.filter for pool in self.pools]

    @property
    def is_weak(self) -> bool:  # type: ignore[override]
        return self.search.ranking.assessment.is_weak

    @property
    def note(self) -> str:
        note = " ".join(self.search.remarks.remarks(is_weak=self.is_weak))
        if self.search.ranking.candidates:
            return note
        filters = [pool.scope.filter for pool in self.pools]
        return note_unknown_names(note, self.search.scope.store, *filters, subject="Nothing")

    @property
    def is_partial(self) -> bool:
        return self.search.scope.is_partial

    def nearest(self) -> list[Entry]:
        if self.search.ranking.candidates:
            return []
        neighbours = [pair for pool in self.pools for pair in pool.nearest()]
        neighbours.sort(key=lambda pair: -pair[1])
        entries = (Entry(candidate, cosine, arms=("vector",)) for candidate, cosine in neighbours)
        return list(distinct(entries))[:NEAREST]

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        ranked = self._ranked_entries
        identities = {entry.identity for entry in ranked}
        places = self._unranked_places({document for document, _ in identities})
        # Results that were not ranked are skipped without reading them.
        skipped = sum(1 for _ in islice(places, max(offset - len(ranked), 0)))
        unranked = distinct(self._read(places), identities)
        return min(offset, len(ranked)) + skipped, chain(ranked[offset:], unranked)

    @cached_property
    def _ranked_entries(self) -> list[Entry]:
        """The results that were ranked, with scores that never rise.

        A message that comes later because its conversation has better ones keeps its place, so its
        score is at most that of the result before it.
        """
        entries = []
        lowest = inf
        for entry in distinct(map(self.ranked_entry, self.search.ranking.listed)):
            lowest = min(lowest, entry.score)
            entries.append(entry._replace(score=lowest))
        return entries

    def ranked_entry(self, scored: ScoredCandidate) -> Entry:
        score = self.search.ranking.scale.score(scored.score)
        by_title = self._is_by_title(scored)
        return Entry(scored.candidate, score, by_title, scored.arms, scored.copies)

    def unranked_entry(self, candidate: Candidate, position: int) -> Entry:
        """A result that was not ranked. Scores fall from the last score of the ranking."""
        size = len(self.search.ranking.candidates)
        score = self.search.ranking.last_score * size / (size + 1 + position)
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

    def _unranked_places(self, documents: set[str]) -> Iterator[_Place]:
        """Matches that were not ranked: those of all kinds in turn, each in its engine's order.

        Of each item that is not among `documents`, only the first one; of messages, all.
        """
        pools = [pool for pool in self.pools if not pool.is_exhausted]
        by_kind = [zip(repeat(pool), pool.all_keys_beyond(), strict=False) for pool in pools]
        in_turn = enumerate(filter(None, chain.from_iterable(zip_longest(*by_kind))))
        places = (_Place(pool, key, position) for position, (pool, key) in in_turn)
        while some := list(islice(places, _AT_ONCE)):
            document_of: dict[int, str] = {}
            for pool, keys in _by_pool(some):
                if is_by_item(pool):
                    times = pool.scope.store.change_times(keys)
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
        lowest = self._ranked_entries[-1].score if self._ranked_entries else 0.0
        while some := list(islice(places, _AT_ONCE)):
            candidates: dict[int, Candidate] = {}
            for pool, keys in _by_pool(some):
                candidates |= {candidate.key: candidate for candidate in pool.candidates(keys)}
            for place in some:
                if place.key in candidates:
                    entry = self.unranked_entry(candidates[place.key], place.position)
                    yield entry._replace(score=min(entry.score, lowest))

    def total(self) -> int:
        return sum(map(self._count, self.pools))

    def _count(self, pool: CandidatePool) -> int:
        """The number of results of one kind."""
        candidates = self.search.ranking.candidates
        members = [scored for scored in candidates if scored.candidate.key in pool.keys]
        ranked = {self.ranked_entry(scored).identity for scored in members}
        node = self.interpretation.node
        if pool.is_exhausted or node is None:
            return len(ranked)
        count, _ = pool.count()
        if count > MOST_COUNTED:
            if is_by_item(pool):  # Estimate from the share of items among the passages.
                count = count * len(ranked) // max(len(pool.keys), 1)
            return max(count, len(ranked))
        unranked = pool.timed_matches(node).without(pool.keys)
        if not is_by_item(pool):
            return len(ranked) + len(unranked.keys)
        keys = unranked.one_of_each_document().keys.tolist()
        documents = {document for _, document, _ in pool.scope.store.change_times(keys)}
        return len(documents | {document for document, _ in ranked})


def is_by_item(pool: CandidatePool) -> bool:
    """Whether the results are items, and not messages."""
    return pool.scope.filter.kinds != (CONVERSATION,)


def _by_pool(places: Sequence[_Place]) -> list[tuple[CandidatePool, list[int]]]:
    by_pool: dict[int, tuple[CandidatePool, list[int]]] = {}
    for pool, key, _ in places:
        by_pool.setdefault(id(pool), (pool, []))[1].append(key)
    return list(by_pool.values())


# -- last changed first --------------------------------------------------------------


class _TimelinePart(NamedTuple):
    """All matches of one kind, or of several kinds with the same filter."""

    store: Store
    filter: Filter
    matches: TimedMatches
    total: int
    """The number of results. Several matches in one item may be one result."""
    is_partial: bool = False
    """Whether there was no time to find all of them."""


class _Timeline:
    """Matches of all kinds, last changed first; those without a date come last."""

    def __init__(self, parts: Sequence[_TimelinePart]) -> None:
        self._parts = parts
        self.total = sum(part.total for part in parts)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys of all matches in order, and their parts."""
        import numpy as np  # a server must start without it

        keys = np.concatenate([part.matches.keys for part in self._parts])
        times = np.concatenate([part.matches.times for part in self._parts])
        sizes = [len(part.matches.keys) for part in self._parts]
        order = np.lexsort((-keys, -times))
        return keys[order], np.repeat(np.arange(len(sizes)), sizes)[order]

    @property
    def size(self) -> int:
        """The number of matches in the list."""
        return len(self._columns[0])

    def candidates(self, start: int = 0) -> Iterator[tuple[int, Candidate]]:
        """The matches from a place on, each with its place. They are read as the caller asks."""
        for first in range(start, self.size, _AT_ONCE):
            keys, numbers = (column[first : first + _AT_ONCE].tolist() for column in self._columns)
            candidates: dict[int, Candidate] = {}
            for number, part in enumerate(self._parts):
                of_part = [key for key, each in zip(keys, numbers, strict=True) if each == number]
                candidates |= {c.key: c for c in part.store.candidates(of_part, part.filter)}
            for place, key in enumerate(keys, first):
                if key in candidates:
                    yield place, candidates[key]


class ResultsByTime(RankedResults):
    """Last changed first; results without a date come last. The ranking gives the scores."""

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """Earlier results are skipped without reading them."""
        start = min(offset, self._timeline.size)
        return start, distinct(self._entries(self._timeline.candidates(start)))

    def _entries(self, candidates: Iterator[tuple[int, Candidate]]) -> Iterator[Entry]:
        ranking: dict[str | int, ScoredCandidate] = {}
        for scored in self.search.ranking.candidates:
            ranking.setdefault(name(scored.candidate), scored)
        while some := list(islice(candidates, _AT_ONCE)):
            unranked = [c for _, c in some if name(c) not in ranking]
            best = {name(c): c for pool in self.pools for c in self._best_passages(pool, unranked)}
            for position, candidate in some:
                ranked = ranking.get(name(candidate))
                if ranked is None:
                    yield self.unranked_entry(best.get(name(candidate), candidate), position)
                else:
                    yield self.ranked_entry(ranked)

    def _best_passages(
        self, pool: CandidatePool, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """The best match in each of the items in the pool."""
        kinds = pool.scope.filter.kinds if is_by_item(pool) else ()
        documents = {candidate.document for candidate in candidates if candidate.kind in kinds}
        if not documents:
            return []
        items = CandidatePool(self.interpretation, pool.scope.restricted_to(documents))
        keys = items.matches(LIMITS.page_offset)
        times = pool.scope.store.change_times(keys)
        document_of = {key: document for key, document, _ in times}
        best_keys = {document_of[key]: key for key in reversed(keys)}
        return pool.candidates(list(best_keys.values()))

    def total(self) -> int:
        return self._timeline.total

    @cached_property
    def _timeline(self) -> _Timeline:
        """Items that contain all words; if there are none, items that contain any of them; if
        there are none, what was found by meaning."""
        interpretation = self.interpretation
        nodes = [] if interpretation.node is None else [interpretation.node]
        if nodes and interpretation.is_plain:
            nodes.insert(0, interpretation.all_terms)
        for node in nodes:
            parts = [timeline_part(pool, pool.timed_matches(node)) for pool in self.pools]
            if any(part.total for part in parts):
                return _Timeline(parts)
        return _Timeline([timeline_part(pool, self._ranked_matches(pool)) for pool in self.pools])

    def _ranked_matches(self, pool: CandidatePool) -> TimedMatches:
        keys = [scored.candidate.key for scored in self.search.ranking.candidates]
        own_keys = [key for key in keys if key in pool.keys]
        return TimedMatches.of(pool.scope.store.change_times(own_keys))


def timeline_part(pool: CandidatePool, matches: TimedMatches) -> _TimelinePart:
    if is_by_item(pool):
        matches = matches.one_of_each_document()
    return _TimelinePart(*pool.scope, matches, len(matches.keys))


def name(candidate: Candidate) -> str | int:
    """Messages are results of their own. Any other item is one, however many passages match."""
    return candidate.key if candidate.kind == CONVERSATION else candidate.document


class ResultsWithoutWords(Results):
    """Punctuation is searched for literally. Fields alone find everything. Last changed first."""

    def __init__(self, store: Store, query: Query, queries: Sequence[KindQuery]) -> None:
        self._store = store
        self._query = query
        self._queries = queries
        self._text = query.rest.strip()
        fields = query.fields
        about_messages = (fields.roles, fields.authors, fields.after, fields.before)
        about_other_messages = (fields.not_roles, fields.not_authors)
        self._is_about_titles = bool(fields.titles) and not any(
            (*about_messages, *about_other_messages)
        )
        if self._text:
            self.words = [Word(self._text)]
        elif self._is_about_titles:
            self.title_filters = [query.filter for query in queries]

    @property
    def note(self) -> str:
        note = AS_TYPED if self._text else self._query.note
        if self.is_partial:
            note = f"{note} {NOTE}"
        if self._timeline.total:
            return note
        filters = [query.filter for query in self._queries]
        return note_unknown_names(note, self._store, *filters, subject="Nothing")

    @property
    def is_partial(self) -> bool:
        return any(part.is_partial for part in self._parts)

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """Earlier results are skipped without reading them. Those of a text have been read."""
        start = 0 if self._text else min(offset, self._timeline.size)
        entries = distinct(self._entries(start))
        return start + sum(1 for _ in islice(entries, offset - start)), entries

    def _entries(self, start: int) -> Iterator[Entry]:
        for position, candidate in self._timeline.candidates(start):
            score = round(1 / (1 + position / LIMITS.page_size), 6)
            yield Entry(candidate, score, self._by_title(candidate))

    def _by_title(self, candidate: Candidate) -> bool:
        return candidate.kind == CONVERSATION and self._is_about_titles

    def total(self) -> int:
        return self._timeline.total

    @cached_property
    def _timeline(self) -> _Timeline:
        return _Timeline(self._parts)

    @cached_property
    def _parts(self) -> list[_TimelinePart]:
        if not self._text:
            return [self._everything_in(query) for query in self._queries]
        # A text is looked for in all kinds with the same filter at once.
        kinds: dict[Filter, list[str]] = {}
        for query in self._queries:
            any_kind = replace(query.filter, kinds=())
            kinds.setdefault(any_kind, []).extend(query.filter.kinds)
        return [self._literal_matches(replace(each, kinds=tuple(kinds[each]))) for each in kinds]

    def _everything_in(self, query: KindQuery) -> _TimelinePart:
        matches = self._store.match_times(None, query.filter)
        if not query.is_for_conversations or self._is_about_titles:
            matches = matches.one_of_each_document()
        return _TimelinePart(self._store, query.filter, matches, len(matches.keys))

    def _literal_matches(self, filter: Filter) -> _TimelinePart:
        found = self._store.find_substring(self._text, filter, LIMITS.page_offset, 0)
        keys = [candidate.key for candidate in found.candidates]
        matches = TimedMatches.of(self._store.change_times(keys))
        listed = {Entry(c, 0.0, self._by_title(c)).identity for c in found.candidates}
        total = len(listed) + found.total - len(found.candidates)
        is_partial = not found.is_complete
        return _TimelinePart(self._store, filter, matches, total, is_partial)


# -- only in titles, or only in messages -----------------------------------------------


def part_with_words(
    store: Store, query: KindQuery, node: Node | None
) -> tuple[Store, AbstractSet[int]]:
    """The part of a store in which the words of a query may be.

    Also the keys of first messages whose conversations are found by their titles.
    """
    if query.match_in == "both" or node is None:
        return store, frozenset()
    keys = store.title_matches(list(all_words(node)))
    openings = store.candidates(keys, query.filter)
    if query.match_in == "title":
        return _TitleView(store, openings), {candidate.key for candidate in openings}
    by_title_only = {
        candidate.key
        for candidate in openings
        if matches(node, candidate.indexed_title, candidate.content)
        and not matches(node, "", candidate.content)
    }
    if not by_title_only:
        return store, frozenset()
    return _ExcludingView(store, by_title_only), frozenset()


class _ExcludingView(StoreView):
    """A store without some passages, all of which match the query.

    What is said about words that occur nowhere is about the whole store (`has_match`).
    """

    def __init__(self, store: Store, excluded_keys: AbstractSet[int]) -> None:
        super().__init__(store)
        self._excluded_keys = excluded_keys

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        keys = self._store.match(node, filter, limit + len(self._excluded_keys))
        return [key for key in keys if key not in self._excluded_keys][:limit]

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        count, is_exact = self._store.count(node, filter)
        return max(0, count - len(self._excluded_keys)), is_exact

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        return self._store.match_times(node, filter).without(self._excluded_keys)

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        neighbours = self._store.nearest(space, vector, filter, limit + len(self._excluded_keys))
        included = [(k, cosine) for k, cosine in neighbours if k not in self._excluded_keys]
        return included[:limit]


class _TitleView(StoreView):
    """A store in which conversations have a title and no messages."""

    def __init__(self, store: Store, openings: Iterable[Candidate]) -> None:
        super().__init__(store)
        self._titles = {c.key: c._replace(content=c.title) for c in openings}

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        keys = [key for key, c in self._titles.items() if matches(node, "", c.title)]
        return sorted(keys, reverse=True)[:limit]

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return len(self.match(node, filter, len(self._titles))), True

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        keys = list(self._titles)
        if node is not None:
            keys = self.match(node, filter, len(keys))
        return TimedMatches.of(self._store.change_times(keys))

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return [self._titles[key] for key in keys if key in self._titles]

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return []

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return {}

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return []
