"""A store whose searches may be incomplete.

A step of a search that exceeds the store's time limit finds nothing, and the deadline of the search
says so. Then the results of the other steps are shown, marked as partial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from recollect.errors import SearchTimeout
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word
from recollect.model.search import Filter
from recollect.search.candidates.deadline import Deadline
from recollect.store.base import Store
from recollect.store.values import Candidate, Space, TimedMatches
from recollect.store.views import StoreView

T = TypeVar("T")

# If all matches are too many to sort by time, the best of them are sorted.
_MOST_SORTED = 10_000


class PartialStore(StoreView):
    """A store view that leaves out the steps of a search for which there is no time."""

    def __init__(self, store: Store, deadline: Deadline) -> None:
        super().__init__(store)
        self.deadline = deadline

    def _attempt(self, step: str, run: Callable[[], T], default: T) -> T:
        """The result of a step; `default` if it or an earlier one of its kind took too long."""
        if step in self.deadline.stopped_steps:
            return default
        try:
            return run()
        except SearchTimeout:
            self.deadline.add_timeout(step)
            return default

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return self._attempt("match", lambda: self._store.match(node, filter, limit), [])

    def has_match(self, node: Node, filter: Filter) -> bool:
        return self._attempt("match", lambda: self._store.has_match(node, filter), False)

    def satisfies(self, node: Node, filter: Filter) -> bool:
        """Whether any message satisfies a query exactly.

        If that takes too long, messages with any of its words may still be found in time.
        """
        return self._attempt("satisfies", lambda: bool(self._store.match(node, filter, 1)), False)

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return self._attempt("count", lambda: self._store.count(node, filter), (0, False))

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        if node is None:
            return self._store.match_times(node, filter)
        matches = self._attempt("match_times", lambda: self._store.match_times(node, filter), None)
        if matches is None:
            best = self.match(node, filter, _MOST_SORTED)
            matches = TimedMatches.of(self.change_times(best))
        return matches

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        return self._attempt("title_matches", lambda: self._store.title_matches(words), [])

    def authors(self, limit: int) -> list[str]:
        return self._attempt("authors", lambda: self._store.authors(limit), [])

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        result = self._attempt("frequencies", lambda: self._store.frequencies(nodes), None)
        if result is not None:
            return result
        # A word that takes too long to count is frequent. It must not count as missing.
        size = self._store.size()
        return [size] * len(nodes), size

    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        return self._attempt(
            "variants", lambda: self._store.variants(words, language), [(word,) for word in words]
        )

    def words_containing(self, parts: Sequence[str]) -> dict[str, list[str]]:
        return self._attempt(
            "variants", lambda: self._store.words_containing(parts), {part: [] for part in parts}
        )

    def known_words(self, words: Sequence[str]) -> set[str]:
        return self._attempt("known_words", lambda: self._store.known_words(words), set())

    def similar_words(self, words: Sequence[str]) -> dict[str, set[str]]:
        return self._attempt("known_words", lambda: self._store.similar_words(words), {})

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return self._attempt("previous_passages", lambda: self._store.previous_passages(keys), [])

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self._attempt("text_scores", lambda: self._store.text_scores(node, keys), {})

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return self._attempt(
            "nearest", lambda: self._store.nearest(space, vector, filter, limit), []
        )

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return self._attempt("cosines", lambda: self._store.cosines(space, vector, keys), {})
