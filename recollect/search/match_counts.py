"""Count all matches of a query, by kind, source, project, month, model and role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from recollect.index.meaning import Meaning
from recollect.language.query import Node, parse_query
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, MatchCounts, SearchOptions
from recollect.search.engine import narrow_filter, prepare_search
from recollect.search.long_queries import parse_any_length
from recollect.store.base import Store
from recollect.store.values import MatchGroup, MatchGroups

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ROLE = "none"

_Names = Callable[[MatchGroup], Iterable[str]]


def count_matches(
    store: Store, meaning: Meaning, text: str, filter: Filter, options: SearchOptions
) -> MatchCounts | None:
    """See Library.count_matches.

    Only words are counted: how many messages are near in meaning depends on the filter, so such a
    number would not be that of the search which a person gets by selecting a value.
    """
    if options.mode == "vector":
        return None
    search = prepare_search(store, meaning, text, filter, replace(options, mode="text"))
    node: Node | None = None
    if search is not None:
        node = search.node
    elif parse_query(text).rest.strip():
        return None  # punctuation, which no index has
    # What the filter selects is applied afterwards, so that other values can be counted.
    unselected = replace(filter, kinds=(), sources=(), projects=(), models=(), roles=())
    query = parse_any_length(text, store)
    matches = store.match_groups(node, narrow_filter(unselected, query))
    return _Counting(matches, filter).counts()


class _Counting:
    """Counts the groups that pass the selection of a filter."""

    def __init__(self, matches: MatchGroups, filter: Filter) -> None:
        self._matches = matches
        self._names: Mapping[str, _Names] = {
            "sources": lambda group: (group.source,),
            "projects": lambda group: (group.project,),
            "roles": lambda group: (group.role or _NO_ROLE,),
            "models": lambda group: matches.models.get(group.document, ()),
        }
        self._selection = {
            "sources": frozenset(filter.sources),
            "projects": frozenset(filter.projects),
            "roles": frozenset(filter.roles),
            "models": frozenset(filter.models),
        }
        self._kinds = frozenset(filter.kinds)

    def counts(self) -> MatchCounts:
        selected = list(self._groups())
        return MatchCounts(
            messages=sum(group.matches for group in selected),
            conversations=len({group.document for group in selected}),
            exact=self._matches.is_complete,
            kinds=_most_first(self._count_kinds(selected)),
            sources=self._count("sources"),
            projects=self._count("projects"),
            months=self._count_months(selected),
            models=self._count("models"),
            roles=self._count("roles"),
        )

    def _groups(self, ignoring: str = "") -> Iterator[MatchGroup]:
        """The messages that pass the selection, except for one property."""
        checks = [
            (self._names[name], values)
            for name, values in self._selection.items()
            if values and name != ignoring
        ]
        for group in self._matches.groups:
            if group.kind == CONVERSATION and all(
                not values.isdisjoint(names(group)) for names, values in checks
            ):
                yield group

    def _count(self, name: str) -> tuple[tuple[str, int], ...]:
        names = self._names[name]
        counts: Counter[str] = Counter()
        for group in self._groups(ignoring=name):
            for value in names(group):
                counts[value] += group.matches
        return _most_first(counts)

    def _count_kinds(self, selected: Sequence[MatchGroup]) -> Counter[str]:
        """Filters are about conversations, so other kinds are counted without them."""
        counts: Counter[str] = Counter()
        counts[CONVERSATION] = sum(group.matches for group in selected)
        items = {
            (group.kind, group.document)
            for group in self._matches.groups
            if group.kind != CONVERSATION and group.kind in self._kinds
        }
        counts.update(kind for kind, _ in items)
        return +counts

    def _count_months(self, selected: Sequence[MatchGroup]) -> tuple[tuple[str, int], ...]:
        counts: Counter[str] = Counter()
        for group in selected:
            if group.day is not None:
                counts[f"{_EPOCH + timedelta(days=group.day):%Y-%m}"] += group.matches
        return tuple(sorted(counts.items()))


def _most_first(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
