"""Dates in other formats: 2023-03-14 is also 14.03.2023, March 14, 2023 or 14. März 2023.

English days are also written out, such as the twenty-first of March.
"""

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
_DAY_OF_YEAR = re.compile("--[0-9]{2}-[0-9]{2}")
_LEAP_YEAR = "2000"
_THIRTY = 30
_WITH_PREPOSITIONS = ("es", "pt")  # 14 de marzo de 2023


def formats_in(word: str) -> list[tuple[str, ...]]:
    """The words of the date that a word is, in each of its formats; empty if it is none.

    `--03-14` is March 14 of any year.
    """
    if _DAY_OF_YEAR.fullmatch(word):
        return list(dict.fromkeys(_names(date.fromisoformat(f"{_LEAP_YEAR}{word[1:]}"))))
    day = date_in(word)
    if day is None:
        return []
    return date_formats(day)


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
    return list(dict.fromkeys(formats(day)))


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
    number = str(day.day)
    return not {number, f"{day.day:02}", number + ordinal_ending(day.day)}.isdisjoint(tokens(text))


def formats(day: date) -> Iterator[tuple[str, ...]]:
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
    ordinal = (number + ordinal_ending(day.day),)
    for name in ENGLISH.times.months[day.month - 1]:
        yield name, number
        for each in (ordinal, ordinal_words(day.day)):
            yield name, *each
            yield *each, name
            yield *each, "of", name


def ordinal_words(number: int) -> tuple[str, ...]:
    """The words of an ordinal up to 31, such as twenty first."""
    ordinals = ENGLISH.fields.table("times").words("ordinal_words")
    if number <= len(ordinals):
        return (ordinals[number - 1],)
    if number == _THIRTY:
        return ("thirtieth",)
    return "twenty" if number < _THIRTY else "thirty", ordinals[number % 10 - 1]


def ordinal_ending(number: int) -> str:
    if number in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
