"""One search over every kind of item, with a single list of results.

Conversations are found message by message; other items are found as a whole, by their best passage.
Every kind contributes candidates of its own, so no kind crowds out another: a million messages do
not hide three notes. All candidates are ranked together, so their scores are comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, zip_longest
from math import inf
from typing import Any, NamedTuple

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
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.queries.query_reading import read_query
from recollect.search.remarks import note_unknown_names
from recollect.search.snippets import first_match
from recollect.settings import LIMITS
from recollect.store.base import Passages, Store
from recollect.store.values import Candidate, Space, TimedMatches
from recollect.store.views import StoreView

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


def distinct(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Each result once."""
    identities = set()
    for entry in entries:
        if entry.identity not in identities:
            identities.add(entry.identity)
            yield entry


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
        return ResultsWithoutWords(store, query, [q.filter for q in queries])
    scope = Scope.begin(store, Filter())
    parts = [scope._replace(filter=kind_query.filter) for kind_query in queries]
    interpretation = interpret_query(query, scope.store, parts, meaning, options)
    node = interpretation.node
    pools = []
    title_keys: set[int] = set()
    for part, kind_query in zip(parts, queries, strict=True):
        excluded: set[int] = set()
        if kind_query.match_in != "both" and node is not None:
            keys = scope.store.title_matches(list(all_words(node)))
            openings = scope.store.candidates(keys, part.filter)
            if kind_query.match_in == "title":
                part = scope.with_part(TitleStore(scope.store, openings), part.filter)
                title_keys |= {opening.key for opening in openings}
            else:
                excluded = {
                    opening.key
                    for opening in openings
                    if matches(node, opening.indexed_title, opening.content)
                    and not matches(node, "", opening.content)
                }
        size = _ITEM_CANDIDATES if is_by_item(part.filter) else MATCHES_OF_QUESTION
        pools.append(CandidatePool(interpretation, part, size, excluded))
    by_time = order == "recent"
    search = Search(interpretation, pools, "Nothing", merges_copies=fold and not by_time)
    return RankedResults(search, title_keys, by_time=by_time)


def is_by_item(filter: Filter) -> bool:
    """Whether the results are items, and not messages."""
    return filter.kinds != (CONVERSATION,)


class TitleStore(StoreView):
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

    def candidates(
        self, passages: Passages, filter: Filter, previous: bool = False
    ) -> list[Candidate]:
        if previous:
            return []
        return [self._titles[key] for key in passages if key in self._titles]

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return []


class TimelinePart(NamedTuple):
    """All matches of one kind, or of several kinds with the same filter."""

    store: Store
    filter: Filter
    matches: TimedMatches
    total: int
    """The number of results. Several matches in one item may be one result."""

    @staticmethod
    def of(store: Store, filter: Filter, matches: TimedMatches) -> TimelinePart:
        if is_by_item(filter):
            matches = matches.one_of_each_document()
        return TimelinePart(store, filter, matches, len(matches.keys))


class Timeline:
    """Matches of all kinds, last changed first; those without a date come last."""

    def __init__(self, parts: Sequence[TimelinePart]) -> None:
        import numpy as np  # a server must start without it

        self._parts = parts
        self.total = sum(part.total for part in parts)
        keys = np.concatenate([part.matches.keys for part in parts])
        times = np.concatenate([part.matches.times for part in parts])
        numbers = np.repeat(np.arange(len(parts)), [len(part.matches.keys) for part in parts])
        order = np.lexsort((-keys, -times))
        self._columns = keys[order], numbers[order]
        self.size = len(keys)
        """The number of matches in the list."""

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


class Results:
    """All results of a search, in order. They are computed only as far as they are read."""

    words: Sequence[Word] = ()
    """The words to highlight."""
    corrections: Mapping[str, str] = {}
    """Misspelled words of the query, and what was searched for instead."""
    is_weak = False
    """Whether the results are probably unrelated; see `search.evidence`."""
    is_partial = False
    """Whether the search was stopped, so that there may be more and better results."""
    note = ""
    """What the user should know, such as why vectors were not used."""
    title_filters: Sequence[Filter] = ()
    """Where conversations without messages may be found by their titles."""
    title_node: Node | None = None
    """What these titles must match."""

    def total(self) -> int:
        """The number of results; if there are very many, an estimate."""
        raise NotImplementedError

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """The results from an offset on, each once, and how many come before them.

        That is less than the offset if there are not so many.
        """
        raise NotImplementedError

    def entries(self) -> Iterator[Entry]:
        """All results, each once."""
        return self.entries_from(0)[1]

    def nearest(self) -> list[Entry]:
        """If there are no results, up to three that are the closest in meaning."""
        return []


