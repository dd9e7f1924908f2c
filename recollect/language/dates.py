"""Dates in other formats: 2023-03-14 is also 14.03.2023, March 14, 2023 or 14. März 2023."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from recollect.language.languages import ENGLISH, LATIN
from recollect.language.text import tokens
from recollect.language.when import windows

_THREE_NUMBERS = re.compile(r"\W*\d+[-./]\d+[-./]\d+\W*")
# `windows` leaves out the future, but an appointment is a date as well.
_AFTER_ALL_DATES = datetime(2200, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_LAST_MONTH = 12
_DATE_LENGTH = 20  # characters, roughly
_MOST_NUMBERS = 100  # a text of numbers has few dates
_LEAP_YEAR = "2000"
_WITH_PREPOSITIONS = ("es", "pt")  # 14 de marzo de 2023
_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def formats_in(word: str) -> list[tuple[str, ...]]:
    """The words of the date that a word is, in each of its formats.

    Empty if it is none, or may be two, such as 3/4/2023. `--03-14` is March 14 of any year.
    """
    if word.startswith("--") and word[2:4].isdigit():
        return list(dict.fromkeys(_names(date.fromisoformat(f"{_LEAP_YEAR}{word[1:]}"))))
    if _THREE_NUMBERS.fullmatch(word):
        for period in windows(word, _AFTER_ALL_DATES):
            if period.end - period.start == _DAY:
                return list(dict.fromkeys(_formats(period.start.date())))
    return []


def mentions_day(text: str, day: date) -> bool:
    """Whether a text mentions a day of some year. "Version 1 may break" does not mention May 1."""
    numbers = re.finditer(rf"(?<![0-9])0?{day.day}(?![0-9])", text)
    for number in islice(numbers, _MOST_NUMBERS):
        around = text[max(number.start() - _DATE_LENGTH, 0) : number.end() + _DATE_LENGTH]
        for period in windows(around, _AFTER_ALL_DATES):
            if (period.start.month, period.start.day) == (day.month, day.day):
                return True
    return False


def names_day(text: str, day: date) -> bool:
    """Whether a text has the number of a day: "July 15th", but not "yesterday"."""
    return not {str(day.day), f"{day.day:02}", ordinal(day)}.isdisjoint(tokens(text))


def ordinal(day: date) -> str:
    return f"{day.day}{_ENDINGS.get(day.day, 'th')}"


def _formats(day: date) -> Iterator[tuple[str, ...]]:
    year = str(day.year)
    yield year, f"{day.month:02}", f"{day.day:02}"
    for digits in ("02", ""):
        number, month = f"{day.day:{digits}}", f"{day.month:{digits}}"
        yield number, month, year
        if day.day > _LAST_MONTH:
            yield month, number, year
    for names in _names(day):
        yield *names, year
        if "de" in names:
            yield *names, "de", year


def _names(day: date) -> Iterator[tuple[str, ...]]:
    """The day and the name of the month."""
    number = str(day.day)
    for language in LATIN:
        for name in tokens(" ".join(language.times.months[day.month - 1])):
            yield number, name
            if language.code in _WITH_PREPOSITIONS:
                yield number, "de", name
    for name in ENGLISH.times.months[day.month - 1]:
        yield name, number
        yield name, ordinal(day)
        yield ordinal(day), name
        yield ordinal(day), "of", name
