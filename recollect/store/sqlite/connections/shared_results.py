"""What the searches of one snapshot share, so that none of them does the work of another again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.values import SearchPlan

Range = tuple[int, int]
"""A first and a last key."""


@dataclass(slots=True)
class SharedResults:
    """The expected searches of one snapshot, and what has been computed for them so far."""

    plans: Sequence[SearchPlan] = ()
    """What `Store.expect` has announced."""
    neighbours: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """What `Store.nearest` returns for plans that have been scanned for, by the plan's number."""
    weights: dict[tuple[Node, Range], Mapping[int, float]] = field(default_factory=dict)
    """The weights of the passages in a range that match, whatever the filter."""
    passing: dict[tuple[Node, Range, Filter], AbstractSet[int]] = field(default_factory=dict)
    """Those of them that pass a filter."""

    def expect(self, plans: Sequence[SearchPlan]) -> None:
        self.plans = plans
        self.neighbours = {}
