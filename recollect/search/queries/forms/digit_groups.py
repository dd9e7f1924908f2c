"""Long numbers in other groups.

A phone number, an IBAN or a card number is written with spaces in one place and without in another:
01614960723 is also 0161 496 0723.
"""

from __future__ import annotations

import re

from recollect.language.queries.query_tree import Word
from recollect.language.text import tokens
from recollect.search.queries.terms import Form
from recollect.store.base import Store

# With fewer digits, other numbers have the same ones by chance.
_LONG_NUMBER = re.compile(r"(?=(?:[a-z]*[0-9]){7})[a-z]{0,2}[0-9][a-z0-9]{6,33}")
_MAX_GROUP = 8
_ISBN_PREFIXES = ("978", "979")
_MOST_GROUPINGS = 20


def long_numbers(text: str) -> dict[Form, str]:
    """The words of each long number in a text, and the number without spaces."""
    words = tokens(text)
    numbers: dict[Form, str] = {}
    start = 0
    while start < len(words):
        end = start
        while end < len(words) and any(character.isdigit() for character in words[end]):
            end += 1
        number = "".join(words[start:end])
        if _LONG_NUMBER.fullmatch(number):
            numbers[tuple(words[start:end])] = number
        start = max(end, start + 1)
    return numbers


def groupings(number: str, store: Store) -> list[Form]:
    """The groups of digits in which the library has a number."""
    places = range(len(number) + 1)
    parts = {number[i:j] for i in places for j in places if _may_be_group(number, i, j)}
    words = store.known_words(sorted(parts))
    forms = _splits(number, words)
    if not forms:
        return []
    frequencies, _ = store.frequencies([Word(" ".join(form)) for form in forms])
    return [form for form, frequency in zip(forms, frequencies, strict=True) if frequency]


def _may_be_group(number: str, start: int, end: int) -> bool:
    """Whether a part of a number may stand alone.

    A single digit may be a country code (1 415 555 0132), a check digit, or the second group of an
    ISBN (978-3-16-148410-0). Elsewhere, there are too many ways to split a number.
    """
    size = end - start
    if size != 1:
        return 1 < size <= _MAX_GROUP or size == len(number)
    return start == 0 or end == len(number) or number[:start] in _ISBN_PREFIXES


def _splits(number: str, words: set[str]) -> list[Form]:
    """The ways to split a number into words, those with few words first.

    A number can be split in very many ways, so only some are kept for each of its ends.
    """
    splits_from: dict[int, list[Form]] = {len(number): [()]}
    for start in range(len(number) - 1, -1, -1):
        splits = [
            (number[start:end], *others)
            for end, rest in splits_from.items()
            if number[start:end] in words and _may_be_group(number, start, end)
            for others in rest
        ]
        splits_from[start] = sorted(splits, key=len)[:_MOST_GROUPINGS]
    return splits_from[0]
