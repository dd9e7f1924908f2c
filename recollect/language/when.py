"""The periods that a question names ("last week", "in May 2023"), and the words for a date.

`windows` serves ranking, as a mild preference, never as a filter. So ambiguous words are ignored:
a month needs a word like `in`, a day or a year next to it ("I may", "march on", "fall" and
"second" are not times), a weekday needs `on`, `last`, `this` or `since`, and a number alone is not
a year. Periods entirely in the future are ignored.

How wide a period is:

- A day is that day and a month that month, in the time zone of `now`. Weeks begin on Monday.
- "N days ago" is that day, plus or minus (N + 5) // 7 days. For weeks it is 3 + N // 4 days; for
  months 10 + 2 N days, at most 30; for years 30 + 30 N days, at most 183; for hours 1 hour; for
  minutes 15 minutes. "A couple" is two, "a few" is two to five, "several" three to eight.
- "Last week", "last month" and "last year" are calendar periods. "The past week" and "the last N
  weeks" end today.
- "Early", "mid" and "late" are two fifths of a month or year, "beginning" and "end" a quarter.
- "Recently" and "lately" are the last 30 days. "The other day" is one of the last ten.
- Seasons are those of the northern hemisphere, in whole months. "Winter 2023" begins in December
  2023.
- A period that recurs every year or week is the latest one that has begun. A weekday, and anything
  with "last", is the latest one that is over. "Monday, May 8" is the latest May 8 on a Monday.

The rules are English. Expressions in another language are translated into English by the rules of
that language (`language.languages`), so they mean exactly the same.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache

from recollect.language.detection import language_of
from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH


@dataclass(frozen=True, slots=True)
class Window:
    """A period from `start` up to `end`, without `end`, and the words that name it."""

    start: datetime
    end: datetime
    words: str


def windows(text: str, now: datetime) -> tuple[Window, ...]:
    """The periods that a text names, in the order of the text.

    `now` is the time they are relative to; it must have a time zone.
    """
    language = language_of(text)
    line = _Line(text, language)
    if not _may_name_a_time(line.text, language):
        return ()
    calendar = _Calendar(now.replace(tzinfo=None))
    places: dict[Span, tuple[int, int]] = {}
    for rule, meaning in _rules(language):
        for match in rule.finditer(line.text):
            if not line.claim(match):
                continue
            try:
                start, end = meaning(calendar, match)
            except (ValueError, OverflowError):  # there is no such day
                continue
            if start < min(end, calendar.tomorrow):
                places.setdefault((start, end), line.place(match))
    return tuple(
        Window(start.replace(tzinfo=now.tzinfo), end.replace(tzinfo=now.tzinfo), text[first:last])
        for (start, end), (first, last) in sorted(places.items(), key=lambda item: item[1])
    )


def date_words(moment: datetime) -> str:
    """The words under which a date is found, such as `2023-05-08 8 May 2023 Monday`."""
    month, weekday = _MONTHS[moment.month - 1].title(), _WEEKDAYS[moment.weekday()].title()
    return f"{moment.date()} {moment.day} {month} {moment.year} {weekday}"


# -- words -------------------------------------------------------------------

_MONTHS = tuple(names.split()[0] for names in ENGLISH.times.months)
_WEEKDAYS = ENGLISH.times.weekdays
_AMBIGUOUS_MONTHS = ("may", "march")  # certainly months only with a capital letter
_SEASON = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
_VAGUE = {"few": (2, 5), "several": (3, 8)}
_PART = {  # start and end, in twentieths of the period
    "early": (0, 8),
    "mid": (6, 14),
    "late": (12, 20),
    "beginning": (0, 5),
    "start": (0, 5),
    "middle": (6, 14),
    "end": (15, 20),
}
_MOMENT = {  # start day and hour, end day and hour, relative to today
    "today": (0, 0, 1, 0),
    "this morning": (0, 0, 0, 12),
    "this afternoon": (0, 12, 0, 18),
    "this evening": (0, 17, 1, 0),
    "tonight": (0, 18, 1, 6),
    "last night": (-1, 18, 0, 6),
    "yesterday": (-1, 0, 0, 0),
    "yesterday morning": (-1, 0, -1, 12),
    "yesterday afternoon": (-1, 12, -1, 18),
    "yesterday evening": (-1, 17, 0, 0),
    "yesterday night": (-1, 18, 0, 6),
    "day before yesterday": (-2, 0, -1, 0),
    "the other day": (-10, 0, 0, 0),
    "recently": (-30, 0, 1, 0),
    "lately": (-30, 0, 1, 0),
}
_UNIT_NAMES = ("minute", "hour", "day", "week", "month", "year")

_YEAR_NUMBER = re.compile("(?:19[7-9]|20[0-9])[0-9]")
_DAY_FIRST = re.compile("([0-9]{1,2})[/-]([0-9]{1,2})[/-]((?:19|20)[0-9]{2})")
# 2023-05-08, 1.5, 10:30, 1,000
_NUMBER_PIECE = r"[0-9]+(?:[-./:][0-9]+|,[0-9]{1,3}(?![0-9]))++(?:[Tt][0-9:.]+[Zz]?)?(?!\w)"
_PIECE = re.compile(rf"{_NUMBER_PIECE}|\w+(?:'\w+)*")
_CHARACTER = re.compile(r"\S")
_PIECE_WITH_ELISION = re.compile(rf"{_NUMBER_PIECE}|\w+'?")


class _Line:
    """A text normalized for the rules.

    Words are lower case, without accents and separated by single spaces. `,` stands for any
    punctuation, `-` for a hyphen. What the rules mention most is a capital letter and a number:
    M a month, P possibly a month, Q a month only next to a number, W a weekday, S a season (by its
    first month), N a number word, O an ordinal, Y a year. In other languages than English, U is a
    unit, followed by its English name. In an unspaced language, the text is only without spaces.
    """

    def __init__(self, text: str, language: Language) -> None:
        plain = text.translate({0x2019: "'", 0x2013: "-", 0x2014: "-"})
        piece_pattern = _PIECE
        if language.unspaced:
            piece_pattern = _CHARACTER
        elif "'" in language.joiners:
            piece_pattern = _PIECE_WITH_ELISION
        self._spans = [piece.span() for piece in piece_pattern.finditer(plain)]
        self._starts: list[int] = []  # where each piece starts in the normalized text
        self._claimed = bytearray(len(self._spans))
        self.text = ""
        previous_end = 0
        previous_word = ""
        for start, end in self._spans:
            if self.text:
                self.text += _separator(previous_word, plain[previous_end:start], language)
            self._starts.append(len(self.text))
            previous_word = plain[start:end]
            previous_end = end
            self.text += _encode_word(previous_word, language)

    def claim(self, match: re.Match[str]) -> bool:
        """Reserve the words of a match; False if another rule has one of them."""
        pieces = self._pieces(match)
        if any(self._claimed[pieces]):
            return False
        self._claimed[pieces] = b"\1" * (pieces.stop - pieces.start)
        return True

    def place(self, match: re.Match[str]) -> tuple[int, int]:
        """The start and end of the words of a match in the original text."""
        pieces = self._pieces(match)
        return self._spans[pieces.start][0], self._spans[pieces.stop - 1][1]

    def _pieces(self, match: re.Match[str]) -> slice:
        first = bisect_left(self._starts, match.start())
        last = bisect_left(self._starts, match.end())
        return slice(first, last)


def _encode_word(text: str, language: Language) -> str:
    """A word as the rules see it; see `_Line`."""
    if language.unspaced:
        return unicodedata.normalize("NFKC", text)
    word = _plain(text).removesuffix("'s")
    code = _codes(language).get(word)
    if code is not None:
        if code[0] == "M" and language is ENGLISH:
            return _month_letter(text, word) + code[1:]
        return code
    if _YEAR_NUMBER.fullmatch(word):
        return "Y" + word
    if language is not ENGLISH:
        word = _DAY_FIRST.sub(r"\1.\2.\3", word)
    number = word.rstrip(_LETTERS)
    if number.isdigit() and len(number) <= 2 and word[len(number) :] in language.times.ordinals:
        return "O" + number
    return word


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _plain(text: str) -> str:
    """The text in lower case, without accents."""
    letters = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return "".join(letters).casefold()


@cache
def _codes(language: Language) -> dict[str, str]:
    """The codes of the words of a language; see `_Line`."""
    times = language.times
    codes = {}
    for number, names in enumerate(times.months, start=1):
        for name in names.split():
            codes[_plain(name)] = f"M{number}"
    for number, names in enumerate(times.weekdays):
        for name in names.split():
            codes[_plain(name)] = f"W{number}"
    for name, season in times.seasons.items():
        codes[_plain(name)] = f"S{_SEASON[season]}"
    for number, names in enumerate(times.numbers, start=1):
        for name in names.split():
            codes[_plain(name)] = f"N{number}"
    for name, unit in times.units.items():
        codes[_plain(name)] = f"U{unit}"
    return codes


def _month_letter(text: str, word: str) -> str:
    """How certain it is that an English word is a month."""
    is_capitalized = text[0].isupper() and text[1:].islower()
    if is_capitalized:
        return "M"
    if word in _AMBIGUOUS_MONTHS:
        return "P"
    if word in _MONTHS:
        return "M"
    return "Q"


def _separator(previous_word: str, gap: str, language: Language) -> str:
    if language.unspaced:
        return ""
    gap = gap.strip()
    if not gap or (gap == "." and _has_full_stop(previous_word, language)):
        return " "
    if gap == "-":
        return " - "
    return " , "


def _has_full_stop(word: str, language: Language) -> bool:
    """Whether a full stop after this word does not end the sentence."""
    if word.isdigit():
        return "." in language.times.ordinals
    plain = _plain(word)
    is_full_name = any(plain == _plain(names.split()[0]) for names in language.times.months)
    return _codes(language).get(plain, "").startswith("M") and not is_full_name


# -- meanings ----------------------------------------------------------------

Span = tuple[datetime, datetime]
_DIGITS = re.compile("[0-9]+")
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


def _days(first: date, length: int = 1) -> Span:
    return datetime.combine(first, time()), datetime.combine(first + timedelta(length), time())


def _months(year: int, month: int, length: int = 1) -> Span:
    end_year, end_month = divmod(year * 12 + month - 1 + length, 12)
    return datetime(year, month, 1), datetime(end_year, end_month + 1, 1)


def _part_of(start: datetime, end: datetime, part: str) -> Span:
    first, last = _PART[part]
    days = (end - start).days
    return start + timedelta(days * first // 20), start - timedelta(-days * last // 20)


def _count(words: str) -> tuple[int, int]:
    """The smallest and largest number that `three`, `2-3`, `a couple of` or `a few` can mean."""
    for word, limits in _VAGUE.items():
        if word in words:
            return limits
    numbers = [int(n) for n in _DIGITS.findall(words)] or [1]
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


class _Calendar:
    """What words mean at a point in time.

    The public methods are the meanings of the rules below. They raise ValueError or OverflowError
    if there is no such time.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
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
        return _Calendar(self._period(last)[0])._period(last)

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
            return _Calendar(start)._period(first)[0], end
        # "between May 2023 and July": July of the same year, or of the next one
        start, _ = self._period(first)
        _, end = self._period(f"{last} Y{year[0]}")
        if end <= start:
            _, end = self._period(f"{last} Y{int(year[0]) + 1}")
        return start, end

    # -- meanings of words ---

    def _moment(self, words: str) -> Span:
        day, hour, end_day, end_hour = _MOMENT[words]
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
        start, end = _months(year, month + 1)
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
            if word in _PART:
                parts.remove(word)
                return self._part_of_period(parts, word)
        return self._whole_period(parts)

    def _part_of_period(self, words: list[str], part: str) -> Span:
        start, end = _part_of(*self._whole_period(words), part)
        if start >= self.tomorrow:  # in early May, "late May" is that of last year
            start, end = _part_of(*self._whole_period([*words, "last"]), part)
        return start, end

    def _whole_period(self, words: list[str]) -> Span:
        which = next((word for word in words if word in ("last", "past", "this")), "")
        year = _number_after("Y", words)
        weekday = _number_after("W", words)
        for word in words:
            if word[0] in "MPQS" or word == "christmas":
                if "year" in words:  # "in May of last year"
                    year, which = self._today.year - (which == "last"), ""
                if year is not None:
                    weekday = None
                return self._yearly(_recurring(word, _day_numbers(words), weekday), year, which)
            if word == "yesterday":
                return self._moment(word)
            if _NUMERIC_DATE.fullmatch(word):
                return _numeric_date(word)
        if weekday is not None:
            return self._latest_weekday(weekday, which)
        if year:
            return _months(year, 1, 12)
        return self._calendar_unit(words[-1], which)

    def _latest_weekday(self, weekday: int, which: str) -> Span:
        """The weekday of this week, or of last week unless it is over or "this" is given."""
        start, end = self._weekday(weekday, 0)
        if which == "this" or end < self.tomorrow:
            return start, end
        return self._weekday(weekday, 1)

    def _yearly(self, recurring: Callable[[int], Span], year: int | None, which: str) -> Span:
        """A period that recurs every year: in `year`, or the latest that has begun or is over."""
        if year is not None:
            return recurring(year)
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
            return _months(year, month + 1)
        return _months(self._today.year - back, 1, 12)


