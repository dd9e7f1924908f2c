"""Names in code in other formats.

`EventLoop` is also written event_loop or "event loop", and get_user_name is also `getUserName`.
Room B204 is also B-204, and the place that one tool calls `app.py:12` is "app.py", line 12 to
another.
"""

from __future__ import annotations

import re

from recollect.language.text import tokens

_INNER_CAPITAL = re.compile("[a-z][A-Z]")
_PART_OF_CAMEL_CASE = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_SNAKE_CASE = re.compile("[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")
_LETTERS_OR_DIGITS = re.compile("[a-z]+|[0-9]+")
_LETTER_WITH_NUMBER = re.compile("[A-Za-z]-?[0-9]+")
_FILE_AND_LINE = re.compile(r"\W*+(?P<file>[^:]*\w\.[A-Za-z]\w*):(?P<line>[0-9]+)(?::[0-9]+)?\W*")
_PACKAGE_AND_VERSION = re.compile(r"\W*+[\w./-]++(?:[=~<>!]=|@)(?P<version>v?[0-9]+(?:\.\w+)+)\W*")


def has_inner_capital(text: str) -> bool:
    """Whether a text contains a part of a name such as `PaymentService`."""
    return _INNER_CAPITAL.search(text) is not None


def other_names(text: str) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """The names in a text: the words that the index has for each, and those of its other formats.

    A name with capitals is split into its words. Those of a name with underscores are joined.
    """
    names: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for word in text.split():
        parts = tuple(tokens(word))
        other = _other_name(word, parts)
        if other and other != parts:
            names[parts] = [other]
    return names


def version_of_package(word: str) -> str:
    """The version in a word such as `numpy==2.0.25` or `react@18.2.0`; else empty."""
    pin = _PACKAGE_AND_VERSION.fullmatch(word)
    if pin is None:
        return ""
    return pin["version"]


def file_of_line(word: str) -> str:
    """The file in a word such as `app.py:12`; else empty."""
    place = _FILE_AND_LINE.fullmatch(word)
    if place is None:
        return ""
    return place["file"]


def _other_name(word: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the other format of a name, perhaps the same ones; empty if it has none."""
    place = _FILE_AND_LINE.fullmatch(word)
    if place is not None:
        return (*tokens(place["file"]), "line", place["line"])
    if _SNAKE_CASE.fullmatch(word):
        return ("".join(parts),)
    if len(parts) == 1 and has_inner_capital(word):
        return tuple(map(str.lower, _PART_OF_CAMEL_CASE.findall(word)))
    if len(parts) == 2 and _LETTER_WITH_NUMBER.fullmatch(word):
        return ("".join(parts),)
    if parts and parts[0].isascii() and parts[0][0].isalpha():  # B204, python3.12
        first = _LETTERS_OR_DIGITS.findall(parts[0])
        return (*first, *parts[1:])
    return ()
