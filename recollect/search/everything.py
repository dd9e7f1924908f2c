"""One search over every kind of document: each kind gives its candidates, and one ranker judges them all together.

Of a conversation each message is found by itself; of everything else the
document is found, by its best passage. So that no kind crowds another out,
each is asked for as many candidates as a search of it alone would be; so that
their scores can be compared, they are ranked in one go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.index.meaning import Meaning
from recollect.language.query import (
    Node,
    Query,
    Word,
    all_words,
    parse_query,
    words,
)
from recollect.language.text import has_token
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, SearchOptions
from recollect.search import rank
from recollect.search.engine import Search, narrowed, only_signs, scaled
from recollect.search.rank import Found, Ranked
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.sql.matching import matches
from recollect.store.values import Candidate, Space
from recollect.store.views.base import StoreView

ORDERS = ("relevance", "recent")
PLACES = ("both", "title", "message")
"""Where the words of a conversation may be found."""
COUNTED = 10_000
"""Matches that are put in order of time."""
COUNTED_ONE_BY_ONE = 1_000
"""Matches of which the documents are counted; of more, their number is estimated."""


class Entry(NamedTuple):
    """One result: a document and its best passage, or a message."""

    candidate: Candidate
    score: float
    titled: bool = False
    """Of a conversation: it was found by its title, not by this message."""

    @property
    def item(self) -> tuple[str, str]:
        """What it stands for: results that stand for the same are one."""
        c = self.candidate
        return c.document, c.id if c.kind == CONVERSATION and not self.titled else ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for in one kind of document."""

    filter: Filter
    by: str = "both"