def _number_after(letter: str, words: list[str]) -> int | None:
    """The number of the first word that begins with this letter."""
    for word in words:
        if word[0] == letter:
            return int(word[1:])
    return None


def _day_numbers(words: list[str]) -> list[int]:
    """The days of the month among the words."""
    return [int(n) for word in words if word[0] in "O0123456789" for n in _DIGITS.findall(word)]


def _recurring(name: str, days: list[int], weekday: int | None) -> Callable[[int], Span]:
    """A function that gives the period of this name in a year.

    It raises ValueError for a year in which the day is not this weekday.
    """
    if name == "christmas":
        return lambda year: _days(date(year, 12, 24), 3)
    month = int(name[1:])
    if not days and name[0] == "S":
        return lambda year: _months(year, month, 3)
    if not days:
        return lambda year: _months(year, month)

    def span(year: int) -> Span:
        first, last = date(year, month, days[0]), date(year, month, days[-1])
        if weekday not in (None, first.weekday()):
            raise ValueError
        return _days(first, max((last - first).days, 0) + 1)

    return span


def _numeric_date(word: str) -> Span:
    numbers = [int(n) for n in _DIGITS.findall(word)]
    if numbers[0] > 31:  # 2023-05-08 or 2023-05
        year, month, *day = numbers[:3]
        if not day:
            return _months(year, month)
        return _days(date(year, month, day[0]))
    first, second, year = numbers
    if "." in word or first > 12:
        return _days(date(year, second, first))
    if second > 12 or first == second:
        return _days(date(year, first, second))
    raise ValueError  # 5/8/2023 can be two different days


