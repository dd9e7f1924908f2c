"""Count all matches of a query, by kind, source, project, month, model and role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.errors import SearchTimeout
from recollect.index.meaning import Meaning
from recollect.language.queries.query_tree import Node
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, MatchCounts, SearchOptions
from recollect.search.candidates import Scope
from recollect.search.deadline import NOTHING_IN_TIME
from recollect.search.engine import interpret_query
from recollect.search.queries.query_filter import has_words, narrow_filter
from recollect.search.queries.query_reading import read_query
from recollect.store.base import Store
from recollect.store.values import DocumentGroup, MatchGroups, PassageGroup

_NO_ROLE = "none"

_Group = PassageGroup | DocumentGroup


def count_matches(
    store: Store, meaning: Meaning, text: str, filter: Filter, options: SearchOptions
) -> MatchCounts | None:
    """See Library.count_matches.

    Only words are counted: how many messages are near in meaning depends on the filter, so such a
    number would not be that of the search which a person gets by selecting a value.
    """
    if options.mode == "vector":
        return None
    options = replace(options, mode="text")
    query = read_query(text, store, options, [filter])
    node: Node | None = None
    if has_words(query):
        scope = Scope.begin(store, narrow_filter(filter, query, store))
        node = interpret_query(query, scope.store, [scope], meaning, options).node
        if scope.is_partial:  # other words would perhaps be counted
            raise SearchTimeout(NOTHING_IN_TIME)
    elif query.rest.strip():
        return None  # punctuation, which no index has
    # What the filter selects is applied afterwards, so that other values can be counted.
    unselected = replace(filter, kinds=(), sources=(), projects=(), models=(), roles=())
    matches = store.match_groups(node, narrow_filter(unselected, query, store))
    return _Counting(matches, filter).counts()


class _Counting:
    """Counts the groups that pass the selection of a filter."""

    def __init__(self, matches: MatchGroups, filter: Filter) -> None:
        self._matches = matches
        self._selection = {
            "sources": frozenset(filter.sources),
            "projects": frozenset(filter.projects),
            "roles": frozenset(filter.roles),
            "models": frozenset(filter.models),
        }
        self._kinds = frozenset(filter.kinds)

    def counts(self) -> MatchCounts:
        groups = [group for group in self._matches.passages if self._is_selected(group)]
        return MatchCounts(
            messages=sum(group.matches for group in groups),
            conversations=sum(
                group.documents for group in self._matches.documents if self._is_selected(group)
            ),
            exact=self._matches.is_complete,
            kinds=most_first(self._count_kinds(groups)),
            sources=self._count("sources"),
            projects=self._count("projects"),
            months=count_months(groups),
            models=self._count("models"),
            roles=self._count("roles"),
        )

    def _is_selected(self, group: _Group, ignoring: str = "") -> bool:
        """Whether a group is of conversations that pass the selection, except for one property."""
        if group.profile.kind != CONVERSATION:
            return False
        return all(
            not values.isdisjoint(_NAMES[name](group))
            for name, values in self._selection.items()
            if values and name != ignoring
        )

    def _count(self, name: str) -> tuple[tuple[str, int], ...]:
        names = _NAMES[name]
        counts: Counter[str] = Counter()
        for group in self._matches.passages:
            if self._is_selected(group, ignoring=name):
                for value in names(group):
                    counts[value] += group.matches
        return most_first(counts)

    def _count_kinds(self, groups: Sequence[PassageGroup]) -> Counter[str]:
        """The matches of each kind. `groups` are the selected ones of conversations.

        The selection is about conversations, so other kinds are counted without it.
        """
        counts: Counter[str] = Counter()
        counts[CONVERSATION] = sum(group.matches for group in groups)
        for group in self._matches.documents:
            kind = group.profile.kind
            if kind != CONVERSATION and kind in self._kinds:
                counts[kind] += group.documents
        return +counts


def count_months(groups: Sequence[PassageGroup]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.months)
    return tuple(sorted(counts.items()))


def roles(group: _Group) -> list[str]:
    if isinstance(group, PassageGroup):
        return [group.role or _NO_ROLE]
    return [role or _NO_ROLE for role in group.roles]


_NAMES: Mapping[str, Callable[[_Group], Iterable[str]]] = {
    "sources": lambda group: (group.profile.source,),
    "projects": lambda group: (group.profile.project,),
    "roles": roles,
    "models": lambda group: group.profile.models,
}


def most_first(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
