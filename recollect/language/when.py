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
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain, count, islice
from string import ascii_lowercase
from typing import NamedTuple

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.periods import (
    NUMERIC_DATE,
    SEASON,
    UNIT_NAMES,
    WEEKDAY,
    YEAR,
    Calendar,
    Meaning,
    Rules,
    Span,
    any_of,
    compile_rule,
    english_rules,
    moments,
)
from recollect.language.text import tokens

MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
_LATE = datetime(2999, 1, 1, tzinfo=UTC)  # no period is in its future, nor an appointment
_ENGLISH_TOO = {*MONTHS, *(month[:3] for month in MONTHS), "sept", "mars", "mayo", "marco"}
# 3. August, 3 de mayo, en mars 2025: certainly a month, although "mars" may be something else.
_DAY_OF_MONTH = re.compile(r"\b[0-9]{1,2}(?:\.|er|º)? ?(?:de )?([a-z]+)")
_MONTH_OF_YEAR = re.compile(r"\b(?:en|em|de) ([a-z]+)(?: de)? (?:19|20)[0-9]{2}\b")
_LAST_DAY = datetime.max.date()  # no day follows it
_FIRST_YEAR, _LAST_YEAR = 1970, 2099  # other numbers are rarely years
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
    languages = languages_of_dates(text)
    if len(languages) == 1:
        return _windows(text, now, languages[0], languages[0])
    readings = [_windows(text, now, language, languages[0]) for language in languages]
    best = min(readings, key=precision)
    is_day = precision(best)[0] <= _DAY
    if readings[0] and languages[0] is not ENGLISH and not is_day:
        return readings[0]  # other languages understand "Juli", but not "zwischen Mai und Juli"
    return best


def _windows(
    text: str, now: datetime, language: Language, language_of_text: Language
) -> tuple[Window, ...]:
    """The periods that a text names, if its dates are in `language`."""
    # Every rule needs a number or one of some words. Most queries name no time, and need no rules
    # compiled.
    has_time = language.unspaced or any(map(str.isdigit, text))
    if not has_time and time_words(language).isdisjoint(tokens(text)):
        return ()
    if now.date() == _LAST_DAY:
        return ()
    line = EncodedText(text, language)
    in_future = language_of_text.has("asks_future", text)
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


def precision(periods: Sequence[Window]) -> tuple[timedelta, int]:
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


def languages_of_dates(text: str) -> list[Language]:
    """The languages in which a text may name a time.

    That is its own, and those of the names of months in it, if these are certainly no English
    words: "Juni 2025" has no other words.
    """
    language = language_of(text)
    if language.unspaced:
        return [language]
    languages = [language]
    words = tokens(text)
    foreign = foreign_months()
    if not foreign.keys().isdisjoint(words):
        plain = plain_text(text)
        certain = {*_DAY_OF_MONTH.findall(plain), *_MONTH_OF_YEAR.findall(plain)}
        for word in words:
            if word in certain or word not in _ENGLISH_TOO:
                languages += foreign.get(word, ())
    return list(dict.fromkeys(languages))


@cache
def foreign_months() -> dict[str, list[Language]]:
    """The languages, other than English, that have these names of months."""
    languages: dict[str, list[Language]] = {}
    for language in LATIN[1:]:
        for name in set(tokens(" ".join(chain.from_iterable(language.times.months)))):
            languages.setdefault(name, []).append(language)
    return languages


@cache
def time_words(language: Language) -> frozenset[str]:
    """Words of which every rule needs one, unless it needs a number."""
    phrases = [*language.times.moments, *(moments() if language is ENGLISH else ())]
    words = {max(tokens(phrase), key=len) for phrase in phrases}
    if language is ENGLISH:
        words |= {*UNIT_NAMES, *(f"{unit}s" for unit in UNIT_NAMES), "weekend", "christmas"}
    return frozenset(words | set(_codes(language)))


@cache
def _rules(language: Language) -> Rules:
    if language.unspaced:
        return translated_rules(language)
    if language is not ENGLISH:
        return [*translated_rules(language), (compile_rule(NUMERIC_DATE), Calendar.period)]
    return english_rules()


# -- encoding ---

