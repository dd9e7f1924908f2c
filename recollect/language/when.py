"""The times that a question speaks of, and the words under which a time is found.

`windows` is for ranking, as a gentle preference and never as a filter. So a
word that can mean something else means nothing here: a month needs a word like
`in`, a day or a year beside it ("I may", "march on", "fall" and "second" are no
times), a weekday needs `on`, `last`, `this` or `since`, and a bare number is no
year. What lies wholly in the future is left out.

How wide a window is:

- A day is that day, a month that month, in the time zone of `now`; weeks begin on Monday.
- "N days ago" is that day give or take (N + 5) // 7 days; weeks: 3 + N // 4 days; months: 10 + 2 N
  days, at most 30; years: 30 + 30 N days, at most 183; hours: 1 hour; minutes: 15 minutes.
  "A couple" is two, "a few" two to five, "several" three to eight.
- "Last week", "last month" and "last year" are those of the calendar; "the past week" and
  "the last N weeks" end with today.
- "Early", "mid" and "late" are two fifths of a month or year, "beginning" and "end" a quarter.
- "Recently" and "lately" are the last 30 days; "the other day" is one of the last ten.
- Seasons are the northern ones, in whole months; "winter 2023" begins in December 2023.
- What comes back every year or week is the latest one that has begun; a weekday, and anything
  with "last", is over. "Monday, May 8" is the latest May 8 that was a Monday.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, from `start` up to but without `end`, and the words that named it."""

    start: datetime
    end: datetime
    words: str


def windows(text: str, now: datetime) -> tuple[Window, ...]:
    """The times that a text speaks of, in its order, as seen from `now`, which knows its time zone."""
    line = _Line(text)
    calendar = _Calendar(now.replace(tzinfo=None))
    found: dict[Span, tuple[int, int]] = {}
    for rule, meaning in _rules():
        for match in rule.finditer(line.text):
            if not line.claim(match):
                continue
            try:
                start, end = meaning(calendar, match)
            except (ValueError, OverflowError):  # no such day, or none in the calendar
                continue
            if start < min(end, calendar.tomorrow):
                found.setdefault((start, end), line.typed(match))
    return tuple(
        Window(start.replace(tzinfo=now.tzinfo), end.replace(tzinfo=now.tzinfo), text[first:last])
        for (start, end), (first, last) in sorted(found.items(), key=lambda item: item[1])
    )


def date_words(moment: datetime) -> str:
    """The words under which a time is found, such as `2023-05-08 8 May 2023 Monday`."""
    month, weekday = _MONTHS[moment.month - 1].title(), _WEEKDAYS[moment.weekday()].title()
    return f"{moment.date()} {moment.day} {month} {moment.year} {weekday}"