class RankedResults(Results):
    """The results of a query that has words, best first or last changed first."""

    def __init__(self, search: Search, title_keys: AbstractSet[int], *, by_time: bool) -> None:
        """`search` has one pool for each kind.

        `title_keys` are the keys of first messages whose conversations were found by their titles.
        """
        self.search = search
        self._title_keys = title_keys
        self._by_time = by_time
        interpretation, filters = search.interpretation, [p.scope.filter for p in search.pools]
        self.words = interpretation.words
        self.corrections = interpretation.corrections
        self.title_node = interpretation.node
        self.title_filters = [] if self.title_node is None else filters
        self.is_weak = search.ranking.assessment.is_weak
        self.note = " ".join(search.remarks(is_weak=self.is_weak))
        if not search.ranking.candidates:
            store = search.scope.store
            self.note = note_unknown_names(self.note, store, *filters, subject="Nothing")

    @property
    def is_partial(self) -> bool:  # type: ignore[override]
        return self.search.scope.is_partial

    def nearest(self) -> list[Entry]:
        if self.search.ranking.candidates:
            return []
        neighbours = [pair for pool in self.search.pools for pair in pool.nearest()]
        neighbours.sort(key=lambda pair: -pair[1])
        entries = (Entry(candidate, cosine, arms=("vector",)) for candidate, cosine in neighbours)
        return list(distinct(entries))[:NEAREST]

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        if self._by_time:  # earlier results are skipped without reading them
            start = min(offset, self._timeline.size)
            return start, distinct(self._entries_by_time(start))
        entries = distinct(chain(self._ranked_entries(), self._unranked_entries()))
        return sum(1 for _ in islice(entries, offset)), entries

    def _ranked_entries(self) -> Iterator[Entry]:
        """The results that were ranked, with scores that never rise.

        A message that comes later because its conversation has better ones keeps its place, so its
        score is at most that of the result before it.
        """
        lowest = inf
        for entry in map(self._ranked_entry, self.search.ranking.listed):
            lowest = min(lowest, entry.score)
            yield entry._replace(score=lowest)

    def _ranked_entry(self, scored: ScoredCandidate) -> Entry:
        candidate, by_title = scored.candidate, False
        if candidate.kind == CONVERSATION:  # found by its title, and not by this message?
            # The vector of a first message includes the title. Others have their own vectors.
            has_meaning = scored.by_vector and candidate.position > 0
            is_found = bool(scored.terms) or not scored.title_terms or has_meaning
            by_title = candidate.key in self._title_keys or not is_found
        score = self.search.ranking.score(scored.score)
        return Entry(candidate, score, by_title, scored.arms, scored.copies)

    def _unranked_entries(self) -> Iterator[Entry]:
        """Matches that were not ranked: those of all kinds in turn, each in its engine's order."""
        lowest = min((entry.score for entry in self._ranked_entries()), default=0.0)
        pools = [pool for pool in self.search.pools if not pool.is_exhausted]
        in_turn = chain.from_iterable(zip_longest(*(pool.matches_beyond() for pool in pools)))
        for position, candidate in enumerate(filter(None, in_turn)):
            entry = self._unranked_entry(candidate, position)
            yield entry._replace(score=min(entry.score, lowest))

    def _unranked_entry(self, candidate: Candidate, position: int) -> Entry:
        """A result that was not ranked. Scores fall from the last score of the ranking."""
        size = len(self.search.ranking.candidates)
        score = self.search.ranking.last_score * size / (size + 1 + position)
        by_title = candidate.key in self._title_keys
        if candidate.kind == CONVERSATION and first_match(candidate.content, self.words) is None:
            by_title = by_title or first_match(candidate.title, self.words) is not None
        return Entry(candidate, round(score, 6), by_title)

    def _entries_by_time(self, start: int) -> Iterator[Entry]:
        """The ranking gives the scores."""
        ranking: dict[str | int, ScoredCandidate] = {}
        for scored in self.search.ranking.candidates:
            ranking.setdefault(name(scored.candidate), scored)
        for position, candidate in self._timeline.candidates(start):
            ranked = ranking.get(name(candidate))
            if ranked is None:
                yield self._unranked_entry(candidate, position)
            else:
                yield self._ranked_entry(ranked)

    @cached_property
    def _timeline(self) -> Timeline:
        """Items that contain all words; if there are none, items that contain any of them; if
        there are none, what was found by meaning."""
        interpretation, pools = self.search.interpretation, self.search.pools
        nodes = [] if interpretation.node is None else [interpretation.node]
        if nodes and interpretation.is_plain:
            nodes.insert(0, interpretation.all_terms)
        for node in nodes:
            timeline = Timeline([TimelinePart.of(*p.scope, p.timed_matches(node)) for p in pools])
            if timeline.total:
                return timeline
        keys = [scored.candidate.key for scored in self.search.ranking.candidates]
        parts = []
        for pool in pools:
            times = pool.scope.store.change_times([key for key in keys if key in pool.keys])
            parts.append(TimelinePart.of(*pool.scope, TimedMatches.of(times)))
        return Timeline(parts)

    def total(self) -> int:
        if self._by_time:
            return self._timeline.total
        return sum(map(self._count, self.search.pools))

    def _count(self, pool: CandidatePool) -> int:
        """The number of results of one kind."""
        candidates, node = self.search.ranking.candidates, self.search.interpretation.node
        members = [scored for scored in candidates if scored.candidate.key in pool.keys]
        ranked = {self._ranked_entry(scored).identity for scored in members}
        if pool.is_exhausted or node is None:
            return len(ranked)
        count, _ = pool.count()
        if count > MOST_COUNTED:
            if is_by_item(pool.scope.filter):  # estimate from the share of items among passages
                count = count * len(ranked) // max(len(pool.keys), 1)
            return max(count, len(ranked))
        unranked = pool.timed_matches(node).without(pool.keys)
        if not is_by_item(pool.scope.filter):
            return len(ranked) + len(unranked.keys)
        keys = unranked.one_of_each_document().keys.tolist()
        documents = {document for _, document, _ in pool.scope.store.change_times(keys)}
        return len(documents | {document for document, _ in ranked})


