"""The last searches of a library, so that their next pages are not searched for again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter

from recollect.index.meaning import Meaning
from recollect.language.queries.query import Query
from recollect.language.words.synonyms import synonyms_version
from recollect.model.audience import Audience
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.engine import Search, prepare_search
from recollect.search.observed import ObservedSearch
from recollect.search.queries.long_queries import expect_words
from recollect.search.queries.period_questions import read_short_query, unless_only_mentioned
from recollect.search.queries.terms import term_plan
from recollect.search.queries.without_words import search_without_words
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


class RecentSearches:
    """Searches with their rankings. They are valid until anybody writes to the library."""

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
        """Like `engine.search`, where `store` is what the audience sees."""
        settings = (RERANK.get(), EMBEDDINGS.get(), synonyms_version())
        key = (audience, text, filter, _without_paging(options), settings)
        with store.snapshot():
            query = None
            earlier_search = self._searches.get(key)
            if earlier_search is not None:
                store.expect_terms(earlier_search.term_plan)
            else:
                query = _read_and_announce(text, store, meaning, filter, options)
            # Read before the search: if somebody writes meanwhile, the result is not used again.
            version = store.version()
            search = self._find(key, version, options.now)
            if search is not None:
                return search.with_options(options).page()
            search_type = ObservedSearch if options.observations else Search
            search = prepare_search(store, meaning, text, filter, options, search_type, query)
            if search is None:
                return search_without_words(store, text, filter, options)
            page = search.page()
            self._add(key, version, search)
            return page

    def _find(self, key: Hashable, version: object, now: datetime) -> Search | None:
        with self._lock:
            if version != self._version:
                self._searches.clear()
                self._version = version
            search = self._searches.get(key)
            if search is None or abs(now - search.question.now) > _MAX_AGE:
                return None
            self._searches.move_to_end(key)
            return search

    def _add(self, key: Hashable, version: object, search: Search) -> None:
        if search.pool_characters > _MAX_CHARACTERS or search.is_without_model:
            return
        with self._lock:
            if version == self._version:
                self._searches[key] = search
                self._searches.move_to_end(key)
            while len(self._searches) > _MAX_SEARCHES:
                self._searches.popitem(last=False)


def _read_and_announce(
    text: str, store: Store, meaning: Meaning, filter: Filter, options: SearchOptions
) -> Query | None:
    """Parse a query and announce its terms. None if it is too long to parse without the store."""
    query = read_short_query(text, options)
    if query is None:
        expect_words(text, store)
        return None
    query = unless_only_mentioned(query, store)
    with_kinds = options.observations or bool(filter.kinds)
    store.expect_terms(term_plan(query, options, meaning, with_kinds))
    return query
