"""Plots as SVG, drawn on the server: no script, every bar with its number as a title, and a table beside it."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

Pairs = Sequence[tuple[str, int]]

_BROAD, _NARROW = 880, 430  # as wide as they are shown, so that their text has its own size
_HEIGHT = 200
_WIDEST = 44
_TOP, _BOTTOM, _LEFT, _RIGHT = 12, 22, 52, 20
_BARS = 10
_MONTHS = 60
WEEKDAYS = tuple(calendar.day_abbr)


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure: the drawing, and the numbers behind it."""

    title: str
    drawing: Markup
    heads: tuple[str, str]
    rows: tuple[tuple[str, int], ...]
    note: str = ""


def columns(title: str, pairs: Pairs, head: str = "When", *, broad: bool = False) -> Chart:
    """Upright bars in the order given, as for time."""
    rows = tuple((str(name), int(number)) for name, number in pairs)
    top = nice_top(max((n for _, n in rows), default=0))
    width = _BROAD if broad else _NARROW
    inner_width, inner_height = width - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = inner_width / max(1, len(rows))
    parts = [_grid(top, inner_height, width)]
    bar = min(step * 0.76, _WIDEST)
    room = 7 * max((len(name) for name, _ in rows), default=1) + 14
    every = max(1, -(-len(rows) // max(1, inner_width // room)))
    for index, (name, number) in enumerate(rows):
        height = inner_height * number / top
        x = _LEFT + index * step
        if number:
            parts.append(
                Markup(
                    '<rect class="bar" x="{}" y="{}" width="{}" height="{}" rx="2"><title>{}: {}</title></rect>'
                ).format(
                    _n(x + (step - bar) / 2),
                    _n(_TOP + inner_height - height),
                    _n(bar),
                    _n(max(height, 1)),
                    name,
                    f"{number:,}",
                )
            )
        if index % every == 0:
            parts.append(
                Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                    _n(x + step / 2), _HEIGHT - 6, name
                )
            )
    return Chart(title, _svg(title, width, _HEIGHT, parts), (head, "Messages"), rows)


def bars(title: str, pairs: Pairs, head: str) -> Chart:
    """Lying bars, the longest first; what does not fit is put together."""
    rows = tuple(
        sorted(
            ((str(name) or "(none)", int(n)) for name, n in pairs),
            key=lambda row: (-row[1], row[0]),
        )
    )
    shown, rest = rows[:_BARS], rows[_BARS:]
    top = max((n for _, n in rows), default=0) or 1
    parts: list[Markup] = []
    for index, (name, number) in enumerate(shown):
        y = index * 26
        parts.append(
            Markup(
                "<g><title>{full}: {number}</title>"
                '<text class="name" x="0" y="{middle}">{name}</text>'
                '<rect class="bar" x="180" y="{y}" width="{width}" height="16" rx="3"/>'
                '<text class="number" x="{end}" y="{middle}">{number}</text></g>'
            ).format(
                full=name,
                name=_short(name),
                number=f"{number:,}",
                y=y + 4,
                middle=y + 16,
                width=_n(max(2.0, 195 * number / top)),
                end=_n(186 + max(2.0, 195 * number / top)),
            )
        )
    note = f"and {len(rest):,} more with {sum(n for _, n in rest):,} messages" if rest else ""
    return Chart(
        title,
        _svg(title, _NARROW, max(1, len(shown)) * 26 + 4, parts),
        (head, "Messages"),
        rows,
        note,
    )


def months(pairs: Pairs) -> list[tuple[str, int]]:
    """Every month from the first to the last, empty ones too; of very long times the last five years."""
    known = {str(name): int(number) for name, number in pairs}
    valid = sorted(name for name in known if _month(name) is not None)
    if not valid:
        return []
    first, last = _month(valid[0]), _month(valid[-1])
    assert first is not None and last is not None
    first = max(first, last - _MONTHS + 1)
    names = [f"{n // 12:04}-{n % 12 + 1:02}" for n in range(first, last + 1)]
    return [(name, known.get(name, 0)) for name in names]


def nice_top(highest: int) -> int:
    """The upper end of an axis: a round number that is not much higher."""
    size = 1
    while True:
        for factor in (1, 2, 3, 4, 5, 6, 8):
            if factor * size >= max(highest, 1):
                return factor * size
        size *= 10


def _month(name: str) -> int | None:
    year, _, month = name.partition("-")
    if year.isdigit() and month.isdigit() and 1 <= int(month) <= 12:
        return int(year) * 12 + int(month) - 1
    return None


def _grid(top: int, height: float, width: int) -> Markup:
    lines = []
    for share in (0.0, 0.5, 1.0) if top > 1 else (0.0, 1.0):
        y = _n(_TOP + height * (1 - share))
        lines.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}" text-anchor="end">{}</text>'
            ).format(
                _LEFT,
                width,
                y,
                y,
                _LEFT - 6,
                _n(float(y) + 4),
                f"{top * share:,.0f}" if top * share == int(top * share) else "",
            )
        )
    return Markup("").join(lines)


def _svg(title: str, width: int, height: int, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(width, height, title, Markup("").join(parts))


def _short(name: str) -> str:
    return name if len(name) <= 26 else name[:12] + "…" + name[-13:]


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