_AMBIGUOUS_MONTHS = ("may", "march")  # certainly months only with a capital letter
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
_DAY_FIRST = re.compile("([0-9]{1,2})[/-]([0-9]{1,2})[/-]((?:19|20)[0-9]{2})")
# 2023-05-08, 1.5, 10:30, 1,000
_NUMBER_PIECE = r"[0-9]+(?:[-./:][0-9]+|,[0-9]{1,3}(?![0-9])){1,12}+(?:[Tt][0-9:.]+[Zz]?)?(?!\w)"
_PIECE = re.compile(rf"{_NUMBER_PIECE}|\w+(?:'\w+)*")
_CHARACTER = re.compile(r"\S")
_PIECE_WITH_ELISION = re.compile(rf"{_NUMBER_PIECE}|\w+'?")


class EncodedText:
    """A text normalized for the rules.

    Words are in lower case, without accents, and separated by single spaces. `,` stands for any
    punctuation, `-` for a hyphen. The words that rules need most are a capital letter and a number:

        M  a month, such as M5                  W  a weekday, from W0 (Monday)
        P  possibly a month ("may")             S  a season, by its first month
        Q  a month only next to a number        N  a number word
        Y  a year                               O  an ordinal

    In languages other than English, U is a unit, followed by its English name. In a language that
    is written without spaces, the text only loses its spaces.
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
        self._is_claimed = bytearray(len(self._spans))  # for each piece
        self.text = ""
        previous_end = 0
        previous_word = ""
        for start, end in self._spans:
            if self.text:
                self.text += separator(previous_word, plain[previous_end:start], language)
            self._starts.append(len(self.text))
            previous_word = plain[start:end]
            previous_end = end
            self.text += encode_word(previous_word, language)

    def claim(self, match: re.Match[str]) -> bool:
        """Reserve the words of a match; False if another rule has one of them."""
        pieces = self._pieces(match)
        if any(self._is_claimed[pieces]):
            return False
        self._is_claimed[pieces] = b"\1" * (pieces.stop - pieces.start)
        return True

    def place(self, match: re.Match[str]) -> tuple[int, int]:
        """The start and end of the words of a match in the original text."""
        pieces = self._pieces(match)
        return self._spans[pieces.start][0], self._spans[pieces.stop - 1][1]

    def _pieces(self, match: re.Match[str]) -> slice:
        first = bisect_left(self._starts, match.start())
        last = bisect_left(self._starts, match.end())
        return slice(first, last)


def plain_text(text: str) -> str:
    """The text in lower case, without accents."""
    letters = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return "".join(letters).casefold()


def encode_word(text: str, language: Language) -> str:
    """A word as the rules see it; see `EncodedText`."""
    if language.unspaced:
        return unicodedata.normalize("NFKC", text)
    word = plain_text(text).removesuffix("'s")
    code = _codes(language).get(word)
    if code is not None:
        is_capitalized = text[0].isupper() and text[1:].islower()
        if code[0] != "M" or language is not ENGLISH or is_capitalized:
            return code
        letter = "P" if word in _AMBIGUOUS_MONTHS else "M" if word in MONTHS else "Q"
        return letter + code[1:]
    if (
        len(word) == 4
        and word.isascii()
        and word.isdecimal()
        and _FIRST_YEAR <= int(word) <= _LAST_YEAR
    ):
        return "Y" + word
    if language is not ENGLISH:
        word = _DAY_FIRST.sub(r"\1.\2.\3", word)
    number = word.rstrip(ascii_lowercase)
    if number.isdigit() and len(number) <= 2 and word[len(number) :] in language.times.ordinals:
        return "O" + number
    return word


@cache
def _codes(language: Language) -> dict[str, str]:
    """The codes of the words of a language; see `EncodedText`."""
    times = language.times
    codes: dict[str, str] = {}
    for letter, first, groups in (
        ("M", 1, times.months),
        ("W", 0, times.weekdays),
        ("N", 1, times.numbers),
    ):
        for number, names in enumerate(groups, start=first):
            codes |= {plain_text(name): f"{letter}{number}" for name in names}
    codes |= {plain_text(name): f"S{SEASONS[season]}" for name, season in times.seasons.items()}
    codes |= {plain_text(name): f"U{unit}" for name, unit in times.units.items()}
    return codes


def separator(previous_word: str, gap: str, language: Language) -> str:
    """What stands for the characters between two words."""
    if language.unspaced:
        return ""
    gap = gap.strip()
    if gap == "." and previous_word.isdigit() and "." in language.times.ordinals:
        return " "
    if gap == "." and _codes(language).get(plain_text(previous_word), "").startswith("M"):
        full_names = {plain_text(names[0]) for names in language.times.months}
        return " , " if plain_text(previous_word) in full_names else " "
    return {"": " ", "-": " - "}.get(gap, " , ")


# -- translation ---

_PLACEHOLDER = re.compile("{([a-z]+[0-9]?)}")


def translated_rules(language: Language) -> Rules:
    """The rules of a language. Longer adverbs come first."""
    times = language.times
    values = placeholders(language)
    numbers = count()

    def group(match: re.Match[str]) -> str:
        """A group for a placeholder, which can occur more than once."""
        return f"(?P<{match[1]}_{next(numbers)}>{values[match[1].rstrip('2')][0]})"

    rules = []
    for pattern, english in times.rules:
        plain = pattern if language.unspaced else plain_text(pattern)
        rules.append((_PLACEHOLDER.sub(group, plain), english))
    rules += [
        (re.escape(EncodedText(words, language).text), times.moments[words])
        for words in sorted(times.moments, key=len, reverse=True)
    ]
    compile_pattern = re.compile if language.unspaced else compile_rule
    return [(compile_pattern(pattern), translated(english, values)) for pattern, english in rules]


Placeholders = Mapping[str, tuple[str, Mapping[str, str]]]


def placeholders(language: Language) -> Placeholders:
    """The pattern of each placeholder, and the codes of what matches it in the English rules."""
    times = language.times
    if not language.unspaced:
        units = {f"U{unit}": unit for unit in times.units.values()}
        return {
            "count": ("[0-9]{1,3}|N[0-9]+", {}),
            "one": ("N1", {}),
            "unit": ("U[a-z]+", units),
            "week": ("Uweek", units),
            "day": ("O?[0-9]{1,2}", {}),
            "month": ("M[0-9]+", {}),
            "weekday": (WEEKDAY, {}),
            "season": (SEASON, {}),
            "year": (YEAR, {}),
        }
    # A name can have several meanings (日, 일).
    numbers = {name: str(n) for n, names in enumerate(times.numbers, 1) for name in names}
    digits = {str(n): str(n) for n in range(1000)}
    weekdays = {name: f"W{n}" for n, names in enumerate(times.weekdays) for name in names}
    seasons = {name: f"S{SEASONS[season]}" for name, season in times.seasons.items()}
    months = {name: f"M{n}" for name, n in (numbers | digits).items()}
    number = any_of(*numbers)
    return {
        "count": (f"[0-9]{{1,3}}|{number}", {name: f"N{n}" for name, n in numbers.items()}),
        "unit": (any_of(*times.units), times.units),
        "day": (f"[0-9]{{1,2}}|{number}", numbers),
        "month": (f"(?<![0-9])(?:1[0-2]|[1-9])|{number}", months),
        "weekday": (any_of(*weekdays), weekdays),
        "season": (any_of(*seasons), seasons),
        "year": ("(?<![0-9])(?:19|20)[0-9]{2}", {f"{y}": f"Y{y}" for y in range(1900, 2100)}),
    }


def translated(english: str, values: Placeholders) -> Meaning:
    """The meaning of a rule with this translation. Placeholders that did not match are left out."""

    def meaning(calendar: Calendar, match: re.Match[str]) -> Span:
        codes = {}
        for group, value in match.groupdict().items():
            if value is not None:
                name = group.partition("_")[0]
                codes[name] = values[name.rstrip("2")][1].get(value, value)
        text = _PLACEHOLDER.sub(lambda placeholder: codes.get(placeholder[1], ""), english)
        text = " ".join(text.split())
        for rule, english_meaning in english_rules():
            english_match = rule.fullmatch(text)
            if english_match is not None:
                return english_meaning(calendar, english_match)
        raise ValueError(f"There is no rule for `{text}`.")

    return meaning


# -- dates in other formats ---
# 2023-03-14 is also 14.03.2023, March 14, 2023 or 14. März 2023.

_THREE_NUMBERS = re.compile(r"\W*\d+[-./]\d+[-./]\d+\W*")
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
        for period in windows(word, _LATE):
            if period.end - period.start == _DAY:
                return list(dict.fromkeys(_formats(period.start.date())))
    return []


def mentions_day(text: str, day: date) -> bool:
    """Whether a text mentions a day of some year. "Version 1 may break" does not mention May 1."""
    numbers = re.finditer(rf"(?<![0-9])0?{day.day}(?![0-9])", text)
    for number in islice(numbers, _MOST_NUMBERS):
        around = text[max(number.start() - _DATE_LENGTH, 0) : number.end() + _DATE_LENGTH]
        for period in windows(around, _LATE):
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
