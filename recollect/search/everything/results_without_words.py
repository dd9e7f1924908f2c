"""Results of queries without words to find: punctuation, nothing but fields, or a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from recollect.language.queries.query import Query
from recollect.language.queries.query_fields import Fields
from recollect.language.queries.query_tree import Word
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.search.candidates.deadline import NOTE
from recollect.search.everything.entries import Entry, identity
from recollect.search.everything.kind_queries import KindQuery
from recollect.search.everything.results import Results, distinct
from recollect.search.everything.timeline import Timeline, TimelinePart
from recollect.search.results.unknown_names import note_unknown_names
from recollect.search.results.without_words import AS_TYPED
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, TimedMatches


class ResultsWithoutWords(Results):
    """Punctuation is searched for literally. Fields alone find everything. Last changed first."""

    def __init__(self, store: Store, query: Query, queries: Sequence[KindQuery]) -> None:
        self._store = store
        self._query = query
        self._queries = queries
        self._text = query.rest.strip()
        self._is_about_titles = _is_about_titles(query.fields)
        if self._is_about_titles and not self._text:
            self.title_filters = [query.filter for query in queries]

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
        if self.is_partial:
            note = f"{note} {NOTE}"
        if self._timeline.total:
            return note
        filters = [query.filter for query in self._queries]
        return note_unknown_names(note, self._store, *filters, subject="Nothing")

    @property
    def is_partial(self) -> bool:
        return any(part.is_partial for part in self._parts)

    def all_entries(self) -> Iterator[Entry]:
        return self._entries(self._timeline.candidates())

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """Earlier results are skipped without reading them. Those of a text have been read."""
        if self._text:
            return super().entries_from(offset)
        start = min(offset, self._timeline.size)
        return start, distinct(self._entries(self._timeline.candidates(start)))

    def entries_of(self, kind: str) -> Iterator[Entry]:
        if self._text:
            return super().entries_of(kind)
        return distinct(self._entries(self._timeline.candidates(kind=kind)))

    def _entries(self, candidates: Iterable[tuple[int, Candidate]]) -> Iterator[Entry]:
        for position, candidate in candidates:
            score = round(1 / (1 + position / LIMITS.page_size), 6)
            by_title = candidate.kind == CONVERSATION and self._is_about_titles
            yield Entry(candidate, score, by_title)

    def total(self) -> int:
        return self._timeline.total

    @cached_property
    def _timeline(self) -> Timeline:
        return Timeline(self._parts)

    @cached_property
    def _parts(self) -> list[TimelinePart]:
        if not self._text:
            return [self._everything_in(query) for query in self._queries]
        # A text is looked for in all kinds with the same filter at once.
        kinds: dict[Filter, list[str]] = {}
        for query in self._queries:
            any_kind = replace(query.filter, kinds=())
            kinds.setdefault(any_kind, []).extend(query.filter.kinds)
        return [
            self._literal_matches(replace(any_kind, kinds=tuple(names)))
            for any_kind, names in kinds.items()
        ]

    def _everything_in(self, query: KindQuery) -> TimelinePart:
        matches = self._store.match_times(None, query.filter)
        if not query.is_for_conversations or self._is_about_titles:
            matches = matches.one_of_each_document()
        return TimelinePart(self._store, query.filter, matches, len(matches.keys))

    def _literal_matches(self, filter: Filter) -> TimelinePart:
        literal = self._store.find_substring(self._text, filter, LIMITS.page_offset, 0)
        keys = [candidate.key for candidate in literal.candidates]
        matches = TimedMatches.of(self._store.change_times(keys))
        listed = {identity(c, self._is_about_titles) for c in literal.candidates}
        total = len(listed) + literal.total - len(literal.candidates)
        return TimelinePart(self._store, filter, matches, total, is_partial=not literal.is_complete)


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