# -- rules -------------------------------------------------------------------


def _any(*names: str) -> str:
    """A pattern for any of the names, longest first."""
    return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"


_YEAR = "Y[0-9]{4}"
_NUMERIC = (
    "(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}(?:-[0-9]{2})?|/[0-9]{2}/[0-9]{2})(?:t[0-9:.]+z?)?"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2})"
)
_NUMERIC_DATE = re.compile(_NUMERIC)
_WEEKDAY = "W[0-6]"
_SEASONS = "S[0-9]+"
_UNITS = f"(?:{'|'.join(_UNIT_NAMES)})"
_SURE = "M[0-9]+"
_NAME = "[MP][0-9]+"  # where another word confirms that it is a month
_CALM = "(?:M[0-9]+|P[0-9]+(?= ,|$))"  # where it could be part of "this may be" and the like
_EVERY = "[MPQ][0-9]+"  # next to a number

_SMALL = "(?:[0-9]{1,3}(?:-[0-9]{1,3})?|N[0-9]+)"
_SOME = f"(?:{_SMALL}(?: (?:or|to|-) {_SMALL}| of)?|few|several)"  # "of" as in "a couple of"
_COUNT = f"(?:(?:a )?{_SOME}|an?)"

_NTH = "O[0-9]+"
_DAY = "O?[0-9]{1,2}"
_DAYS = f"{_DAY}(?:(?:-| - | to ){_DAY})?"
_OF_YEAR = f"(?:(?: ,)? {_YEAR})?"
_DATE = f"(?:(?:the )?{_DAY}(?: of)? {_EVERY}{_OF_YEAR}|{_EVERY}(?: the)? {_DAYS}{_OF_YEAR})"
_SURE_DATE = (
    f"(?:(?:the )?{_DAY}(?: {_SURE}| of {_EVERY}){_OF_YEAR}|{_DAY} {_EVERY}(?: ,)? {_YEAR}"
    f"|{_SURE}(?: the)? {_DAYS}{_OF_YEAR}|{_EVERY}(?: {_NTH}{_OF_YEAR}| {_DAYS}(?: ,)? {_YEAR})"
    f"|P[0-9]+ {_DAY}(?= ,|$))"
)
_MONTH_OF = f"{_EVERY}(?:(?: ,| of)? {_YEAR}|(?: of)? (?:last|this) year)"
_SEASON_OF = f"{_SEASONS}(?:(?: ,| of)? {_YEAR}|(?: of)? (?:last|this) year)"
_NAMED = "(?:last|this) (?:week|month|year)"
_WHOLE = f"(?:{_DATE}|{_NUMERIC}|{_MONTH_OF}|{_SEASON_OF}|{_YEAR}|{_NAMED})"
_PART_NAME = "(?:early|mid|late)(?: -)?"
_PART_OF = "(?:the )?(?:beginning|start|middle|end) of"
_OPTIONAL_PART = f"(?:(?:{_PART_NAME}|{_PART_OF}) )?"

