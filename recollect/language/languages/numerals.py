"""Numerals in Chinese characters, which Chinese and Japanese share."""

from __future__ import annotations

_DIGITS = "一二三四五六七八九"
_TEN = "十"
_LAST = 31  # the days of a month


def _numeral(number: int) -> str:
    tens, ones = divmod(number, 10)
    text = ""
    if tens > 1:
        text = _DIGITS[tens - 1]
    if tens:
        text += _TEN
    if ones:
        text += _DIGITS[ones - 1]
    return text


NUMERALS = tuple(_numeral(number) for number in range(1, _LAST + 1))
"""The numbers from 1 to 31."""
