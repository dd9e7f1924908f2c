"""Dates in other formats: 2023-03-14 is also 14.03.2023, March 14, 2023 or 14. März 2023."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from recollect.language.languages import LATIN
from recollect.language.languages.english import ENGLISH
from recollect.language.text import tokens
from recollect.language.when import windows

_THREE_NUMBERS = re.compile(r"\W*\d+[-./]\d+[-./]\d+\W*")
# `windows` leaves out the future, but an appointment is a date as well.
_AFTER_ALL_DATES = datetime(2200, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_LAST_MONTH = 12
_WITH_PREPOSITIONS = ("es", "pt")  # 14 de marzo de 2023


def date_in(word: str) -> date | None:
    """The date that a word is; None for one such as 3/4/2023, which may be two."""
    if not _THREE_NUMBERS.fullmatch(word):
        return None
    for period in windows(word, _AFTER_ALL_DATES):
        if period.end - period.start == _DAY:
            return period.start.date()
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