# -- words -------------------------------------------------------------------

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTH = {
    name: number for number, month in enumerate(_MONTHS, start=1) for name in (month, month[:3])
} | {"sept": 9}
_SHORT_MONTHS = _MONTH.keys() - set(_MONTHS)
_DOUBTFUL = ("may", "march")  # months for sure only where they have a capital
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASON = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS = (
    "one ein eine einem einer un une una",
    "two couple zwei deux dos",
    "three drei trois tres",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_NUMBER = {name: number for number, names in enumerate(_NUMBERS, start=1) for name in names.split()}
_VAGUE = {"few": (2, 5), "several": (3, 8)}
_FOREIGN_UNIT = {
    "tag": "day",
    "tagen": "day",
    "woche": "week",
    "wochen": "week",
    "monat": "month",
    "monaten": "month",
    "jahr": "year",
    "jahren": "year",
    "jour": "day",
    "jours": "day",
    "semaine": "week",
    "semaines": "week",
    "mois": "month",
    "an": "year",
    "ans": "year",
    "dia": "day",
    "dias": "day",
    "semana": "week",
    "semanas": "week",
    "mes": "month",
    "meses": "month",
    "ano": "year",
    "anos": "year",
}
_PART = {  # in twentieths of the whole
    "early": (0, 8),
    "mid": (6, 14),
    "late": (12, 20),
    "beginning": (0, 5),
    "start": (0, 5),
    "middle": (6, 14),
    "end": (15, 20),
}
_MOMENT = {  # from day and hour to day and hour, as seen from today
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
_TRANSLATED = {  # without `hier`, which is "here" in German
    "heute": "today",
    "gestern": "yesterday",
    "gestern abend": "last night",
    "vorgestern": "day before yesterday",
    "letzte woche": "last week",
    "letzten monat": "last month",
    "letztes jahr": "last year",
    "diese woche": "this week",
    "diesen monat": "this month",
    "dieses jahr": "this year",
    "aujourd'hui": "today",
    "hier soir": "last night",
    "avant - hier": "day before yesterday",
    "la semaine derniere": "last week",
    "le mois dernier": "last month",
    "l'annee derniere": "last year",
    "cette semaine": "this week",
    "cette annee": "this year",
    "hoy": "today",
    "ayer": "yesterday",
    "anoche": "last night",
    "anteayer": "day before yesterday",
    "la semana pasada": "last week",
    "el mes pasado": "last month",
    "el ano pasado": "last year",
    "esta semana": "this week",
    "este mes": "this month",
    "este ano": "this year",
}

_YEAR_NUMBER = re.compile("(?:19[7-9]|20[0-9])[0-9]")
_ORDINAL = re.compile("^([0-9]{1,2})(?:st|nd|rd|th)$")
_PIECE = re.compile(
    r"[0-9]+(?:[-./:][0-9]+|,[0-9]{1,3}(?![0-9]))++(?:[Tt][0-9:.]+[Zz]?)?(?!\w)"  # 2023-05-08, 1.5, 10:30, 1,000
    r"|\w+(?:'\w+)*"
)


class _Line:
    """A text as words with a space between them, in lower case and without accents; `,` stands for
    punctuation, `-` for a hyphen. What rules speak of most is a capital and a number, so that they
    stay short: M a month, P a month perhaps, Q a month only beside a number, W a weekday, S a
    season by its first month, N a number word, O an ordinal, Y a year."""

    def __init__(self, text: str) -> None:
        plain = text.translate({0x2019: "'", 0x2013: "-", 0x2014: "-"})
        self._typed = [piece.span() for piece in _PIECE.finditer(plain)]
        self._starts: list[int] = []
        parts: list[str] = []
        before, length = (0, 0), 0
        for start, end in self._typed:
            gap = _between(plain[slice(*before)], plain[before[1] : start]) if parts else ""
            parts += gap, _tagged(plain[start:end])
            self._starts.append(length + len(gap))
            before, length = (start, end), length + len(gap) + len(parts[-1])
        self.text = "".join(parts)
        self._claimed = bytearray(len(self._typed))

    def claim(self, match: re.Match[str]) -> bool:
        """Take the words of a match; False when one of them has been taken by another."""
        pieces = self._pieces(match)
        if any(self._claimed[pieces]):
            return False
        self._claimed[pieces] = b"\1" * (pieces.stop - pieces.start)
        return True

    def typed(self, match: re.Match[str]) -> tuple[int, int]:
        """Where the words of a match lie in the text."""
        pieces = self._pieces(match)
        return self._typed[pieces.start][0], self._typed[pieces.stop - 1][1]

    def _pieces(self, match: re.Match[str]) -> slice:
        return slice(
            bisect_left(self._starts, match.start()), bisect_left(self._starts, match.end())
        )


def _tagged(typed: str) -> str:
    letters = (c for c in unicodedata.normalize("NFKD", typed) if not unicodedata.combining(c))
    word = "".join(letters).casefold().removesuffix("'s")
    if word in _MONTH:
        capital = typed[0].isupper() and typed[1:].islower()
        sure = capital or (word in _MONTHS and word not in _DOUBTFUL)
        return ("M" if sure else "P" if word in _DOUBTFUL else "Q") + str(_MONTH[word])
    if word in _WEEKDAYS:
        return f"W{_WEEKDAYS.index(word)}"
    for tag, table in (("S", _SEASON), ("N", _NUMBER)):
        if word in table:
            return f"{tag}{table[word]}"
    if _YEAR_NUMBER.fullmatch(word):
        return "Y" + word
    return _ORDINAL.sub(r"O\1", word)


def _between(before: str, gap: str) -> str:
    gap = gap.strip()
    if not gap or (gap == "." and before.lower() in _SHORT_MONTHS):
        return " "
    return " - " if gap == "-" else " , "


# -- meanings ----------------------------------------------------------------

Span = tuple[datetime, datetime]
_DIGITS = re.compile("[0-9]+")
_FOUR_DIGITS = re.compile("[0-9]{4}")
_LONG_AGO = datetime(1, 1, 2)  # a day that every time zone has


def _days(first: date, length: int = 1) -> Span:
    return datetime.combine(first, time()), datetime.combine(first + timedelta(length), time())


def _months(year: int, month: int, length: int = 1) -> Span:
    end_year, end_month = divmod(year * 12 + month - 1 + length, 12)
    return datetime(year, month, 1), datetime(end_year, end_month + 1, 1)


def _cut(start: datetime, end: datetime, part: str) -> Span:
    first, last = _PART[part]
    days = (end - start).days
    return start + timedelta(days * first // 20), start - timedelta(-days * last // 20)


def _count(words: str) -> tuple[int, int]:
    """The least and the most that `three`, `2-3`, `a couple of` or `a few` can be."""
    for word, vague in _VAGUE.items():
        if word in words:
            return vague
    numbers = [int(n) for n in _DIGITS.findall(words)] or [1]
    return min(numbers), max(numbers)


def _slack(unit: str, count: int) -> timedelta:
    """How far to either side something may lie that was `count` units ago."""
    days = {
        "day": (count + 5) // 7,
        "week": 3 + count // 4,
        "month": min(10 + 2 * count, 30),
        "year": min(30 + 30 * count, 183),
    }
    return timedelta(days[unit])


class _Calendar:
    """What words mean at a moment. Where there is no such time, that is a ValueError or OverflowError."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._today = now.date()
        self._monday = self._today - timedelta(self._today.weekday())
        self.tomorrow = _days(self._today)[1]

    # -- of a rule ---

    def nothing(self, match: re.Match[str]) -> Span:
        raise ValueError

    def moment(self, match: re.Match[str]) -> Span:
        return self._moment(match["moment"])

    def translated(self, match: re.Match[str]) -> Span:
        words = _TRANSLATED[match[0]]
        return self._moment(words) if words in _MOMENT else self._period(words)

    def ago(self, match: re.Match[str]) -> Span:
        unit = match["unit"].removesuffix("s")
        return self._ago(*_count(match["count"]), unit)

    def ago_elsewhere(self, match: re.Match[str]) -> Span:
        return self._ago(*_count(match["count"]), _FOREIGN_UNIT[match["unit"]])

    def half_ago(self, match: re.Match[str]) -> Span:
        return self._ago(6, 6, "month") if match["unit"] == "year" else self._ago(30, 30, "minute")

    def weekday_ago(self, match: re.Match[str]) -> Span:
        return self._weekday(int(match["weekday"][1:]), _count(match["count"])[0])

    def weekday_of_week(self, match: re.Match[str]) -> Span:
        return self._weekday(int(match["weekday"][1:]), 1 if match["which"] == "last" else 0)

    def up_to_now(self, match: re.Match[str]) -> Span:
        count = _count(match["count"])[1] if "count" in match.groupdict() else 1
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
        return (_LONG_AGO, start) if match["side"] == "before" else (end, self.tomorrow)

    def between(self, match: re.Match[str]) -> Span:
        first, last = match["first"], match["last"]
        year = _FOUR_DIGITS.search(first)
        if year is None or last[0] not in "MPQ" or _FOUR_DIGITS.search(last):
            start, end = self._period(last)
            return _Calendar(start)._period(first)[0], end
        start, _ = self._period(first)  # "between May 2023 and July"
        _, end = self._period(f"{last} Y{year[0]}")
        return start, end if end > start else self._period(f"{last} Y{int(year[0]) + 1}")[1]

    # -- of its words ---

    def _moment(self, words: str) -> Span:
        day, hour, end_day, end_hour = _MOMENT[words]
        midnight, _ = _days(self._today)
        return midnight + timedelta(day, hours=hour), midnight + timedelta(end_day, hours=end_hour)

    def _back(self, count: int, unit: str) -> datetime:
        """So many minutes or hours before now, or the start of the day that lies so many days or more back."""
        if unit in ("minute", "hour"):
            return self._now - count * timedelta(minutes=1 if unit == "minute" else 60)
        if unit in ("day", "week"):
            return _days(self._today - count * timedelta(1 if unit == "day" else 7))[0]
        months = (
            self._today.year * 12 + self._today.month - 1 - count * (1 if unit == "month" else 12)
        )
        start, end = _months(months // 12, months % 12 + 1)
        return start + min(timedelta(self._today.day), end - start) - timedelta(1)

    def _ago(self, least: int, most: int, unit: str) -> Span:
        start, end = self._back(most, unit), self._back(least, unit)
        if unit in ("minute", "hour"):
            slack = timedelta(minutes=15 if unit == "minute" else 60)
            return start - slack, min(end + slack, self.tomorrow)
        return start - _slack(unit, most), min(
            end + timedelta(1) + _slack(unit, least), self.tomorrow
        )

    def _weekday(self, weekday: int, weeks_ago: int) -> Span:
        return _days(self._monday + timedelta(weekday - 7 * weeks_ago))

    def _period(self, words: str) -> Span:
        """A day, week, weekend, month, season or year, or a part of it."""
        given = words.replace(",", " ").split()
        part = next((w for w in given if w in _PART), None)
        if part is None:
            return self._whole(given)
        given.remove(part)
        start, end = _cut(*self._whole(given), part)
        if start >= self.tomorrow:  # "late May" in early May was a year ago
            start, end = _cut(*self._whole([*given, "last"]), part)
        return start, end

    def _whole(self, given: list[str]) -> Span:
        which = next((w for w in given if w in ("last", "past", "this")), "")
        year = next((int(w[1:]) for w in given if w[0] == "Y"), None)
        weekday = next((int(w[1:]) for w in given if w[0] == "W"), None)
        for word in given:
            if word[0] in "MPQS" or word == "christmas":
                if "year" in given:  # "in May of last year"
                    year, which = self._today.year - (which == "last"), ""
                days = [int(n) for w in given if w[0] in "O0123456789" for n in _DIGITS.findall(w)]
                return self._yearly(
                    _recurring(word, days, weekday if year is None else None), year, which
                )
            if word == "yesterday":
                return self._moment(word)
            if _NUMERIC_DATE.fullmatch(word):
                return _numeric(word)
        if weekday is not None:
            start, end = self._weekday(weekday, 0)
            return (
                (start, end)
                if which == "this" or end < self.tomorrow
                else self._weekday(weekday, 1)
            )
        return _months(year, 1, 12) if year else self._unit(given[-1], which)

    def _yearly(self, recurring: Callable[[int], Span], year: int | None, which: str) -> Span:
        """What comes back every year: in the year given, or the last one that has begun or is over."""
        if year is not None:
            return recurring(year)
        midnight, _ = _days(self._today)
        for past in range(self._today.year, self._today.year - 12, -1):
            try:
                start, end = recurring(past)
            except ValueError:  # February 29, or another weekday
                continue
            if which == "this" and end <= midnight and past < self._today.year:
                break  # this year's has yet to come
            if (end if which in ("last", "past") else start) <= midnight:
                return start, end
        raise ValueError

    def _unit(self, unit: str, which: str) -> Span:
        back = which != "this"
        if unit == "week":
            return _days(self._monday - timedelta(7 * back), 7)
        if unit == "weekend":
            saturday = self._monday + timedelta(5)
            still = which == "this" or (not which and saturday <= self._today)
            return _days(saturday - timedelta(0 if still else 7), 2)
        if unit == "month":
            year, month = divmod(self._today.year * 12 + self._today.month - 1 - back, 12)
            return _months(year, month + 1)
        return _months(self._today.year - back, 1, 12)


def _recurring(name: str, days: list[int], weekday: int | None) -> Callable[[int], Span]:
    """What has that name in a year; a ValueError in a year in which that day is no such weekday."""
    if name == "christmas":
        return lambda year: _days(date(year, 12, 24), 3)
    month = int(name[1:])
    if not days:
        return lambda year: _months(year, month, 3 if name[0] == "S" else 1)

    def span(year: int) -> Span:
        first, last = date(year, month, days[0]), date(year, month, days[-1])
        if weekday not in (None, first.weekday()):
            raise ValueError
        return _days(first, max((last - first).days, 0) + 1)

    return span


def _numeric(word: str) -> Span:
    numbers = [int(n) for n in _DIGITS.findall(word)]
    if numbers[0] > 31:  # 2023-05-08 or 2023-05
        year, month, *day = numbers[:3]
        return _days(date(year, month, day[0])) if day else _months(year, month)
    first, second, year = numbers
    if "." in word or first > 12:
        return _days(date(year, second, first))
    if second > 12 or first == second:
        return _days(date(year, first, second))
    raise ValueError  # 5/8/2023 is two days


# -- rules -------------------------------------------------------------------


def _any(*names: str) -> str:
    return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"


_YEAR = "Y[0-9]{4}"
_NUMERIC = (
    "(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}(?:-[0-9]{2})?|/[0-9]{2}/[0-9]{2})(?:t[0-9:.]+z?)?"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2})"
)
_NUMERIC_DATE = re.compile(_NUMERIC)
_WEEKDAY = "W[0-6]"
_SEASONS = "S[0-9]+"
_UNITS = "(?:minute|hour|day|week|month|year)"
_SURE = "M[0-9]+"
_NAME = "[MP][0-9]+"  # where another word says that it is a month
_CALM = "(?:M[0-9]+|P[0-9]+(?= ,|$))"  # where "this may be" and the like could be meant
_EVERY = "[MPQ][0-9]+"  # beside a number

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
_THIRD = "(?:early|mid|late)(?: -)?"
_EDGE = "(?:the )?(?:beginning|start|middle|end) of"
_CUT = f"(?:(?:{_THIRD}|{_EDGE}) )?"

# What comes first takes its words away from what follows.
Meaning = Callable[[_Calendar, re.Match[str]], Span]
_MEANINGS: list[tuple[Meaning, list[str]]] = [
    (
        _Calendar.nothing,
        [
            f"(?:in|on) (?:{_NAME}|{_WEEKDAY}) (?:of )?next (?:week|month|year)",
            f"next (?:week|month|year|{_WEEKDAY}|{_SEASONS}|{_NAME})(?: (?:in|on) (?:{_NAME}|{_WEEKDAY}))?",
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
        _Calendar.ago_elsewhere,
        [f"(?:vor|il y a|hace) (?P<count>[0-9]{{1,3}}|N[0-9]+) (?P<unit>{_any(*_FOREIGN_UNIT)})"],
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
            f"(?:between|from) (?P<first>{_WHOLE}|{_NAME}) (?:and|to|until|till|through) (?P<last>{_WHOLE}|{_NAME})"
        ],
    ),
    (
        _Calendar.since,
        [
            f"since (?P<period>{_CUT}(?:{_WHOLE}|{_NAME})|yesterday"
            f"|(?:last |this )?(?:{_NAME}|{_WEEKDAY}|{_SEASONS}|weekend|christmas))"
        ],
    ),
    (_Calendar.before_or_after, [f"(?P<side>before|after) (?P<period>{_CUT}(?:{_WHOLE}|{_CALM}))"]),
    (_Calendar.week_of, [f"(?:the )?week of (?P<period>{_DATE}|{_NUMERIC})"]),
    (
        _Calendar.period,
        [
            f"(?:{_THIRD}|{_EDGE}) (?:{_MONTH_OF}|{_YEAR}|{_NAMED})|(?:early|late)(?: -)? {_CALM}",
            f"(?:mid(?: -)?|{_EDGE}) {_NAME}",
            f"(?:(?:on )?{_WEEKDAY}(?: ,)? )?(?:{_SURE_DATE}|{_NUMERIC})",
            f"(?:on|until|till) (?:{_WEEKDAY}(?: ,)? )?{_DATE}",
            rf"{_MONTH_OF}|{_SEASON_OF}|(?:last|this|past) {_SEASONS}(?! of\b)",
            f"(?:at|over|around|during|on|last|this) christmas(?: {_YEAR})?|christmas(?: of)? {_YEAR}",
            f"(?:on|last|past|this) {_WEEKDAY}",
            f"(?:in|during|throughout)(?: the month of)? {_NAME}(?! [0-9])|(?:last|this) {_CALM}",
            f"(?:in|during|throughout|the year) {_YEAR}",
            rf"{_NAMED}(?! of\b| [0-9])|(?:last|this|past|over the|on the|at the) weekend(?! of\b)",
        ],
    ),
    (_Calendar.translated, [_any(*_TRANSLATED)]),
    (_Calendar.moment, [f"(?<!most )(?P<moment>{_any(*_MOMENT)})"]),
]


@cache
def _rules() -> list[tuple[re.Pattern[str], Meaning]]:
    """Compiled when they are first needed: it takes longer than the rest of a start."""
    return [
        (re.compile(rf"(?<!\S)(?:{p})(?!\S)"), meaning)
        for meaning, patterns in _MEANINGS
        for p in patterns
    ]
