"""Searches by text, in SQL. Each engine provides the queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word
from recollect.language.terminal_codes import without_terminal_codes
from recollect.language.words import neighbours
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.contract.text_search import TextSearch
from recollect.store.sql.parts.transactions import Connection, SqlTransactions
from recollect.store.sql.reading import lookup, match_groups, selection, times
from recollect.store.sql.reading.selection import resolve_filter
from recollect.store.values import Candidate, MatchGroups, SubstringMatches, TimedMatches

# Longer than a search: people see the hits while all matches are counted.
_COUNTING_SECONDS = 3 * LIMITS.search_seconds


class TextQueries(Protocol):
    """The queries that each engine's module `text` provides, under the same names."""

    def variants(
        self, db: Any, words: Sequence[str], language: Language
    ) -> list[tuple[str, ...]]: ...

    def words_containing(self, db: Any, parts: Sequence[str]) -> dict[str, list[str]]: ...

    def known_words(self, db: Any, words: Sequence[str]) -> set[str]: ...

    def candidates(self, db: Any, keys: Sequence[int], filter: Filter) -> list[Candidate]: ...

    def previous_passages(self, db: Any, keys: Sequence[int]) -> list[Candidate]: ...

    def find_substring(
        self, db: Any, text: str, filter: Filter, limit: int, offset: int, by_document: bool
    ) -> SubstringMatches: ...

    def newest(
        self, db: Any, filter: Filter, limit: int, offset: int, by_document: bool
    ) -> tuple[list[Candidate], int]: ...

    def recent(
        self, db: Any, text: str | None, filter: Filter, limit: int, by_words: bool
    ) -> list[Candidate]: ...


class SqlTextSearch(SqlTransactions[Connection], TextSearch):
    _text: ClassVar[TextQueries]

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        return self._search(lambda db: lookup.title_matches(db, words))

    def authors(self, limit: int) -> list[str]:
        return self._search(lambda db: selection.authors(db, limit))

    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        return self._search(lambda db: self._text.variants(db, words, language))

    def words_containing(self, parts: Sequence[str]) -> dict[str, list[str]]:
        return self._search(lambda db: self._text.words_containing(db, parts))

    def known_words(self, words: Sequence[str]) -> set[str]:
        return self._search(lambda db: self._text.known_words(db, words))

    def similar_words(self, words: Sequence[str]) -> dict[str, set[str]]:
        similar = {word: neighbours(word) for word in words}
        library_words = self.known_words(sorted(set().union(*similar.values())))
        return {word: library_words & each for word, each in similar.items()}

    def has_match(self, node: Node, filter: Filter) -> bool:
        return bool(self.match(node, filter, 1))

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._search(lambda db: self._text.candidates(db, keys, filter))

    def candidates_by_id(self, ids: Sequence[tuple[str, str]], filter: Filter) -> list[Candidate]:
        def work(db: Connection) -> list[Candidate]:
            keys = lookup.passage_keys(db, ids)
            return self._text.candidates(db, keys, filter)

        return self._search(work)

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return self._search(lambda db: self._text.previous_passages(db, keys))

    def find_substring(
        self, text: str, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> SubstringMatches:
        literal = _literal(text)

        def work(db: Connection) -> SubstringMatches:
            resolved_filter = resolve_filter(db, filter)
            return self._text.find_substring(
                db, literal, resolved_filter, limit, offset, by_document
            )

        return self._search(work)

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        return self._search(
            lambda db: self._text.newest(db, resolve_filter(db, filter), limit, offset, by_document)
        )

    def recent(
        self, text: str | None, filter: Filter, limit: int, by_words: bool = False
    ) -> list[Candidate]:
        literal = _literal(text) if text else text
        return self._search(
            lambda db: self._text.recent(db, literal, resolve_filter(db, filter), limit, by_words)
        )

    def match_groups(self, node: Node | None, filter: Filter) -> MatchGroups:
        return self._read(lambda db: self._match_groups(db, node, filter), _COUNTING_SECONDS)

    def _match_groups(self, db: Connection, node: Node | None, filter: Filter) -> MatchGroups:
        source, values = self._match_source(db, node, resolve_filter(db, filter))
        return match_groups.group_matches(db, source, values)

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        def work(db: Connection) -> TimedMatches:
            source, values = self._match_source(db, node, resolve_filter(db, filter))
            return times.timed_matches(db, source, values)

        return self._search(work)

    @abstractmethod
    def _match_source(
        self, db: Connection, node: Node | None, filter: Filter
    ) -> tuple[str, Sequence[Any]]:
        """The end of a statement that selects each passage `p` that matches, with its values."""

    def group_passages(self, keys: Sequence[int]) -> MatchGroups:
        return self._read(lambda db: match_groups.group_passages(db, keys), _COUNTING_SECONDS)


def _literal(text: str) -> str:
    """A text to find. If it is nothing but codes of terminals, which no text has, it stays."""
    return without_terminal_codes(text) or text
