"""The searches that a snapshot expects, so that several of them can share their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recollect.store.values import SearchPlan


@dataclass(slots=True)
class ExpectedSearches:
    plans: Sequence[SearchPlan] = ()
    neighbours: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """What `Store.nearest` returns for plans that have been scanned for, by the plan's number."""
