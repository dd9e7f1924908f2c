"""The activity of a library by month, weekday and hour."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from recollect.language.text import EPOCH
from recollect.store.values import Activity

_MOST_MONTHS = 600  # a message of the year 1 must not make a list of thousands of months


def activity_report(activity: Activity) -> dict[str, Any]:
    """Numbers of messages, as JSON.

    Months have no gaps. Weekdays start on Monday, and hours are in UTC.
    """
    months: Counter[str] = Counter()
    weekdays, hours = [0] * 7, [0] * 24
    for day, count in activity.days:
        moment = EPOCH + timedelta(days=day)
        months[_month_name(moment)] += count
        weekdays[moment.weekday()] += count
    for hour, count in activity.hours:
        hours[hour] = count
    return {
        "months": [[month, months[month]] for month in _without_gaps(sorted(months))],
        "sources": [list(row) for row in activity.sources],
        "models": [list(row) for row in activity.models],
        "tools": [list(row) for row in activity.tools],
        "projects": [list(row) for row in activity.projects],
        "weekdays": weekdays,
        "hours": hours,
    }


def _month_name(moment: datetime) -> str:
    return f"{moment.year:04}-{moment.month:02}"


def _without_gaps(months: list[str]) -> list[str]:
    """All months from the first to the last."""
    if not months:
        return []
    first, last = _month_number(months[0]), _month_number(months[-1])
    if last - first > _MOST_MONTHS:
        return months
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in range(first, last + 1)]


def _month_number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[5:]) - 1
