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
  with "last", is the latest one that is over. "Monday, May 8" is the latest May 8 on a Monday. In a
  question about the future ("what will we do in May"), it is the next one.

The rules are English. Expressions in another language are translated into English by the rules of
that language (`language.languages`), so they mean exactly the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple

from recollect.language.detection import language_of
from recollect.language.languages import LATIN
from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
from recollect.language.periods.calendar import DIGITS, MOMENTS, NUMERIC_DATE, Calendar, Span
from recollect.language.periods.encoding import MONTHS, WEEKDAYS, EncodedText, plain_text
from recollect.language.periods.english_rules import UNIT_NAMES, Rules, compile_rule, english_rules
from recollect.language.periods.translation import translated_rules
from recollect.language.text import tokens

_LATE = datetime(2999, 1, 1, tzinfo=UTC)  # no period is in its future
_ENGLISH_TOO = {*MONTHS, *(month[:3] for month in MONTHS), "sept", "mars", "mayo", "marco"}
# 3. August, 3 de mayo, en mars 2025: certainly a month, although "mars" may be something else.
_DAY_OF_MONTH = re.compile(r"\b[0-9]{1,2}(?:\.|er|º)? ?(?:de )?([a-z]+)")
_MONTH_OF_YEAR = re.compile(r"\b(?:en|em|de) ([a-z]+)(?: de)? (?:19|20)[0-9]{2}\b")
_LAST_DAY = datetime.max.date()  # no day follows it
_DAY = timedelta(days=1)


class Window(NamedTuple):
    """A period from `start` up to `end`, without `end`, and the words that name it."""

    start: datetime
    end: datetime
    words: str


@lru_cache(maxsize=64)  # a search needs them twice
def windows(text: str, now: datetime) -> tuple[Window, ...]:
    """The periods that a text names, in the order of the text.

    `now` is the time they are relative to; it must have a time zone.
    """
    languages = _languages_of_dates(text)
    readings = [_windows(text, now, language, languages[0]) for language in languages]
    best = min(readings, key=_precision)
    is_day = _precision(best)[0] <= _DAY
    if readings[0] and languages[0] is not ENGLISH and not is_day:
        return readings[0]  # other languages understand "Juli", but not "zwischen Mai und Juli"
    return best


def _windows(
    text: str, now: datetime, language: Language, language_of_text: Language
) -> tuple[Window, ...]:
    """The periods that a text names, if its dates are in `language`."""
    line = EncodedText(text, language)
    if now.date() == _LAST_DAY or not _may_name_a_time(line.text, language):
        return ()
    in_future = language_of_text.asks_for_future(text)
    calendar = Calendar(now.replace(tzinfo=None), in_future=in_future)
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


def _precision(periods: Sequence[Window]) -> tuple[timedelta, int]:
    """How exactly a reading of a text tells the time: more exactly the smaller it is.

    Languages share the names of months, but write days differently: "3. Mai" is a day only in
    German, and "1er mai" only in French.
    """
    shortest = min((period.end - period.start for period in periods), default=timedelta.max)
    return shortest, -sum(len(period.words) for period in periods)


def period_words(text: str) -> frozenset[str]:
    """The words with which a text names periods, as they are indexed."""
    return frozenset(word for window in windows(text, _LATE) for word in tokens(window.words))


def date_words(moment: datetime) -> str:
    """The words under which a date is found, such as `2023-05-08 8 May 2023 Monday`."""
    month, weekday = MONTHS[moment.month - 1].title(), WEEKDAYS[moment.weekday()].title()
    return f"{moment.date()} {moment.day} {month} {moment.year} {weekday}"


def _languages_of_dates(text: str) -> list[Language]:
    """The languages in which a text may name a time.

    That is its own, and those of the names of months in it: "Juni 2025" has no other words.
    """
    language = language_of(text)
    if language.unspaced:
        return [language]
    languages = [language]
    for name in _names_of_months(text):
        languages += _foreign_months().get(name, ())
    return list(dict.fromkeys(languages))


def _names_of_months(text: str) -> Iterable[str]:
    """The words of a text that are certainly no English words if they are names of months."""
    plain = plain_text(text)
    certain = {*_DAY_OF_MONTH.findall(plain), *_MONTH_OF_YEAR.findall(plain)}
    return [word for word in tokens(text) if word in certain or word not in _ENGLISH_TOO]


@cache
def _foreign_months() -> dict[str, list[Language]]:
    """The languages, other than English, that have these names of months."""
    languages: dict[str, list[Language]] = {}
    for language in LATIN:
        if language is not ENGLISH:
            for name in {name for month in language.times.months for name in tokens(month)}:
                languages.setdefault(name, []).append(language)
    return languages


def _may_name_a_time(line: str, language: Language) -> bool:
    """Whether a rule can match. Most queries name no time, and need no rules compiled."""
    if language.unspaced:
        return True
    return DIGITS.search(line) is not None or not _time_words(language).isdisjoint(line.split())


@cache
def _time_words(language: Language) -> frozenset[str]:
    """Every rule needs a number or one of these words."""
    if language is ENGLISH:
        plurals = [f"{unit}s" for unit in UNIT_NAMES]
        moments = [max(phrase.split(), key=len) for phrase in MOMENTS]
        return frozenset([*UNIT_NAMES, *plurals, *moments, "weekend", "christmas"])
    units = [f"U{unit}" for unit in language.times.units.values()]
    phrases = [EncodedText(words, language).text for words in language.times.moments]
    return frozenset([*units, *(max(phrase.split(), key=len) for phrase in phrases)])


@cache
def _rules(language: Language) -> Rules:
    if language.unspaced:
        return translated_rules(language)
    if language is not ENGLISH:
        return [*translated_rules(language), (compile_rule(NUMERIC_DATE), Calendar.period)]
    return english_rules()