class Results:
    """Everything that a search finds, in order; only as much of it is worked out as is looked at."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        text: str,
        asked: Sequence[Asked],
        mode: str,
        order: str,
        now: datetime,
    ) -> None:
        if order not in ORDERS:
            raise InvalidInput(f"order_by: {order!r} is not one of {', '.join(ORDERS)}.")
        query = parse_query(text)
        self._store = store
        self._recent = order == "recent"
        self._asked = [replace(a, filter=narrowed(a.filter, query)) for a in asked]
        self._query = query
        self._by_title: set[int] = set()
        self._searches: list[Search] = []
        if query.node is not None and any(has_token(w.text) for w in words(query.node)):
            self._searches = self._begun(meaning, query, SearchOptions(mode, now=now))
        elif mode == "vector":
            raise InvalidInput("A search by meaning needs words.")

    def _begun(self, meaning: Meaning, query: Query, wish: SearchOptions) -> list[Search]:
        assert query.node is not None
        if only_signs(query) and not any(
            self._store.match(query.node, a.filter, 1) for a in self._asked
        ):
            query = replace(query, plain=True)  # nothing has it all
        first = Search(self._store, meaning, query, Filter(), wish)
        return [first.through(a.filter, self._part(a, first)) for a in self._asked]

    def _part(self, asked: Asked, search: Search) -> Store:
        """The store as it is for what is asked."""
        if asked.by == "both" or search.node is None:
            return self._store
        openings = self._store.candidates(
            self._store.title_matches(list(all_words(search.node))), asked.filter
        )
        if asked.by == "title":
            self._by_title |= {c.key for c in openings}
            return _Titles(self._store, openings)
        only_titled = {c.key for c in openings if not matches(search.node, "", c.content)}
        return _Without(self._store, only_titled) if only_titled else self._store

    # -- what was found ---

    @property
    def words(self) -> list[Word]:
        if self._searches:
            return self._searches[0].words
        return [Word(text)] if (text := self._query.rest.strip()) else []

    @property
    def mode(self) -> str:
        """What answered: "text", "vector" or "both"."""
        return self._searches[0].described().mode if self._searches else "text"

    @property
    def note(self) -> str:
        return self._searches[0].described().note if self._searches else ""

    def entries(self) -> Iterator[Entry]:
        """Every result once, in order."""
        found: Iterator[Entry]
        if not self._searches:
            found = chain.from_iterable(map(self._without_words, self._asked))
        elif self._recent:
            found = self._by_time()
        else:
            found = chain((self._entry(r.found.candidate, r) for r in self._ranked), self._rest())
        known: set[tuple[str, str]] = set()
        for entry in found:
            if entry.item not in known:
                known.add(entry.item)
                yield entry

    @cached_property
    def _ranked(self) -> list[Ranked]:
        pool: list[Found] = []
        for search in self._searches:
            pool += search.pool()
        return rank.rank(self._searches[0].question, pool) if self._searches else []

    def _entry(self, candidate: Candidate, ranked: Ranked | None, after: int = 0) -> Entry:
        if ranked is not None:
            return Entry(candidate, scaled(ranked.score), self._is_titled(candidate, ranked))
        last = scaled(self._ranked[-1].score) if self._ranked else 1.0
        score = last * len(self._ranked) / (len(self._ranked) + 1 + after)
        return Entry(candidate, round(score, 6), candidate.key in self._by_title)

    def _is_titled(self, candidate: Candidate, ranked: Ranked) -> bool:
        """Whether a conversation was found by its title and not by the message that matched."""
        if candidate.kind != CONVERSATION or candidate.key in self._by_title:
            return candidate.kind == CONVERSATION
        if ranked.found.matched or not ranked.features["title"]:
            return False
        # The vector of the first message includes the title. Later messages are found by their own.
        return candidate.position == 0 or not ranked.found.vector

    def _rest(self) -> Iterator[Entry]:
        """What the ranker did not look at: of each kind in the order of its index, in turn."""
        rests = [search.rest() for search in self._searches if not search.exhausted]
        found = (c for each in zip_longest(*rests) for c in each if c is not None)
        for place, candidate in enumerate(found):
            yield self._entry(candidate, None, place)

    def _without_words(self, asked: Asked) -> Iterator[Entry]:
        """Signs are looked for as they are; fields alone give the newest."""
        text = self._query.rest.strip()
        if not text and not self._query.text.strip():
            return
        for start in range(0, LIMITS.page_offset, LIMITS.page_size):
            if text:
                found, _ = self._store.find_substring(text, asked.filter, LIMITS.page_size, start)
            else:
                found, _ = self._store.newest(asked.filter, LIMITS.page_size, start)
            for place, candidate in enumerate(found, start):
                yield Entry(candidate, round(1 / (1 + place / LIMITS.page_size), 6))
            if len(found) < LIMITS.page_size:
                return

    # -- by time ---

    def _by_time(self) -> Iterator[Entry]:
        """Newest change first, and what has no date last. Of plain words all must be there, unless nothing has all."""
        scores = {r.found.candidate.key: r for r in self._ranked}
        found: list[tuple[bool, float, int, Search]] = []
        for search, keys in self._all_or_any():
            for key, _, changed in self._store.change_times(keys):
                found.append(
                    (changed is None, -changed.timestamp() if changed else 0.0, -key, search)
                )
        found.sort(key=lambda each: each[:3])
        for at in range(0, len(found), LIMITS.page_size):
            some = found[at : at + LIMITS.page_size]
            read: dict[int, Candidate] = {}
            for search in self._searches:
                read |= {
                    c.key: c for c in search.read([-key for _, _, key, s in some if s is search])
                }
            for place, (_, _, key, _) in enumerate(some, at):
                if -key in read:
                    yield self._entry(read[-key], scores.get(-key), place)

    def _all_or_any(self) -> list[tuple[Search, list[int]]]:
        every = [(search, search.having_all(COUNTED)) for search in self._searches]
        if any(keys for _, keys in every):
            return every
        return [
            (search, search.matching(COUNTED) if search.node is not None else [])
            for search in self._searches
        ]

    # -- how much there is ---

    def total(self) -> tuple[int, bool]:
        """How many results there are, and whether that is all of them or only at least so many."""
        if not self._searches or self._recent:
            found = sum(1 for _ in islice(self.entries(), COUNTED + 1))
            return min(found, COUNTED), found <= COUNTED
        total, exact = 0, True
        for asked, search in zip(self._asked, self._searches, strict=True):
            found, all_of_them = self._counted(asked, search)
            total, exact = total + found, exact and all_of_them
        return total, exact

    def _counted(self, asked: Asked, search: Search) -> tuple[int, bool]:
        mine = {
            self._entry(r.found.candidate, r).item
            for r in self._ranked
            if search.gave(r.found.candidate.key)
        }
        if search.exhausted or search.node is None:
            return len(mine), search.exhausted
        if asked.filter.kinds == (CONVERSATION,):
            found, exact = search.count()
            return max(found, len(mine)), exact and self.mode == "text"
        found, exact = search.count()
        if found > COUNTED_ONE_BY_ONE:
            each = max(len(mine), 1) / max(
                search.given, 1
            )  # of the passages that were looked at, so many are documents
            return max(len(mine), int(found * each)), False
        keys = search.matching(found)
        documents = {document for _, document, _ in self._store.change_times(keys)} | {
            document for document, _ in mine
        }
        return len(documents), exact and self.mode == "text"


# -- stores that hold a part ---------------------------------------------------


class _Without(StoreView):
    """A store without some passages. Only the methods that a search uses are overridden, here and below."""

    def __init__(self, store: Store, left_out: AbstractSet[int]) -> None:
        super().__init__(store)
        self._left_out = left_out

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        found = self._store.match(node, filter, limit + len(self._left_out))
        return [key for key in found if key not in self._left_out][:limit]

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        found, exact = self._store.count(node, filter)
        return max(0, found - len(self._left_out)), exact

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        found = self._store.nearest(space, vector, filter, limit + len(self._left_out))
        return [(key, cosine) for key, cosine in found if key not in self._left_out][:limit]


class _Titles(StoreView):
    """A store as if each conversation said its title and nothing else."""

    def __init__(self, store: Store, openings: Iterable[Candidate]) -> None:
        super().__init__(store)
        self._found = {c.key: c._replace(content=c.title) for c in openings}

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        found = [key for key, c in self._found.items() if matches(node, "", c.title)]
        return sorted(found, reverse=True)[:limit]

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return len(self.match(node, filter, len(self._found))), True

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return [self._found[key] for key in keys if key in self._found]

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return []

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return {}

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return []