# Earlier rules claim their words, so later rules cannot match them.
Meaning = Callable[[_Calendar, re.Match[str]], Span]
_MEANINGS: list[tuple[Meaning, list[str]]] = [
    (
        _Calendar.nothing,
        [
            f"(?:in|on) (?:{_NAME}|{_WEEKDAY}) (?:of )?next (?:week|month|year)",
            f"next (?:week|month|year|{_WEEKDAY}|{_SEASONS}|{_NAME})"
            f"(?: (?:in|on) (?:{_NAME}|{_WEEKDAY}))?",
            f"{_COUNT} {_UNITS}s?(?: and| ,)? {_COUNT} {_UNITS}s? (?:ago|back)",
        ],
    ),
    (_Calendar.half_ago, ["half an? (?P<unit>year|hour) (?:ago|back)"]),
    (_Calendar.weekday_ago, [f"(?:on )?(?P<weekday>{_WEEKDAY}) (?P<count>{_COUNT}) weeks? ago"]),
    (
        _Calendar.ago,
        [
            f"(?P<count>{_COUNT}) (?P<unit>{_UNITS}s?)(?: or so)? ago(?: today)?",
            f"(?P<count>{_COUNT}) (?P<unit>(?:week|month|year)s?) back",
        ],
    ),
    (
        _Calendar.up_to_now,
        [
            rf"(?:last|past|previous) (?P<count>{_SOME}) (?P<unit>{_UNITS}s?)(?! of\b)",
            rf"(?:in|over|during|within|for) the last (?P<unit>{_UNITS})(?! of\b)",
            rf"past (?P<unit>{_UNITS})(?! of\b| [0-9])",
        ],
    ),
    (_Calendar.before_last, ["(?:the )?(?P<unit>week|month|year) before last"]),
    (
        _Calendar.weekday_of_week,
        [
            f"(?:on )?(?P<weekday>{_WEEKDAY}) (?:of )?(?P<which>last|this) week",
            f"(?P<which>last|this) week(?: on)? (?P<weekday>{_WEEKDAY})",
        ],
    ),
    (
        _Calendar.between,
        [
            f"(?:between|from) (?P<first>{_WHOLE}|{_NAME}) (?:and|to|until|till|through) "
            f"(?P<last>{_WHOLE}|{_NAME})"
        ],
    ),
    (
        _Calendar.since,
        [
            f"since (?P<period>{_OPTIONAL_PART}(?:{_WHOLE}|{_NAME})|yesterday"
            f"|(?:last |this )?(?:{_NAME}|{_WEEKDAY}|{_SEASONS}|weekend|christmas))"
        ],
    ),
    (
        _Calendar.before_or_after,
        [f"(?P<side>before|after) (?P<period>{_OPTIONAL_PART}(?:{_WHOLE}|{_CALM}))"],
    ),
    (_Calendar.week_of, [f"(?:the )?week of (?P<period>{_DATE}|{_NUMERIC})"]),
    (
        _Calendar.period,
        [
            f"(?:{_PART_NAME}|{_PART_OF}) (?:{_MONTH_OF}|{_YEAR}|{_NAMED})"
            f"|(?:early|late)(?: -)? {_CALM}",
            f"(?:mid(?: -)?|{_PART_OF}) {_NAME}",
            f"(?:(?:on )?{_WEEKDAY}(?: ,)? )?(?:{_SURE_DATE}|{_NUMERIC})",
            f"(?:on|until|till) (?:{_WEEKDAY}(?: ,)? )?{_DATE}",
            rf"{_MONTH_OF}|{_SEASON_OF}|(?:last|this|past) {_SEASONS}(?! of\b)",
            f"(?:at|over|around|during|on|last|this) christmas(?: {_YEAR})?"
            f"|christmas(?: of)? {_YEAR}",
            f"(?:on|last|past|this) {_WEEKDAY}",
            f"(?:in|during|throughout)(?: the month of)? {_NAME}(?! [0-9])|(?:last|this) {_CALM}",
            f"(?:in|during|throughout|the year) {_YEAR}",
            rf"{_NAMED}(?! of\b| [0-9])|(?:last|this|past|over the|on the|at the) weekend(?! of\b)",
        ],
    ),
    (_Calendar.moment, [f"(?<!most )(?P<moment>{_any(*_MOMENT)})"]),
]


