"""The rules for periods in other languages: a pattern, and its English translation.

A translation means what the English rules make of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import cache

from recollect.language.languages.base import Language
from recollect.language.periods.calendar import Calendar, Span
from recollect.language.periods.encoding import SEASONS, EncodedText, plain_text
from recollect.language.periods.english_rules import (
    SEASON,
    WEEKDAY,
    YEAR,
    Meaning,
    Rules,
    any_of,
    compile_rule,
    english_rules,
)

_PLACEHOLDER = re.compile("{([a-z]+[0-9]?)}")


def translated_rules(language: Language) -> Rules:
    """The rules of a language. Longer adverbs come first."""
    times = language.times
    groups = _placeholders(language)
    rules = []
    for pattern, english in times.rules:
        if not language.unspaced:
            pattern = plain_text(pattern)
        rules.append((_expand_placeholders(pattern, groups), english))
    moments = sorted(times.moments, key=len, reverse=True)
    rules += [
        (re.escape(EncodedText(words, language).text), times.moments[words]) for words in moments
    ]
    if language.unspaced:
        return [(re.compile(pattern), _translated(english, language)) for pattern, english in rules]
    return [(compile_rule(pattern), _translated(english, language)) for pattern, english in rules]


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
            "weekday": WEEKDAY,
            "season": SEASON,
            "year": YEAR,
        }
    times = language.times
    number = any_of(*(name for names in times.numbers for name in names.split()))
    return {
        "count": f"[0-9]{{1,3}}|{number}",
        "unit": any_of(*times.units),
        "day": f"[0-9]{{1,2}}|{number}",
        "month": f"(?<![0-9])(?:1[0-2]|[1-9])|{number}",
        "weekday": any_of(*(name for names in times.weekdays for name in names.split())),
        "season": any_of(*times.seasons),
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

    def meaning(calendar: Calendar, match: re.Match[str]) -> Span:
        text = _translate(english, match, language)
        for rule, english_meaning in english_rules():
            english_match = rule.fullmatch(text)
            if english_match is not None:
                return english_meaning(calendar, english_match)
        raise ValueError(f"There is no rule for `{text}`.")

    return meaning


def _translate(english: str, match: re.Match[str], language: Language) -> str:
    """Fill the placeholders of the translation. Those that did not match are left out."""
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
        "season": {name: f"S{SEASONS[season]}" for name, season in times.seasons.items()},
    }
