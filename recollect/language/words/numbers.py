"""Numbers in other formats.

1249 is also written 1,249, 1.249 or 1 249. Version 2.14.0 is also written v2.14.0, and 500g is also
written 500 g.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_AMOUNT = re.compile(r"(?P<number>[0-9]+)(?P<unit>[a-z]{1,3})")
_GROUP = 3  # digits
_MAX_DIGITS = 15


def other_number_formats(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The words of a number, version or amount in its other formats."""
    formats = (other_number_format(words), other_version_format(words), _spaced_amount(words))
    return list(filter(None, formats))


def other_version_format(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a version with a `v` before it, or without it; empty if it is no version."""
    if len(words) < 2 or not words[1][0].isdigit():
        return ()
    first, *others = words
    if first.isdigit() and len(first) <= _GROUP:
        return (f"v{first}", *others)
    if first[0] == "v" and first[1:].isdigit():
        return (first[1:], *others)
    return ()


def other_number_format(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a number in its other format; empty if they are not a number with two formats.

    The words of `1,249.50` are 1, 249 and 50. Its other format is 1249.50.
    """
    if not all(word.isascii() and word.isdigit() for word in words):
        return ()
    first, *others = words
    if len(first) > _MAX_DIGITS:
        return ()
    if len(first) > _GROUP:
        return (*_groups(first), *others)
    groups = [first]
    while others and len(others[0]) == _GROUP:
        groups.append(others.pop(0))
    if len(groups) == 1 or len(others) > 1:
        return ()
    return ("".join(groups), *others)


def _spaced_amount(words: Sequence[str]) -> tuple[str, ...]:
    """The numbers and the unit of an amount that is written without a space, such as 2.5mg."""
    *numbers, last = words
    amount = _AMOUNT.fullmatch(last)
    if amount is None or not all(number.isdigit() for number in numbers):
        return ()
    return (*numbers, amount["number"], amount["unit"])


def _groups(digits: str) -> list[str]:
    """Groups of three digits, the first of which may be shorter."""
    size = len(digits) % _GROUP or _GROUP
    starts = range(size, len(digits), _GROUP)
    return [digits[:size], *(digits[start : start + _GROUP] for start in starts)]
