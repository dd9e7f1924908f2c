"""The facets of a search: the values that it can be narrowed to, with exact counts."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recollect.model.kinds import KIND_TABLE
from recollect.model.search import MatchCounts
from recollect.model.sources import source_label
from recollect.serve.console.request_params import ListFilters
from recollect.serve.console.tabs import ALL_KINDS, CONVERSATIONS, TABS

_MAX_VALUES = 60
_PLURALS = {kind.name: kind.plural for kind in KIND_TABLE}


@dataclass(frozen=True, slots=True)
class FacetValue:
    name: str
    label: str
    count: int
    selected: bool


class Facet(NamedTuple):
    name: str
    """The parameter of the page's address; `month` stands for two of them."""
    label: str
    values: Sequence[FacetValue]
    hidden_count: int = 0
    """How many values are not shown."""

    @property
    def selection(self) -> FacetValue | None:
        for value in self.values:
            if value.selected:
                return value
        return None


def list_facets(
    counts: MatchCounts, filters: ListFilters, kind: str, selected_kind: str
) -> list[Facet]:
    """The facets that have something to choose. Only conversations have all of them.

    `kind` is what was searched, `selected_kind` what the person chose, if anything.
    """
    facets = []
    if not filters.count:  # filters are about conversations
        facets.append(_kind_facet(counts, selected_kind))
    if kind in (CONVERSATIONS, ALL_KINDS):
        facets += [
            _facet("source", "Source", counts.sources, filters.sources, source_label),
            _facet("project", "Project", counts.projects, filters.projects, str),
            _month_facet(counts, filters),
            _facet("model", "Model", counts.models, filters.models, str),
            _facet("role", "Role", counts.roles, filters.roles, str.capitalize),
        ]
    return [facet for facet in facets if len(facet.values) > 1 or facet.selection]


def _facet(
    name: str,
    label: str,
    counts: Sequence[tuple[str, int]],
    selection: Sequence[str],
    label_of: Callable[[str], str],
) -> Facet:
    values = [
        FacetValue(value, label_of(value), count, value in selection) for value, count in counts
    ]
    listed = {value for value, _ in counts}
    values += [
        FacetValue(value, label_of(value), 0, True) for value in selection if value not in listed
    ]
    values.sort(key=lambda value: not value.selected)
    return Facet(name, label, values[:_MAX_VALUES], max(0, len(values) - _MAX_VALUES))


def _kind_facet(counts: MatchCounts, kind: str) -> Facet:
    values = []
    for name, count in counts.kinds:
        plural = _PLURALS[name]
        values.append(FacetValue(plural, TABS[plural].label, count, plural == kind))
    listed = {value.name for value in values}
    if kind in TABS and kind not in listed:
        values.append(FacetValue(kind, TABS[kind].label, 0, True))
    return Facet("kind", "Kind", values)


def _month_facet(counts: MatchCounts, filters: ListFilters) -> Facet:
    """Months, newest first. Selecting one sets the two dates."""
    values = []
    for month, count in reversed(counts.months):
        selected = (filters.after, filters.before) == month_dates(month)
        values.append(FacetValue(month, _month_label(month), count, selected))
    return Facet("month", "Month", values[:_MAX_VALUES], max(0, len(values) - _MAX_VALUES))


def month_dates(month: str) -> tuple[str, str]:
    """The first and the last day of a month."""
    year, number = map(int, month.split("-"))
    last = calendar.monthrange(year, number)[1]
    return f"{month}-01", f"{month}-{last:02}"


def _month_label(month: str) -> str:
    year, number = month.split("-")
    return f"{calendar.month_abbr[int(number)]} {year}"
