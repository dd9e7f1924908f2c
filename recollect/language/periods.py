"""Periods at a point in time: the English rules for them, and what the rules mean.

A rule is a pattern for the encoded text (see `language.when`) and its meaning, a method of
`Calendar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import cache

from recollect.language.languages import ENGLISH

Span = tuple[datetime, datetime]
DIGITS = re.compile("[0-9]+")
_FOUR_DIGITS = re.compile("[0-9]{4}")
_LONG_AGO = datetime(1, 1, 2)  # a day that exists in every time zone
_MONTHS_PER_UNIT = {"month": 1, "year": 12}
_TIME_PER_UNIT = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
_SHORT_SLACK = {"minute": timedelta(minutes=15), "hour": timedelta(hours=1)}
_VAGUE = {"few": (2, 5), "several": (3, 8)}
_PARTS = {  # start and end, in twentieths of the period
    "early": (0, 8),
    "mid": (6, 14),
    "late": (12, 20),
    "beginning": (0, 5),
    "start": (0, 5),
    "middle": (6, 14),
    "end": (15, 20),
}
NUMERIC_DATE = (
    "(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}(?:-[0-9]{2})?|/[0-9]{2}/[0-9]{2})(?:t[0-9:.]+z?)?"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2})"
)
_NUMERIC = re.compile(NUMERIC_DATE)


@cache
def moments() -> dict[str, str]:
    """The English adverbs of time. Each has the day and hour of its start and of its end."""
    return ENGLISH.fields.table("times").mapping("spans")


def _days(first: date, length: int = 1) -> Span:
    return datetime.combine(first, time()), datetime.combine(first + timedelta(length), time())


def months(year: int, month: int, length: int = 1) -> Span:
    end_year, end_month = divmod(year * 12 + month - 1 + length, 12)
    return datetime(year, month, 1), datetime(end_year, end_month + 1, 1)


def part_of(start: datetime, end: datetime, part: str) -> Span:
    first, last = _PARTS[part]
    days = (end - start).days
    return start + timedelta(days * first // 20), start - timedelta(-days * last // 20)


def _count(words: str) -> tuple[int, int]:
    """The smallest and largest number that `three`, `2-3`, `a couple of` or `a few` can mean."""
    for word, limits in _VAGUE.items():
        if word in words:
            return limits
    numbers = [int(n) for n in DIGITS.findall(words)] or [1]
    return min(numbers), max(numbers)


def _slack(unit: str, count: int) -> timedelta:
    """How imprecise "`count` units ago" is, in either direction."""
    days = {
        "day": (count + 5) // 7,
        "week": 3 + count // 4,
        "month": min(10 + 2 * count, 30),
        "year": min(30 + 30 * count, 183),
    }
    return timedelta(days[unit])


class Calendar:
    """What words mean at a point in time.

    The public methods are the meanings of `english_rules`. They raise ValueError or OverflowError
    if there is no such time. If `in_future`, a period that recurs is one that is to come.
    """

    def __init__(self, now: datetime, *, in_future: bool = False) -> None:
        self._now = now
        self._in_future = in_future
        self._today = now.date()
        self._monday = self._today - timedelta(self._today.weekday())
        self.tomorrow = _days(self._today)[1]

    # -- meanings of rules ---

    def nothing(self, match: re.Match[str]) -> Span:
        raise ValueError

    def moment(self, match: re.Match[str]) -> Span:
        return self._moment(match["moment"])

    def ago(self, match: re.Match[str]) -> Span:
        unit = match["unit"].removesuffix("s")
        return self._ago(*_count(match["count"]), unit)

    def half_ago(self, match: re.Match[str]) -> Span:
        if match["unit"] == "year":
            return self._ago(6, 6, "month")
        return self._ago(30, 30, "minute")

    def weekday_ago(self, match: re.Match[str]) -> Span:
        return self._weekday(int(match["weekday"][1:]), _count(match["count"])[0])

    def weekday_of_week(self, match: re.Match[str]) -> Span:
        weeks_ago = int(match["which"] == "last")
        return self._weekday(int(match["weekday"][1:]), weeks_ago)

    def up_to_now(self, match: re.Match[str]) -> Span:
        count = 1
        if "count" in match.groupdict():
            _, count = _count(match["count"])
        return self._back(count, match["unit"].removesuffix("s")), self.tomorrow

    def before_last(self, match: re.Match[str]) -> Span:
        last = f"last {match['unit']}"
        return Calendar(self._period(last)[0])._period(last)

    def week_of(self, match: re.Match[str]) -> Span:
        start, _ = self._period(match["period"])
        return _days(start.date() - timedelta(start.weekday()), 7)

    def period(self, match: re.Match[str]) -> Span:
        return self._period(match[0])

    def since(self, match: re.Match[str]) -> Span:
        return self._period(match["period"])[0], self.tomorrow

    def before_or_after(self, match: re.Match[str]) -> Span:
        start, end = self._period(match["period"])
        if match["side"] == "before":
            return _LONG_AGO, start
        return end, self.tomorrow

    def between(self, match: re.Match[str]) -> Span:
        first, last = match["first"], match["last"]
        year = _FOUR_DIGITS.search(first)
        if year is None or last[0] not in "MPQ" or _FOUR_DIGITS.search(last):
            start, end = self._period(last)
            return Calendar(start)._period(first)[0], end
        # "between May 2023 and July": July of the same year, or of the next one
        start, _ = self._period(first)
        _, end = self._period(f"{last} Y{year[0]}")
        if end <= start:
            _, end = self._period(f"{last} Y{int(year[0]) + 1}")
        return start, end

    # -- meanings of words ---

    def _moment(self, words: str) -> Span:
        day, hour, end_day, end_hour = map(int, moments()[words].split())
        midnight, _ = _days(self._today)
        return midnight + timedelta(day, hours=hour), midnight + timedelta(end_day, hours=end_hour)

    def _back(self, count: int, unit: str) -> datetime:
        """The time some minutes or hours ago; for longer units, the start of that day."""
        if unit in ("minute", "hour"):
            return self._now - count * _TIME_PER_UNIT[unit]
        if unit in ("day", "week"):
            return _days(self._today - count * _TIME_PER_UNIT[unit])[0]
        this_month = self._today.year * 12 + self._today.month - 1
        year, month = divmod(this_month - count * _MONTHS_PER_UNIT[unit], 12)
        start, end = months(year, month + 1)
        return start + min(timedelta(self._today.day), end - start) - timedelta(1)

    def _ago(self, least: int, most: int, unit: str) -> Span:
        start, end = self._back(most, unit), self._back(least, unit)
        if unit in _SHORT_SLACK:
            slack = _SHORT_SLACK[unit]
            return start - slack, min(end + slack, self.tomorrow)
        end += timedelta(1) + _slack(unit, least)
        return start - _slack(unit, most), min(end, self.tomorrow)

    def _weekday(self, weekday: int, weeks_ago: int) -> Span:
        return _days(self._monday + timedelta(weekday - 7 * weeks_ago))

    def _period(self, words: str) -> Span:
        """A day, week, weekend, month, season or year, or a part of one."""
        parts = words.replace(",", " ").split()
        for word in parts:
            if word in _PARTS:
                parts.remove(word)
                return self._part_of_period(parts, word)
        return self._whole_period(parts)

    def _part_of_period(self, words: list[str], part: str) -> Span:
        start, end = part_of(*self._whole_period(words), part)
        # In early May, "late May" is that of last year.
        if start >= self.tomorrow and not self._in_future:
            start, end = part_of(*self._whole_period([*words, "last"]), part)
        return start, end

    def _whole_period(self, words: list[str]) -> Span:
        which = next((word for word in words if word in ("last", "past", "this")), "")
        year = number_after("Y", words)
        weekday = number_after("W", words)
        for word in words:
            if word[0] in "MPQS" or word == "christmas":
                if "year" in words:  # "in May of last year"
                    year, which = self._today.year - (which == "last"), ""
                if year is not None:
                    weekday = None
                return self._yearly(_recurring(word, day_numbers(words), weekday), year, which)
            if word == "yesterday":
                return self._moment(word)
            if _NUMERIC.fullmatch(word):
                return numeric_date(word)
        if weekday is not None:
            return self._latest_weekday(weekday, which)
        if year:
            return months(year, 1, 12)
        return self._calendar_unit(words[-1], which)

    def _latest_weekday(self, weekday: int, which: str) -> Span:
        """The weekday of this week if it is over or follows "this"; otherwise that of last week."""
        if self._in_future and not which:
            raise ValueError
        start, end = self._weekday(weekday, 0)
        if which == "this" or end < self.tomorrow:
            return start, end
        return self._weekday(weekday, 1)

    def _yearly(self, recurring: Callable[[int], Span], year: int | None, which: str) -> Span:
        """A period that recurs every year: in `year`, or the latest that has begun or is over."""
        if year is not None:
            return recurring(year)
        if self._in_future and not which:
            raise ValueError
        midnight, _ = _days(self._today)
        for past_year in range(self._today.year, self._today.year - 12, -1):
            try:
                start, end = recurring(past_year)
            except ValueError:  # February 29, or a different weekday
                continue
            if which == "this" and end <= midnight and past_year < self._today.year:
                break  # this year's is yet to come
            deadline = start
            if which in ("last", "past"):
                deadline = end
            if deadline <= midnight:
                return start, end
        raise ValueError

    def _calendar_unit(self, unit: str, which: str) -> Span:
        """This or the last week, weekend, month or year."""
        back = int(which != "this")
        if unit == "week":
            return _days(self._monday - timedelta(7 * back), 7)
        if unit == "weekend":
            saturday = self._monday + timedelta(5)
            has_begun = not which and saturday <= self._today
            if which != "this" and not has_begun:
                saturday -= timedelta(7)
            return _days(saturday, 2)
        if unit == "month":
            year, month = divmod(self._today.year * 12 + self._today.month - 1 - back, 12)
            return months(year, month + 1)
        return months(self._today.year - back, 1, 12)


def number_after(letter: str, words: list[str]) -> int | None:
    """The number of the first word that begins with this letter."""
    for word in words:
        if word[0] == letter:
            return int(word[1:])
    return None


def day_numbers(words: list[str]) -> list[int]:
    """The days of the month among the words."""
    numbers: list[int] = []
    for word in words:
        if word[0] in "O0123456789":
            numbers += map(int, DIGITS.findall(word))
    return numbers


def _recurring(name: str, days: list[int], weekday: int | None) -> Callable[[int], Span]:
    """A function that gives the period of this name in a year.

    It raises ValueError for a year in which the day is not this weekday.
    """
    if name == "christmas":
        return lambda year: _days(date(year, 12, 24), 3)
    month = int(name[1:])
    if not days and name[0] == "S":
        return lambda year: months(year, month, 3)
    if not days:
        return lambda year: months(year, month)

    def span(year: int) -> Span:
        first, last = date(year, month, days[0]), date(year, month, days[-1])
        if weekday not in (None, first.weekday()):
            raise ValueError
        return _days(first, max((last - first).days, 0) + 1)

    return span


def numeric_date(word: str) -> Span:
    numbers = [int(n) for n in DIGITS.findall(word)]
    if numbers[0] > 31:  # 2023-05-08 or 2023-05
        year, month, *day = numbers[:3]
        if not day:
            return months(year, month)
        return _days(date(year, month, day[0]))
    first, second, year = numbers
    if "." in word or first > 12:
        return _days(date(year, second, first))
    if second > 12 or first == second:
        return _days(date(year, first, second))
    raise ValueError  # 5/8/2023 can be two different days


# -- rules ---

UNIT_NAMES = ("minute", "hour", "day", "week", "month", "year")


def any_of(*names: str) -> str:
    """A pattern for any of the names, longest first."""
    return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"


YEAR = "Y[0-9]{4}"
_FRAGMENT = re.compile("{([A-Z_]+)}")
WEEKDAY = "W[0-6]"
SEASON = "S[0-9]+"

Meaning = Callable[[Calendar, re.Match[str]], Span]
Rules = list[tuple[re.Pattern[str], Meaning]]


@cache
def english_rules() -> Rules:
    """Compiled on first use, because compiling takes longer than the rest of starting up."""
    fields = ENGLISH.fields.table("times")
    fragments = {
        "YEAR": YEAR,
        "WEEKDAY": WEEKDAY,
        "SEASON": SEASON,
        "NUMERIC_DATE": NUMERIC_DATE,
        "MOMENT": any_of(*moments()),
        "UNIT_NAME": "|".join(UNIT_NAMES),
    }

    def expand(pattern: str) -> str:
        return _FRAGMENT.sub(lambda fragment: fragments[fragment[1]], pattern)

    for name, pattern in fields.pairs("fragments"):
        fragments[name] = expand(pattern)
    return [
        (compile_rule(expand(pattern)), getattr(Calendar, meaning))
        for pattern, meaning in fields.pairs("meanings")
    ]


def compile_rule(pattern: str) -> re.Pattern[str]:
    """A pattern that matches whole words."""
    return re.compile(rf"(?<!\S)(?:{pattern})(?!\S)")