Rules = list[tuple[re.Pattern[str], Meaning]]


def _may_name_a_time(line: str, language: Language) -> bool:
    """Whether a rule can match. Most queries name no time, and need no rules compiled."""
    if language.unspaced:
        return True
    return _DIGITS.search(line) is not None or not _time_words(language).isdisjoint(line.split())


@cache
def _time_words(language: Language) -> frozenset[str]:
    """Every rule needs a number or one of these words."""
    if language is ENGLISH:
        plurals = [f"{unit}s" for unit in _UNIT_NAMES]
        moments = [max(phrase.split(), key=len) for phrase in _MOMENT]
        return frozenset([*_UNIT_NAMES, *plurals, *moments, "weekend", "christmas"])
    units = [f"U{unit}" for unit in language.times.units.values()]
    phrases = [_Line(words, language).text for words in language.times.moments]
    return frozenset([*units, *(max(phrase.split(), key=len) for phrase in phrases)])


@cache
def _rules(language: Language) -> Rules:
    """Compiled on first use, because compiling takes longer than the rest of starting up."""
    if language.unspaced:
        return _translations(language)
    if language is not ENGLISH:
        return [*_translations(language), (_compile(_NUMERIC), _Calendar.period)]
    return [(_compile(p), meaning) for meaning, patterns in _MEANINGS for p in patterns]


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\S)(?:{pattern})(?!\S)")


