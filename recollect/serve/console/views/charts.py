"""Charts as SVG, drawn on the server.

They need no script. Every bar has its number as a tooltip and may be a link. A table has the same
numbers and links; people who do not use a mouse or see the drawing use that.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

Pairs = Sequence[tuple[str, int]]
Link = Callable[[str], str]
"""The URL that a bar opens, given its name; may be empty."""

WEEKDAYS = tuple(calendar.day_abbr)
# Drawn at their size on the page, so that the text has its normal size.
_WIDE, _NARROW = 880, 430
_HEIGHT = 200
_MAX_BAR_WIDTH = 44
_TOP_MARGIN, _BOTTOM_MARGIN, _LEFT_MARGIN, _RIGHT_MARGIN = 12, 22, 52, 20
_LABEL_CHAR = 7  # the width of a character
_MAX_BARS = 10
_BAR_ROW = 26
_BAR_LEFT, _MAX_BAR_LENGTH = 180, 195
_MAX_MONTHS = 60


def no_link(name: str) -> str:
    return ""


class Chart(NamedTuple):
    """A drawing and the numbers behind it."""

    title: str
    drawing: Markup
    headings: tuple[str, str]
    rows: tuple[tuple[str, int], ...]
    note: str = ""
    link: Link = no_link


def column_chart(
    title: str,
    pairs: Pairs,
    heading: str = "When",
    *,
    wide: bool = False,
    link: Link = no_link,
) -> Chart:
    """Vertical bars in the given order, for time."""
    rows = tuple((str(name), int(number)) for name, number in pairs)
    width = _NARROW
    if wide:
        width = _WIDE
    axis_end = round_up(max((number for _, number in rows), default=0))
    inner_width = width - _LEFT_MARGIN - _RIGHT_MARGIN
    inner_height = _HEIGHT - _TOP_MARGIN - _BOTTOM_MARGIN
    step = inner_width / max(1, len(rows))
    label_every = _label_interval(rows, inner_width)
    parts = [_grid(axis_end, inner_height, width)]
    for index, (name, number) in enumerate(rows):
        x = _LEFT_MARGIN + index * step
        if number:
            column = _column(name, number, x, step, inner_height * number / axis_end)
            parts.append(_linked(column, link(name)))
        if index % label_every == 0:
            parts.append(
                Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                    _format(x + step / 2), _HEIGHT - 6, name
                )
            )
    drawing = _svg(width, _HEIGHT, parts)
    return Chart(title, drawing, (heading, "Messages"), rows, link=link)


def _label_interval(rows: Pairs, inner_width: int) -> int:
    """Label every nth column, so that the labels do not overlap."""
    label_width = _LABEL_CHAR * max((len(name) for name, _ in rows), default=1) + 14
    max_labels = max(1, inner_width // label_width)
    return max(1, -(-len(rows) // max_labels))


def _column(name: str, number: int, x: float, step: float, height: float) -> Markup:
    width = min(step * 0.76, _MAX_BAR_WIDTH)
    # The invisible rectangle lets people hit a low column.
    return Markup(
        '<g><title>{name}: {number}</title><rect class="target" x="{left}" y="{top}" '
        'width="{step}" height="{full_height}"/>'
        '<rect class="bar" x="{x}" y="{y}" width="{width}" height="{height}" rx="2"/></g>'
    ).format(
        name=name,
        number=f"{number:,}",
        left=_format(x),
        top=_TOP_MARGIN,
        step=_format(step),
        full_height=_HEIGHT - _BOTTOM_MARGIN - _TOP_MARGIN,
        x=_format(x + (step - width) / 2),
        y=_format(_HEIGHT - _BOTTOM_MARGIN - height),
        width=_format(width),
        height=_format(max(height, 1)),
    )


def _linked(part: Markup, url: str) -> Markup:
    """A bar as a link, if it has a URL. The keyboard has the links of the table."""
    if not url:
        return part
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(url, part)


def bar_chart(
    title: str, pairs: Pairs, heading: str, unit: str = "Messages", link: Link = no_link
) -> Chart:
    """Horizontal bars, the longest first. Bars that do not fit are summed up in a note."""
    all_rows = [(str(name) or "(none)", int(number)) for name, number in pairs]
    rows = tuple(sorted(all_rows, key=lambda row: (-row[1], row[0])))
    longest = max((number for _, number in rows), default=0) or 1
    parts = [
        _linked(_bar(row, index, longest), link(row[0]))
        for index, row in enumerate(rows[:_MAX_BARS])
    ]
    rest = rows[_MAX_BARS:]
    note = ""
    if rest:
        rest_count = sum(number for _, number in rest)
        note = f"and {len(rest):,} more with {rest_count:,} {unit.lower()}"
    height = max(1, len(parts)) * _BAR_ROW + 4
    return Chart(title, _svg(_NARROW, height, parts), (heading, unit), rows, note, link)


def _bar(row: tuple[str, int], index: int, longest: int) -> Markup:
    name, number = row
    length = max(2.0, _MAX_BAR_LENGTH * number / longest)
    y = index * _BAR_ROW
    return Markup(
        "<g><title>{full_name}: {number}</title>"
        '<text class="name" x="0" y="{text_y}">{name}</text>'
        '<rect class="bar" x="{x}" y="{y}" width="{length}" height="16" rx="3"/>'
        '<text class="number" x="{end}" y="{text_y}">{number}</text></g>'
    ).format(
        full_name=name,
        name=_shorten(name),
        number=f"{number:,}",
        x=_BAR_LEFT,
        y=y + 4,
        text_y=y + 16,
        length=_format(length),
        end=_format(_BAR_LEFT + 6 + length),
    )


def fill_months(pairs: Pairs) -> list[tuple[str, int]]:
    """Every month from the first to the last, at most the last five years."""
    counts = {str(name): int(number) for name, number in pairs}
    months = [month for month in map(_month_number, counts) if month is not None]
    if not months:
        return []
    last = max(months)
    first = max(min(months), last - _MAX_MONTHS + 1)
    names = [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(first, last + 1)]
    return [(name, counts.get(name, 0)) for name in names]


def month_label(month: str) -> str:
    """2026-05 as "May 2026"."""
    year, _, number = month.partition("-")
    return f"{calendar.month_name[int(number)]} {year}"


def round_up(number: int) -> int:
    """A round number for the end of an axis."""
    size = 1
    while True:
        for factor in (1, 2, 3, 4, 5, 6, 8):
            if factor * size >= max(number, 1):
                return factor * size
        size *= 10


def _month_number(name: str) -> int | None:
    year, _, month = name.partition("-")
    if year.isdigit() and month.isdigit() and 1 <= int(month) <= 12:
        return int(year) * 12 + int(month) - 1
    return None


def _grid(axis_end: int, height: float, width: int) -> Markup:
    fractions = [0.0, 1.0]
    if axis_end > 1:
        fractions.insert(1, 0.5)
    lines = []
    for fraction in fractions:
        number = axis_end * fraction
        label = ""
        if number.is_integer():
            label = f"{number:,.0f}"
        y = _TOP_MARGIN + height * (1 - fraction)
        lines.append(
            Markup(
                '<line class="grid" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>'
                '<text x="{text_x}" y="{text_y}" text-anchor="end">{label}</text>'
            ).format(
                left=_LEFT_MARGIN,
                right=width,
                y=_format(y),
                text_x=_LEFT_MARGIN - 6,
                text_y=_format(y + 4),
                label=label,
            )
        )
    return Markup("").join(lines)


def _svg(width: int, height: int, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>').format(
        width, height, Markup("").join(parts)
    )


def _shorten(name: str) -> str:
    if len(name) <= 26:
        return name
    return name[:12] + "…" + name[-13:]


def _format(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
