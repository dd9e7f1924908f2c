"""The time that a search may take. What it has then is shown, marked as partial."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from recollect.errors import SearchTimeout
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, Space, TimedMatches
from recollect.store.views import StoreView

T = TypeVar("T")

NOTE = (
    "The search was stopped because it took too long, so there may be more and better results. "
    "Use rarer words or a narrower filter."
)
NOTHING_IN_TIME = (
    "The search took too long and was stopped before it found anything. "
    "Use rarer words or a narrower filter."
)
# If all matches are too many to sort by time, the best of them are sorted.
_MOST_SORTED = 10_000


class Deadline:
    """When a search stops.

    It counts the CPU time of this thread: a busy computer is slower, but its answers are the same.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + LIMITS.search_cpu_seconds
        self.was_missed = False
        """Whether the search left something out."""
        self.stopped_steps: set[str] = set()
        """The kinds of steps that the store has stopped. They are not tried again."""

    def is_over(self) -> bool:
        """Whether to leave out the rest. Call it only if there is something to leave out."""
        if time.thread_time() > self._end:
            self.was_missed = True
        return self.was_missed


class PartialStore(StoreView):
    """A store whose steps find nothing if they take too long. Then the deadline says so."""

    def __init__(self, store: Store, deadline: Deadline) -> None:
        super().__init__(store)
        self.deadline = deadline

    def attempt(self, step: str, default: T, run: Callable[..., T], *arguments: Any) -> T:
        """The result of a step; `default` if it or an earlier one of its kind took too long."""
        if step in self.deadline.stopped_steps:
            return default
        try:
            return run(*arguments)
        except SearchTimeout:
            self.deadline.stopped_steps.add(step)
            self.deadline.was_missed = True
            return default

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return self.attempt("match", [], self._store.match, node, filter, limit)

    def has_match(self, node: Node, filter: Filter) -> bool:
        return self.attempt("match", False, self._store.has_match, node, filter)

    def satisfies(self, node: Node, filter: Filter) -> bool:
        """Whether any message satisfies a query exactly.

        If that takes too long, messages with any of its words may still be found in time.
        """
        matches: list[int] = self.attempt("satisfies", [], self._store.match, node, filter, 1)
        return bool(matches)

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return self.attempt("count", (0, False), self._store.count, node, filter)

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        if node is None:
            return self._store.match_times(node, filter)
        matches = self.attempt("match_times", None, self._store.match_times, node, filter)
        if matches is None:
            matches = TimedMatches.of(self.change_times(self.match(node, filter, _MOST_SORTED)))
        return matches

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        return self.attempt("title_matches", [], self._store.title_matches, words)

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        result = self.attempt("frequencies", None, self._store.frequencies, nodes)
        if result is None:  # a word that takes too long to count is frequent, and not missing
            size = self._store.size()
            return [size] * len(nodes), size
        return result

    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        same: list[tuple[str, ...]] = [(word,) for word in words]
        return self.attempt("variants", same, self._store.variants, words, language)

    def words_containing(self, parts: Sequence[str]) -> dict[str, list[str]]:
        nothing: dict[str, list[str]] = {part: [] for part in parts}
        return self.attempt("variants", nothing, self._store.words_containing, parts)

    def known_words(self, words: Sequence[str]) -> set[str]:
        return self.attempt("known_words", set(), self._store.known_words, words)

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return self.attempt("previous", [], self._store.previous_passages, keys)

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self.attempt("text_scores", {}, self._store.text_scores, node, keys)

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return self.attempt("nearest", [], self._store.nearest, space, vector, filter, limit)

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return self.attempt("cosines", {}, self._store.cosines, space, vector, keys)