# -- other languages ---------------------------------------------------------

_PLACEHOLDER = re.compile("{([a-z]+[0-9]?)}")


def _translations(language: Language) -> Rules:
    """The rules of a language. Longer adverbs come first."""
    times = language.times
    groups = _placeholders(language)
    rules = []
    for pattern, english in times.rules:
        if not language.unspaced:
            pattern = _plain(pattern)
        rules.append((_expand_placeholders(pattern, groups), english))
    moments = sorted(times.moments, key=len, reverse=True)
    rules += [(re.escape(_Line(words, language).text), times.moments[words]) for words in moments]
    if language.unspaced:
        return [(re.compile(pattern), _translated(english, language)) for pattern, english in rules]
    return [(_compile(pattern), _translated(english, language)) for pattern, english in rules]


def _placeholders(language: Language) -> dict[str, str]:
    """The pattern of each placeholder."""
    if not language.unspaced:
        return {
            "count": "[0-9]{1,3}|N[0-9]+",
            "one": "N1",
            "unit": "U[a-z]+",
            "week": "Uweek",
            "day": "O?[0-9]{1,2}",
            "month": "M[0-9]+",
            "weekday": _WEEKDAY,
            "season": _SEASONS,
            "year": _YEAR,
        }
    times = language.times
    number = _any(*(name for names in times.numbers for name in names.split()))
    return {
        "count": f"[0-9]{{1,3}}|{number}",
        "unit": _any(*times.units),
        "day": f"[0-9]{{1,2}}|{number}",
        "month": f"(?<![0-9])(?:1[0-2]|[1-9])|{number}",
        "weekday": _any(*(name for names in times.weekdays for name in names.split())),
        "season": _any(*times.seasons),
        "year": "(?<![0-9])(?:19|20)[0-9]{2}",
    }


