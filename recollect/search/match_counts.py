"""Count all matches of a query, by kind, source, project, month, model and role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar

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
from recollect.store.values import DocumentGroup, PassageGroup

_NO_ROLE = "none"

_Group = PassageGroup | DocumentGroup
_T = TypeVar("_T", PassageGroup, DocumentGroup)


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

    def selected(groups: Sequence[_T], ignoring: str = "") -> list[_T]:
        """The groups of conversations that pass the filter, except for one of its fields."""
        return [
            group
            for group in groups
            if group.profile.kind == CONVERSATION
            and all(
                field == ignoring
                or not getattr(filter, field)
                or not names(group).isdisjoint(getattr(filter, field))
                for field, names in _NAMES.items()
            )
        ]

    def count(field: str) -> tuple[tuple[str, int], ...]:
        counts: Counter[str] = Counter()
        for group in selected(matches.passages, ignoring=field):
            for name in _NAMES[field](group):
                counts[name] += group.matches
        return most_first(counts)

    months: Counter[str] = Counter()
    passages, documents = selected(matches.passages), selected(matches.documents)
    messages = sum(group.matches for group in passages)
    # The filter selects conversations, so other kinds are counted without it.
    kinds = Counter({CONVERSATION: messages})
    for group in matches.documents:
        if group.profile.kind != CONVERSATION and group.profile.kind in filter.kinds:
            kinds[group.profile.kind] += group.documents
    for each in passages:
        months.update(each.months)
    return MatchCounts(
        messages=messages,
        conversations=sum(each.documents for each in documents),
        exact=matches.is_complete,
        kinds=most_first(+kinds),
        sources=count("sources"),
        projects=count("projects"),
        months=tuple(sorted(months.items())),
        models=count("models"),
        roles=count("roles"),
    )


def roles(group: _Group) -> set[str]:
    own = {group.role} if isinstance(group, PassageGroup) else set(group.roles)
    return {role or _NO_ROLE for role in own}


_NAMES: Mapping[str, Callable[[_Group], Set[str]]] = {
    "sources": lambda group: {group.profile.source},
    "projects": lambda group: {group.profile.project},
    "roles": roles,
    "models": lambda group: set(group.profile.models),
}
"""The names of a group for each field of a filter."""


def most_first(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
