"""What to search for in one kind of item, and where."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from recollect.language.queries.matching import matches
from recollect.language.queries.query_tree import Node, all_words
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.search.everything.title_views import ExcludingView, TitleView
from recollect.store.base import Store

MATCH_IN = ("both", "title", "message")
"""Where the words of a query may be in a conversation."""


@dataclass(frozen=True, slots=True)
class KindQuery:
    """What to search for in one kind of item."""

    filter: Filter
    match_in: str = "both"
    """One of MATCH_IN; only conversations distinguish them."""

    @property
    def is_for_conversations(self) -> bool:
        return self.filter.kinds == (CONVERSATION,)


class StorePart(NamedTuple):
    """The part of a store in which the words of a query may be."""

    store: Store
    title_keys: AbstractSet[int] = frozenset()
    """The keys of first messages whose conversations were found by their titles."""


def store_part(store: Store, query: KindQuery, node: Node | None) -> StorePart:
    """The part of a store in which to search for a node."""
    if query.match_in == "both" or node is None:
        return StorePart(store)
    keys = store.title_matches(list(all_words(node)))
    openings = store.candidates(keys, query.filter)
    if query.match_in == "title":
        title_keys = {candidate.key for candidate in openings}
        return StorePart(TitleView(store, openings), title_keys)
    by_title_only = {
        candidate.key
        for candidate in openings
        if matches(node, candidate.indexed_title, candidate.content)
        and not matches(node, "", candidate.content)
    }
    if not by_title_only:
        return StorePart(store)
    return StorePart(ExcludingView(store, by_title_only))
