"""Dates in other formats: 2023-03-14 is also 14.03.2023, March 14, 2023 or 14. März 2023."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from recollect.language.languages import LATIN
from recollect.language.languages.english import ENGLISH
from recollect.language.text import tokens

_FORMATS = (
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"),
    re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})"),
    # The month comes first in America only. So the order is known only if the day cannot be one.
    re.compile(r"(?P<month>\d{1,2})/(?P<day>1[3-9]|2\d|3[01])/(?P<year>\d{4})"),
    re.compile(r"(?P<day>1[3-9]|2\d|3[01])/(?P<month>\d{1,2})/(?P<year>\d{4})"),
)
_LAST_MONTH = 12
_WITH_PREPOSITIONS = ("es", "pt")  # 14 de marzo de 2023


def date_in(word: str) -> date | None:
    """The date that a word is, if its order of day and month is known."""
    for pattern in _FORMATS:
        match = pattern.fullmatch(word.strip(".,;:!?()"))
        if match is None:
            continue
        try:
            return date(int(match["year"]), int(match["month"]), int(match["day"]))
        except ValueError:  # such as 2023-02-30
            return None
    return None


def date_formats(day: date) -> list[tuple[str, ...]]:
    """The words of a date in each of its formats."""
    return list(dict.fromkeys(_formats(day)))


def _formats(day: date) -> Iterator[tuple[str, ...]]:
    year = str(day.year)
    yield year, f"{day.month:02}", f"{day.day:02}"
    for digits in ("02", ""):
        number, month = f"{day.day:{digits}}", f"{day.month:{digits}}"
        yield number, month, year
        if day.day > _LAST_MONTH:
            yield month, number, year
    number = str(day.day)
    for language in LATIN:
        for name in tokens(language.times.months[day.month - 1]):
            yield number, name, year
            if language.code in _WITH_PREPOSITIONS:
                yield number, "de", name, "de", year
    ordinal = number + _ordinal_ending(day.day)
    for name in tokens(ENGLISH.times.months[day.month - 1]):
        for each in (number, ordinal):
            yield name, each, year
        yield ordinal, name, year
        yield ordinal, "of", name, year


def _ordinal_ending(number: int) -> str:
    if number in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