def name(candidate: Candidate) -> str | int:
    """Messages are results of their own. Any other item is one, however many passages match."""
    return candidate.key if candidate.kind == CONVERSATION else candidate.document


class ResultsWithoutWords(Results):
    """Punctuation is searched for literally. Fields alone find everything. Last changed first."""

    def __init__(self, store: Store, query: Query, filters: Sequence[Filter]) -> None:
        text, fields = query.rest.strip(), query.fields
        about_messages = (fields.roles, fields.authors, fields.after, fields.before)
        about_other_messages = (fields.not_roles, fields.not_authors)
        is_about_messages = any((*about_messages, *about_other_messages))
        self._text = text
        self._by_title = bool(fields.titles) and not is_about_messages
        parts = []
        if text:
            self.words = [Word(text)]
            # A text is looked for in all kinds with the same filter at once.
            kinds: dict[Filter, list[str]] = {}
            for each in filters:
                kinds.setdefault(replace(each, kinds=()), []).extend(each.kinds)
            for each, of_filter in kinds.items():
                filter = replace(each, kinds=tuple(of_filter))
                found = store.newest(filter, LIMITS.page_offset, text=text)
                times = store.change_times([candidate.key for candidate in found.candidates])
                listed = {self._entry(c, 0).identity for c in found.candidates}
                total = len(listed) + found.total - len(found.candidates)
                self.is_partial = self.is_partial or not found.is_complete
                parts.append(TimelinePart(store, filter, TimedMatches.of(times), total))
        else:
            if self._by_title:
                self.title_filters = filters
            for each in filters:
                part = TimelinePart.of(store, each, store.match_times(None, each))
                if self._by_title:
                    one = part.matches.one_of_each_document()
                    part = part._replace(matches=one, total=len(one.keys))
                parts.append(part)
        self._timeline = Timeline(parts)
        self.note = AS_TYPED if text else query.note
        if self.is_partial:
            self.note = f"{self.note} {NOTE}"
        if not self._timeline.total:
            self.note = note_unknown_names(self.note, store, *filters, subject="Nothing")

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """Earlier results are skipped without reading them. Those of a text have been read."""
        start = 0 if self._text else min(offset, self._timeline.size)
        candidates = self._timeline.candidates(start)
        entries = distinct(self._entry(candidate, place) for place, candidate in candidates)
        return start + sum(1 for _ in islice(entries, offset - start)), entries

    def _entry(self, candidate: Candidate, place: int) -> Entry:
        by_title = candidate.kind == CONVERSATION and self._by_title
        return Entry(candidate, round(1 / (1 + place / LIMITS.page_size), 6), by_title)

    def total(self) -> int:
        return self._timeline.total
