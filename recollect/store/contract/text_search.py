"""Search by words, substrings and filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word
from recollect.model.search import Filter
from recollect.store.contract.marks import reader
from recollect.store.values import (
    Candidate,
    MatchGroups,
    SubstringMatches,
    TimedMatches,
)


class TextSearch(ABC):
    """Search by words, substrings and filters."""

    @reader
    @abstractmethod
    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        """The keys of the passages that match a query tree, best first by the engine's score."""

    @reader
    @abstractmethod
    def title_matches(self, words: Sequence[Word]) -> list[int]:
        """The keys of opening passages whose document has one of these words in its title."""

    @reader
    @abstractmethod
    def authors(self, limit: int) -> list[str]:
        """The names of all authors of passages; none if there are more than `limit`."""

    @reader
    @abstractmethod
    def has_match(self, node: Node, filter: Filter) -> bool:
        """Whether a passage that passes the filter matches the query."""

    @reader
    @abstractmethod
    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        """The number of matching passages, and whether it is exact or a lower bound."""

    @reader
    @abstractmethod
    def match_groups(self, node: Node | None, filter: Filter) -> MatchGroups:
        """All matching passages in groups, to count them; without a query tree, all passages.

        Raises SearchTimeout if there are too many to count.
        """

    @reader
    @abstractmethod
    def group_passages(self, keys: Sequence[int]) -> MatchGroups:
        """The same groups of some passages."""

    @reader
    @abstractmethod
    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        """All matching passages with their times, in any order; without a query tree, all passages.

        Raises SearchTimeout if there are too many.
        """

    @reader
    @abstractmethod
    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        """The number of passages that match each query tree, and the number of all passages."""

    @reader
    @abstractmethod
    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        """For each word: the word and the words in the library that have the same stem.

        The stems are those of a language.
        """

    @reader
    @abstractmethod
    def words_containing(self, parts: Sequence[str]) -> dict[str, list[str]]:
        """For each part: the words in the library that contain it, in alphabetical order.

        If there are very many, only the first of them.
        """

    @reader
    @abstractmethod
    def known_words(self, words: Sequence[str]) -> set[str]:
        """Which of the words the library contains."""

    @reader
    @abstractmethod
    def similar_words(self, words: Sequence[str]) -> dict[str, set[str]]:
        """For each word: the words in the library that are similar to it.

        See `language.words`.
        """

    @reader
    @abstractmethod
    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        """The passages with these keys that pass the filter, in any order."""

    @reader
    @abstractmethod
    def candidates_by_id(self, ids: Sequence[tuple[str, str]], filter: Filter) -> list[Candidate]:
        """The same for passages with these ids, each after the id of its document."""

    @reader
    @abstractmethod
    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        """The passages directly before these in their documents."""

    @reader
    @abstractmethod
    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        """How well these passages match, by the engine's score; higher is better.

        The score is `ts_rank` on PostgreSQL and BM25 on SQLite. Only scores of the same query can
        be compared.
        """

    @reader
    @abstractmethod
    def find_substring(
        self, text: str, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> SubstringMatches:
        """A page of passages that contain `text`, ignoring case, newest first.

        With `by_document`, only the newest of each document, and the number of documents.
        """

    @reader
    @abstractmethod
    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        """A page of passages that pass the filter, newest first, and their number.

        With `by_document`, only the newest passage of each document, and the number of documents.
        """

    @reader
    @abstractmethod
    def recent(
        self, text: str | None, filter: Filter, limit: int, by_words: bool = False
    ) -> list[Candidate]:
        """The newest passages that contain `text`, or whose title does.

        With `by_words`, those that contain all its words.
        """
