"""What a library's activity looks like over months, weekdays and hours."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from recollect.language.text import EPOCH
from recollect.store.values import Activity


def activity_report(activity: Activity) -> dict[str, Any]:
    """Numbers of messages: by month without gaps, by weekday (Monday first) and hour (UTC), and by what
    the store counted."""
    months: Counter[str] = Counter()
    weekdays, hours = [0] * 7, [0] * 24
    for hour, count in activity.hours:
        at = EPOCH + timedelta(hours=hour)
        months[_month(at)] += count
        weekdays[at.weekday()] += count
        hours[at.hour] += count
    return {
        "months": [[month, months[month]] for month in _between(sorted(months))],
        "sources": [list(each) for each in activity.sources],
        "models": [list(each) for each in activity.models],
        "tools": [list(each) for each in activity.tools],
        "projects": [list(each) for each in activity.projects],
        "weekdays": weekdays,
        "hours": hours,
    }


def _month(at: datetime) -> str:
    return f"{at.year:04}-{at.month:02}"


_LONGEST = (
    600  # months that are filled up; a message of the year 1 must not make a list of thousands
)


def _between(months: list[str]) -> list[str]:
    """The months from the first to the last, also those in which nothing happened."""
    if not months:
        return []
    first, last = (int(m[:4]) * 12 + int(m[5:]) - 1 for m in (months[0], months[-1]))
    if last - first > _LONGEST:
        return months
    return [f"{n // 12:04}-{n % 12 + 1:02}" for n in range(first, last + 1)]