def _expand_placeholders(pattern: str, groups: Mapping[str, str]) -> str:
    """The pattern with a group for each placeholder. A name can occur more than once."""
    numbers = itertools.count()

    def group(match: re.Match[str]) -> str:
        name = match[1]
        return f"(?P<{name}_{next(numbers)}>{groups[name.rstrip('2')]})"

    return _PLACEHOLDER.sub(group, pattern)


def _translated(english: str, language: Language) -> Meaning:
    """The meaning of a rule with this translation."""

    def meaning(calendar: _Calendar, match: re.Match[str]) -> Span:
        text = _translate(english, match, language)
        for rule, english_meaning in _rules(ENGLISH):
            english_match = rule.fullmatch(text)
            if english_match is not None:
                return english_meaning(calendar, english_match)
        raise ValueError(f"There is no rule for `{text}`.")

    return meaning


def _translate(english: str, match: re.Match[str], language: Language) -> str:
    """Fill the placeholders of the translation. What did not match is left out."""
    values = {}
    for group, value in match.groupdict().items():
        if value is not None:
            name = group.partition("_")[0]
            values[name] = _encode_value(name, value, language)
    text = _PLACEHOLDER.sub(lambda placeholder: values.get(placeholder[1], ""), english)
    return " ".join(text.split())


def _encode_value(name: str, value: str, language: Language) -> str:
    """The value of a placeholder as the English rules see it."""
    code = value.removeprefix("U")
    if not language.unspaced:
        return code
    code = _unspaced_codes(language)[name].get(value, value)
    if name == "month":
        return "M" + code.removeprefix("N")
    if name == "day":
        return code.removeprefix("N")
    if name == "year":
        return "Y" + code
    return code


@cache
def _unspaced_codes(language: Language) -> dict[str, dict[str, str]]:
    """The codes of the values of each placeholder. A name can have several meanings (日, 일)."""
    times = language.times
    numbers = {n: f"N{i}" for i, names in enumerate(times.numbers, 1) for n in names.split()}
    weekdays = {n: f"W{i}" for i, names in enumerate(times.weekdays) for n in names.split()}
    return {
        "count": numbers,
        "day": numbers,
        "month": numbers,
        "year": {},
        "unit": dict(times.units),
        "weekday": weekdays,
        "season": {name: f"S{_SEASON[season]}" for name, season in times.seasons.items()},
    }
