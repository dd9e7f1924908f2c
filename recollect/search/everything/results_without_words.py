"""Results of queries without words to find: punctuation, nothing but fields, or a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from recollect.language.queries.query import Query
from recollect.language.queries.query_fields import Fields
from recollect.language.queries.query_tree import Word
from recollect.model.kinds import CONVERSATION
from recollect.search.candidates.deadline import NOTE
from recollect.search.everything.entries import Entry
from recollect.search.everything.kind_queries import KindQuery
from recollect.search.everything.results import Results
from recollect.search.results.unknown_names import note_unknown_names
from recollect.search.results.without_words import AS_TYPED
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate


class ResultsWithoutWords(Results):
    """Punctuation is searched for literally. Fields alone give the newest."""

    def __init__(self, store: Store, query: Query, queries: Sequence[KindQuery]) -> None:
        self._store = store
        self._query = query
        self._queries = queries
        self._text = query.rest.strip()
        self._is_partial = False
        self._is_empty = True
        self._is_about_titles = _is_about_titles(query.fields)

    @property
    def words(self) -> list[Word]:
        if not self._text:
            return []
        return [Word(self._text)]

    @property
    def note(self) -> str:
        note = self._query.note
        if self._text:
            note = AS_TYPED
        if self._is_partial:
            note = f"{note} {NOTE}"
        if not self._is_empty:
            return note
        filters = [query.filter for query in self._queries]
        return note_unknown_names(note, self._store, *filters, subject="Nothing")

    @property
    def is_partial(self) -> bool:
        return self._is_partial

    def all_entries(self) -> Iterator[Entry]:
        return chain.from_iterable(map(self._entries_of_kind, self._queries))

    def _entries_of_kind(self, query: KindQuery) -> Iterator[Entry]:
        if not self._text and not self._query.text.strip():
            return
        size = LIMITS.page_size
        for start in range(0, LIMITS.page_offset, size):
            candidates = self._candidates(query, size, start)
            for position, candidate in enumerate(candidates, start):
                self._is_empty = False
                by_title = candidate.kind == CONVERSATION and self._is_about_titles
                yield Entry(candidate, round(1 / (1 + position / size), 6), by_title)
            if len(candidates) < size:
                return

    def _candidates(self, query: KindQuery, limit: int, offset: int) -> Sequence[Candidate]:
        if not self._text:
            candidates, _ = self._store.newest(query.filter, limit, offset)
            return candidates
        matches = self._store.find_substring(self._text, query.filter, limit, offset)
        if not matches.is_complete:
            self._is_partial = True
        return matches.candidates


def _is_about_titles(fields: Fields) -> bool:
    """Whether a query has `title:` fields and none that is about messages."""
    about_messages = (
        fields.roles,
        fields.authors,
        fields.after,
        fields.before,
        fields.not_roles,
        fields.not_authors,
    )
    return bool(fields.titles) and not any(about_messages)
