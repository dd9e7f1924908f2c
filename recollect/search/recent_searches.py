"""The latest searches of a library, kept so that their next pages need no new search."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.language.words.synonyms import synonyms_version
from recollect.model.audience import Audience
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.engine import Search, prepare_search
from recollect.search.queries.long_queries import expect_words
from recollect.search.queries.query_filter import has_words
from recollect.search.queries.query_reading import (
    read_query,
    read_short_query,
    resolve_ambiguity,
)
from recollect.search.queries.query_terms import announce_terms
from recollect.search.results.without_words import search_without_words
from recollect.settings import EMBEDDINGS, RERANK
from recollect.store.base import Store

_MAX_SEARCHES = 8
# Candidates with more text than this are not held in memory.
_MAX_CHARACTERS = 2_000_000
# Recency and words such as "yesterday" depend on the time.
_MAX_AGE = timedelta(minutes=1)
_without_paging = attrgetter(
    *(
        field.name
        for field in fields(SearchOptions)
        if field.name not in ("offset", "limit", "now", "snippet_length")
    )
)


class _RecentSearch(NamedTuple):
    search: Search
    query: Query
    """Its terms are announced before each page."""

    @property
    def may_be_kept(self) -> bool:
        """Whether the search is small enough to be kept, and complete.

        One that lacked time or a model may be better next time.
        """
        if self.search.scope.is_partial or self.search.interpretation.meaning.problem:
            return False
        candidates = self.search.ranking.candidates
        characters = sum([len(scored.candidate.content) for scored in candidates])
        return characters <= _MAX_CHARACTERS


class RecentSearches:
    """Searches with their rankings. They are valid until anybody writes to the library."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: object = None
        self._searches: OrderedDict[Hashable, _RecentSearch] = OrderedDict()

    def page(
        self,
        store: Store,
        meaning: Meaning,
        text: str,
        filter: Filter,
        options: SearchOptions,
        audience: Audience,
    ) -> Page:
        """Like `engine.search`, where `store` is what the audience sees."""
        settings = (RERANK.get(), EMBEDDINGS.get(), synonyms_version())
        key = (audience, text, filter, _without_paging(options), settings)
        with store.snapshot():
            query = self._begin(key, store, meaning, text, filter, options)
            # Read before the search: if somebody writes meanwhile, the result is not used again.
            version = store.version()
            search = self._find(key, version, options.now)
            if search is not None:
                return search.page(options)
            if query is None:
                query = read_query(text, store, options, [filter])
                _announce(query, store, meaning, filter, options)
            if not has_words(query):
                return search_without_words(store, query, filter, options)
            search = prepare_search(store, meaning, query, filter, options)
            page = search.page(options)
            self._add(key, version, _RecentSearch(search, query))
            return page

    def _begin(
        self,
        key: Hashable,
        store: Store,
        meaning: Meaning,
        text: str,
        filter: Filter,
        options: SearchOptions,
    ) -> Query | None:
        """Parse the query, and announce its terms before the store is read.

        None if this is probably one of the latest searches, or if the query is too long.
        """
        with self._lock:
            recent = self._searches.get(key)
        if recent is not None:
            _announce(recent.query, store, meaning, filter, options)
            return None
        query = _read_early(text, store, filter, options)
        if query is not None:
            _announce(query, store, meaning, filter, options)
        return query

    def _find(self, key: Hashable, version: object, now: datetime) -> Search | None:
        with self._lock:
            if version != self._version:
                self._searches.clear()
                self._version = version
            recent = self._searches.get(key)
            if recent is None:
                return None
            if abs(now - recent.search.interpretation.ranking_query.now) > _MAX_AGE:
                return None
            self._searches.move_to_end(key)
            return recent.search

    def _add(self, key: Hashable, version: object, recent: _RecentSearch) -> None:
        if not recent.may_be_kept:
            return
        with self._lock:
            if version == self._version:
                self._searches[key] = recent
                self._searches.move_to_end(key)
            while len(self._searches) > _MAX_SEARCHES:
                self._searches.popitem(last=False)


def _read_early(text: str, store: Store, filter: Filter, options: SearchOptions) -> Query | None:
    """Parse a query before the store is read. None if it is too long for that."""
    query = read_short_query(text, options)
    if query is None:
        expect_words(text, store)
        return None
    return resolve_ambiguity(query, store, [filter])


def _announce(
    query: Query, store: Store, meaning: Meaning, filter: Filter, options: SearchOptions
) -> None:
    with_kinds = options.observations or bool(filter.kinds)
    announce_terms(query, store, options, meaning, with_kinds=with_kinds)
