"""The latest searches of a library, kept so that their next pages need no new search."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter

from recollect.index.meaning import Meaning
from recollect.language.words import synonyms_version
from recollect.model.audience import Audience
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.engine import Search, prepare_search
from recollect.search.queries.query_filter import has_words
from recollect.search.queries.query_reading import read_query
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


def _may_be_kept(search: Search) -> bool:
    """Whether a search is small enough to be kept, and complete.

    One that lacked time or a model may be better next time.
    """
    if search.scope.is_partial or search.interpretation.meaning.problem:
        return False
    characters = sum([len(scored.candidate.content) for scored in search.ranking.candidates])
    return characters <= _MAX_CHARACTERS


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
            # Read before the search: if somebody writes meanwhile, the result is not used again.
            version = store.version()
            search = self._find(key, version, options.now)
            if search is not None:
                return search.page(options)
            query = read_query(text, store, options, [filter])
            if not has_words(query):
                return search_without_words(store, query, filter, options)
            search = prepare_search(store, meaning, query, filter, options)
            page = search.page(options)
            self._add(key, version, search)
            return page

    def _find(self, key: Hashable, version: object, now: datetime) -> Search | None:
        with self._lock:
            if version != self._version:
                self._searches.clear()
                self._version = version
            recent = self._searches.get(key)
            if recent is None:
                return None
            if abs(now - recent.interpretation.ranking_query.now) > _MAX_AGE:
                return None
            self._searches.move_to_end(key)
            return recent

    def _add(self, key: Hashable, version: object, search: Search) -> None:
        if not _may_be_kept(search):
            return
        with self._lock:
            if version == self._version:
                self._searches[key] = search
                self._searches.move_to_end(key)
            while len(self._searches) > _MAX_SEARCHES:
                self._searches.popitem(last=False)
