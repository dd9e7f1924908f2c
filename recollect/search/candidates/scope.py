"""Where a search looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from recollect.model.search import Filter
from recollect.search.candidates.deadline import Deadline
from recollect.search.candidates.partial_store import PartialStore
from recollect.store.base import Store


class Scope(NamedTuple):
    """Where a search looks: a store, or a part of it, and which of its messages may be found."""

    store: PartialStore
    filter: Filter

    @staticmethod
    def begin(store: Store, filter: Filter) -> Scope:
        """The scope of a search that begins now, with a new deadline."""
        return Scope(PartialStore(store, Deadline()), filter)

    def with_part(self, store: Store, filter: Filter) -> Scope:
        """Another part of the store, within the same deadline."""
        return Scope(PartialStore(store, self.store.deadline), filter)

    def restricted_to(self, conversations: Iterable[str]) -> Scope:
        """The same scope in these conversations only."""
        filter = replace(self.filter, conversations=tuple(conversations) or ("",))
        return self._replace(filter=filter)

    @property
    def is_partial(self) -> bool:
        """Whether something was left out because there was no time for it."""
        return self.store.deadline.was_missed
