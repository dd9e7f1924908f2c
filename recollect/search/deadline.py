"""The time that a search may take. What it has then is shown, marked as partial."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from recollect.errors import SearchTimeout
from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import TimedMatches
from recollect.store.views import StoreView

NOTE = (
    "The search was stopped because it took too long, so there may be more and better results. "
    "Use rarer words or a narrower filter."
)
NOTHING_IN_TIME = (
    "The search took too long and was stopped before it found anything. "
    "Use rarer words or a narrower filter."
)
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
        """The methods of the store that have taken too long. They are not tried again."""

    def is_over(self) -> bool:
        """Whether to leave out the rest. Call it only if there is something to leave out."""
        if time.thread_time() > self._end:
            self.was_missed = True
        return self.was_missed


_WITHOUT_TIME: Mapping[str, Callable[..., Any]] = {
    "match": lambda store, *_: [],
    "has_match": lambda store, *_: False,
    "count": lambda store, *_: (0, False),
    # If all matches are too many to sort by time, the best of them are sorted.
    "match_times": lambda store, *query: TimedMatches.of(
        store.change_times(store.match(*query, _MOST_SORTED))
    ),
    "title_matches": lambda store, *_: [],
    # A word that takes too long to count is frequent, and not missing.
    "frequencies": lambda store, nodes: ([store.size()] * len(nodes), store.size()),
    "known_words": lambda store, *_: set(),
    "variants": lambda store, words, *_: [(word,) for word in words],
    "words_containing": lambda store, parts: {part: [] for part in parts},
    "candidates": lambda store, *_: [],
    "text_scores": lambda store, *_: {},
    "nearest": lambda store, *_: [],
    "cosines": lambda store, *_: {},
}
"""What the steps of a search find if they take too long."""


class PartialStore(StoreView):
    """A store whose steps find less if they take too long. Then the deadline says so."""

    def __init__(self, store: Store, deadline: Deadline) -> None:
        super().__init__(store)
        self.deadline = deadline

    def satisfies(self, node: Node, filter: Filter) -> bool:
        """Whether any message satisfies a query exactly.

        If that takes too long, messages with any of its words may still be found in time.
        """
        try:
            return bool(self._store.match(node, filter, 1))
        except SearchTimeout:
            self.deadline.stopped_steps.add("satisfies")
            self.deadline.was_missed = True
            return False


def _step(name: str) -> Callable[..., Any]:
    def run(self: PartialStore, *arguments: Any) -> Any:
        # After one that took too long, others of its kind are not tried.
        if name not in self.deadline.stopped_steps:
            try:
                return getattr(self._store, name)(*arguments)
            except SearchTimeout:
                self.deadline.stopped_steps.add(name)
                self.deadline.was_missed = True
        return _WITHOUT_TIME[name](self, *arguments)

    return run


for _name in _WITHOUT_TIME:
    setattr(PartialStore, _name, _step(_name))
