"""Queries without words to find: punctuation, nothing but fields, or nothing but a time."""

from __future__ import annotations

from dataclasses import replace

from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Word
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.candidates.deadline import NOTE
from recollect.search.queries.query_filter import narrow_filter
from recollect.search.results.hits import make_hit
from recollect.search.results.unknown_names import note_unknown_names
from recollect.store.base import Store

AS_TYPED = "Searched for the text as typed, because it has no words."


def search_without_words(
    store: Store, query: Query, filter: Filter, options: SearchOptions
) -> Page:
    """Punctuation is searched for literally. Fields or a time alone give the newest."""
    filter = narrow_filter(filter, query, store)
    page = Page((), 0, options.offset, options.limit, note=query.note)
    literal = query.rest.strip()
    by_document = options.group == "conversation"
    if literal:
        matches = store.find_substring(literal, filter, options.limit, options.offset, by_document)
        hits = tuple(
            make_hit(candidate, [Word(literal)], 1.0, options.snippet_length)
            for candidate in matches.candidates
        )
        page = replace(page, hits=hits, total=matches.total, matched="literal", note=AS_TYPED)
        if not matches.is_complete:
            page = replace(page, exact=False, partial=True, note=f"{AS_TYPED} {NOTE}")
    elif query.text.strip():
        candidates, total = store.newest(filter, options.limit, options.offset, by_document)
        hits = tuple(
            make_hit(candidate, [], 1.0, options.snippet_length, arms=())
            for candidate in candidates
        )
        page = replace(page, hits=hits, total=total)
    if page.total:
        return page
    return replace(page, note=note_unknown_names(page.note, store, filter))
