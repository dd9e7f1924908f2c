"""The rules for periods in English: a pattern for the encoded text, and its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from recollect.language.periods.calendar import MOMENTS, NUMERIC_DATE, Calendar, Span

UNIT_NAMES = ("minute", "hour", "day", "week", "month", "year")


def any_of(*names: str) -> str:
    """A pattern for any of the names, longest first."""
    return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"


YEAR = "Y[0-9]{4}"
WEEKDAY = "W[0-6]"
SEASON = "S[0-9]+"
_UNITS = f"(?:{'|'.join(UNIT_NAMES)})"
_SURE_MONTH = "M[0-9]+"
_MONTH = "[MP][0-9]+"  # where another word confirms that it is a month
_LIKELY_MONTH = "(?:M[0-9]+|P[0-9]+(?= ,|$))"  # not in "this may be" and the like
_ANY_MONTH = "[MPQ][0-9]+"  # next to a number

_SMALL = "(?:[0-9]{1,3}(?:-[0-9]{1,3})?|N[0-9]+)"
_SOME = f"(?:{_SMALL}(?: (?:or|to|-) {_SMALL}| of)?|few|several)"  # "of" as in "a couple of"
_COUNT = f"(?:(?:a )?{_SOME}|an?)"

_ORDINAL = "O[0-9]+"
_DAY = "O?[0-9]{1,2}"
_DAYS = f"{_DAY}(?:(?:-| - | to ){_DAY})?"
_OF_YEAR = f"(?:(?: ,)? {YEAR})?"
_DATE = (
    f"(?:(?:the )?{_DAY}(?: of)? {_ANY_MONTH}{_OF_YEAR}|{_ANY_MONTH}(?: the)? {_DAYS}{_OF_YEAR})"
)
_SURE_DATE = (
    f"(?:(?:the )?{_DAY}(?: {_SURE_MONTH}| of {_ANY_MONTH}){_OF_YEAR}"
    f"|{_DAY} {_ANY_MONTH}(?: ,)? {YEAR}"
    f"|{_SURE_MONTH}(?: the)? {_DAYS}{_OF_YEAR}"
    f"|{_ANY_MONTH}(?: {_ORDINAL}{_OF_YEAR}| {_DAYS}(?: ,)? {YEAR})"
    f"|P[0-9]+ {_DAY}(?= ,|$))"
)
_MONTH_OF = f"{_ANY_MONTH}(?:(?: ,| of)? {YEAR}|(?: of)? (?:last|this) year)"
_SEASON_OF = f"{SEASON}(?:(?: ,| of)? {YEAR}|(?: of)? (?:last|this) year)"
_CALENDAR_UNIT = "(?:last|this) (?:week|month|year)"
_PERIOD = f"(?:{_DATE}|{NUMERIC_DATE}|{_MONTH_OF}|{_SEASON_OF}|{YEAR}|{_CALENDAR_UNIT})"
_PART_NAME = "(?:early|mid|late)(?: -)?"
_PART_OF = "(?:the )?(?:beginning|start|middle|end) of"
_OPTIONAL_PART = f"(?:(?:{_PART_NAME}|{_PART_OF}) )?"

Meaning = Callable[[Calendar, re.Match[str]], Span]
Rules = list[tuple[re.Pattern[str], Meaning]]

# Earlier rules claim their words, so later rules cannot match them.
_MEANINGS: list[tuple[Meaning, list[str]]] = [
    (
        Calendar.nothing,
        [
            f"(?:in|on) (?:{_MONTH}|{WEEKDAY}) (?:of )?next (?:week|month|year)",
            f"next (?:week|month|year|{WEEKDAY}|{SEASON}|{_MONTH})"
            f"(?: (?:in|on) (?:{_MONTH}|{WEEKDAY}))?",
            f"{_COUNT} {_UNITS}s?(?: and| ,)? {_COUNT} {_UNITS}s? (?:ago|back)",
        ],
    ),
    (Calendar.half_ago, ["half an? (?P<unit>year|hour) (?:ago|back)"]),
    (Calendar.weekday_ago, [f"(?:on )?(?P<weekday>{WEEKDAY}) (?P<count>{_COUNT}) weeks? ago"]),
    (
        Calendar.ago,
        [
            f"(?P<count>{_COUNT}) (?P<unit>{_UNITS}s?)(?: or so)? ago(?: today)?",
            f"(?P<count>{_COUNT}) (?P<unit>(?:week|month|year)s?) back",
        ],
    ),
    (
        Calendar.up_to_now,
        [
            rf"(?:last|past|previous) (?P<count>{_SOME}) (?P<unit>{_UNITS}s?)(?! of\b)",
            rf"(?:in|over|during|within|for) the last (?P<unit>{_UNITS})(?! of\b)",
            rf"past (?P<unit>{_UNITS})(?! of\b| [0-9])",
        ],
    ),
    (Calendar.before_last, ["(?:the )?(?P<unit>week|month|year) before last"]),
    (
        Calendar.weekday_of_week,
        [
            f"(?:on )?(?P<weekday>{WEEKDAY}) (?:of )?(?P<which>last|this) week",
            f"(?P<which>last|this) week(?: on)? (?P<weekday>{WEEKDAY})",
        ],
    ),
    (
        Calendar.between,
        [
            f"(?:between|from) (?P<first>{_PERIOD}|{_MONTH}) (?:and|to|until|till|through) "
            f"(?P<last>{_PERIOD}|{_MONTH})"
        ],
    ),
    (
        Calendar.since,
        [
            f"since (?P<period>{_OPTIONAL_PART}(?:{_PERIOD}|{_MONTH})|yesterday"
            f"|(?:last |this )?(?:{_MONTH}|{WEEKDAY}|{SEASON}|weekend|christmas))"
        ],
    ),
    (
        Calendar.before_or_after,
        [f"(?P<side>before|after) (?P<period>{_OPTIONAL_PART}(?:{_PERIOD}|{_LIKELY_MONTH}))"],
    ),
    (Calendar.week_of, [f"(?:the )?week of (?P<period>{_DATE}|{NUMERIC_DATE})"]),
    (
        Calendar.period,
        [
            f"(?:{_PART_NAME}|{_PART_OF}) (?:{_MONTH_OF}|{YEAR}|{_CALENDAR_UNIT})"
            f"|(?:early|late)(?: -)? {_LIKELY_MONTH}",
            f"(?:mid(?: -)?|{_PART_OF}) {_MONTH}",
            f"(?:(?:on )?{WEEKDAY}(?: ,)? )?(?:{_SURE_DATE}|{NUMERIC_DATE})",
            f"(?:on|until|till) (?:{WEEKDAY}(?: ,)? )?{_DATE}",
            rf"{_MONTH_OF}|{_SEASON_OF}|(?:last|this|past) {SEASON}(?! of\b)",
            f"(?:at|over|around|during|on|last|this) christmas(?: {YEAR})?"
            f"|christmas(?: of)? {YEAR}",
            f"(?:on|last|past|this) {WEEKDAY}",
            f"(?:in|during|throughout)(?: the month of)? {_MONTH}(?! [0-9])"
            f"|(?:last|this) {_LIKELY_MONTH}",
            f"(?:in|during|throughout|the year) {YEAR}",
            rf"{_CALENDAR_UNIT}(?! of\b| [0-9])"
            r"|(?:last|this|past|over the|on the|at the) weekend(?! of\b)",
        ],
    ),
    (Calendar.moment, [f"(?<!most )(?P<moment>{any_of(*MOMENTS)})"]),
]


@cache
def english_rules() -> Rules:
    """Compiled on first use, because compiling takes longer than the rest of starting up."""
    return [(compile_rule(p), meaning) for meaning, patterns in _MEANINGS for p in patterns]


def compile_rule(pattern: str) -> re.Pattern[str]:
    """A pattern that matches whole words."""
    return re.compile(rf"(?<!\S)(?:{pattern})(?!\S)")
