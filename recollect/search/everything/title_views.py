"""Parts of a store, for searches only in the titles of conversations or only in their messages.

They override only the methods that a search uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from recollect.language.queries.matching import matches
from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.values import Candidate, Space, TimedMatches
from recollect.store.views import StoreView


class ExcludingView(StoreView):
    """A store without some passages, all of which match the query."""

    def __init__(self, store: Store, excluded_keys: AbstractSet[int]) -> None:
        super().__init__(store)
        self._excluded_keys = excluded_keys

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        keys = self._store.match(node, filter, limit + len(self._excluded_keys))
        return [key for key in keys if key not in self._excluded_keys][:limit]

    def has_match(self, node: Node, filter: Filter) -> bool:
        return bool(self.match(node, filter, 1))

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        count, is_exact = self._store.count(node, filter)
        return max(0, count - len(self._excluded_keys)), is_exact

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        return self._store.match_times(node, filter).without(self._excluded_keys)

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        neighbours = self._store.nearest(space, vector, filter, limit + len(self._excluded_keys))
        included = [(k, cosine) for k, cosine in neighbours if k not in self._excluded_keys]
        return included[:limit]


class TitleView(StoreView):
    """A store in which conversations have a title and no messages."""

    def __init__(self, store: Store, openings: Iterable[Candidate]) -> None:
        super().__init__(store)
        self._titles = {c.key: c._replace(content=c.title) for c in openings}

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        keys = [key for key, c in self._titles.items() if matches(node, "", c.title)]
        return sorted(keys, reverse=True)[:limit]

    def has_match(self, node: Node, filter: Filter) -> bool:
        return bool(self.match(node, filter, 1))

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return len(self.match(node, filter, len(self._titles))), True

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        keys = list(self._titles)
        if node is not None:
            keys = self.match(node, filter, len(keys))
        return TimedMatches.of(self._store.change_times(keys))

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return [self._titles[key] for key in keys if key in self._titles]

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return []

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return {}

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return []
