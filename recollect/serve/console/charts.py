"""The activity page: its charts, which templates draw as SVG.

They need no script. Every bar has its number as a tooltip and may be a link. A table has the same
numbers and links; people who do not use a mouse or see the drawing use that.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from starlette.responses import Response

from recollect.model.sources import source_label
from recollect.serve import links
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.lists import Filters, frame
from recollect.serve.console.tabs import CONVERSATIONS
from recollect.serve.console.templating import page
from recollect.serve.http.access import AccessTo
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import READ

routes = Routes(route_class=PageRoute)

Pairs = Sequence[tuple[str, int]]

_MAX_MONTHS = 60
_MAX_BARS = 10
_MARGINS = 72  # left of the first column, and right of the last
_LABEL_CHAR = 7  # the width of a character
_SIZES: list[int] = [10**power for power in range(18)]


@dataclass(frozen=True)
class Chart:
    """Numbers by name: columns in the given order for time, else bars, the longest first."""

    title: str
    heading: str
    rows: Sequence[tuple[str, int]]
    unit: str = "Messages"
    link: Callable[[str], str] = lambda name: ""
    """The URL that a bar opens, given its name; may be empty."""
    columns: bool = False
    width: int = 430
    """Columns are drawn at their size on the page, so that the text has its normal size."""

    @property
    def highest(self) -> int:
        return max((number for _, number in self.rows), default=0) or 1

    @property
    def axis_end(self) -> int:
        return round_up(self.highest)

    @property
    def step(self) -> float:
        """From one column to the next."""
        return (self.width - _MARGINS) / max(1, len(self.rows))

    @property
    def label_every(self) -> int:
        """Label every nth column, so that the labels do not overlap."""
        label_width = _LABEL_CHAR * max((len(name) for name, _ in self.rows), default=1) + 14
        return max(1, ceil(label_width / self.step))

    @property
    def note(self) -> str:
        """The sum of the bars that do not fit."""
        rest = () if self.columns else self.rows[_MAX_BARS:]
        count = sum(number for _, number in rest)
        return f"and {len(rest):,} more with {count:,} {self.unit.lower()}" if rest else ""


@routes.add("GET /activity", READ, CONVERSATIONS)
def activity(access: AccessTo, filters: Filters) -> Response:
    with access.read() as library:
        numbers = library.activity()
        values = frame(library, CONVERSATIONS, filters)
    months = fill_months(numbers["months"])
    charts = activity_charts(numbers, months)
    return page(
        access.request,
        "activity.html",
        charts=[chart for chart in charts if any(number for _, number in chart.rows)],
        total=sum(number for _, number in numbers["sources"]),
        first_month=month_name(months[0][0]) if months else "",
        **values,
    )


def activity_charts(numbers: dict[str, Any], months: Pairs) -> list[Chart]:
    source_names = {source_label(name): name for name, _ in numbers["sources"]}
    sources = [(source_label(name), number) for name, number in numbers["sources"]]
    weekdays = list(zip(calendar.day_abbr, numbers["weekdays"], strict=True))
    hours = [(f"{hour:02}", number) for hour, number in enumerate(numbers["hours"])]

    def search(query: str, **filters: str) -> str:
        return "/?" + links.query({"q": query} | filters)

    return [
        Chart(
            "Messages per month",
            "Month",
            months,
            link=lambda month: search(f"role:user after:{month} before:{month}"),
            columns=True,
            width=880,
        ),
        Chart(
            "By source",
            "Source",
            longest_first(sources),
            link=lambda label: search("role:user", source=source_names.get(label, label)),
        ),
        Chart(
            "Busiest projects",
            "Project",
            longest_first(numbers["projects"]),
            link=lambda name: search("role:user", project=name),
        ),
        Chart(
            "Replies by model",
            "Model",
            longest_first(numbers["models"]),
            "Replies",
            link=lambda name: search("role:assistant", model=name),
        ),
        Chart("Tool calls", "Tool", longest_first(numbers["tools"]), "Calls"),
        Chart("By weekday", "Weekday", weekdays, columns=True),
        Chart("By hour (UTC)", "Hour", hours, columns=True),
    ]


def longest_first(pairs: Pairs) -> list[tuple[str, int]]:
    rows = [(str(name) or "(none)", int(number)) for name, number in pairs]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def fill_months(pairs: Pairs) -> list[tuple[str, int]]:
    """Every month from the first to the last, at most the last five years."""
    counts = {str(name): int(number) for name, number in pairs}
    months = [month for month in map(month_number, counts) if month is not None]
    if not months:
        return []
    last = max(months)
    first = max(min(months), last - _MAX_MONTHS + 1)
    names = [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(first, last + 1)]
    return [(name, counts.get(name, 0)) for name in names]


def month_number(name: str) -> int | None:
    year, _, month = name.partition("-")
    if year.isdigit() and month.isdigit() and 1 <= int(month) <= 12:
        return int(year) * 12 + int(month) - 1
    return None


def month_name(month: str) -> str:
    """2026-05 as "May 2026"."""
    year, _, number = month.partition("-")
    return f"{calendar.month_name[int(number)]} {year}"


def round_up(number: int) -> int:
    """A round number for the end of an axis."""
    ends = (factor * size for size in _SIZES for factor in (1, 2, 3, 4, 5, 6, 8))
    return next(end for end in ends if end >= number)
