"""Other ways to write a word: wifi and Wi-Fi, `EventLoop` and event_loop, 1249 and 1,249.

What is the same word in every text has one form already: in the index (Müller and muller, sœur and
soeur), or by its stem (colour and color, PDF and PDFs; see `language.words`).
"""

from __future__ import annotations

import re
from functools import cache

from recollect.language.languages import ENGLISH
from recollect.language.symbols import symbol_name
from recollect.language.text import tokens
from recollect.language.when import formats_in

Form = tuple[str, ...]
"""Consecutive words, as they are indexed; usually just one."""

_FILE_AND_LINE = re.compile(r"\W*+(?P<file>[^:]*\w\.[A-Za-z]\w*):(?P<line>[0-9]+)(?::[0-9]+)?\W*")
_PACKAGE_AND_VERSION = re.compile(r"\W*+[\w./-]++(?:[=~<>!]=|@)(?P<version>v?[0-9]+(?:\.\w+)+)\W*")
_PART_OF_CAMEL_CASE = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_LETTERS_OR_DIGITS = re.compile("[a-z]+|[0-9]+")
_GROUP = 3  # digits
_MAX_DIGITS = 15
_LONG_VOWEL = "ー"
_MIN_KATAKANA = 3


def other_formats(word: str) -> list[Form]:
    """The other formats of a word as it was typed. Those that do not exist do no harm."""
    form = tuple(tokens(word))
    if not form:
        return []
    place = _FILE_AND_LINE.fullmatch(word)
    if place is not None:  # app.py:12 is "app.py", line 12
        return [(*tokens(place["file"]), "line", place["line"])]
    if form[-1] == _LONG_VOWEL and len(form) > _MIN_KATAKANA:  # サーバー (server) is サーバ
        return [form[:-1]]
    formats = formats_in(word)
    first, *others = form
    if first.isdigit() and others and len(first) <= _GROUP:  # 2.14.0 is v2.14.0
        formats.append((f"v{first}", *others))
    if all(part.isascii() and part.isdigit() for part in form):
        formats += _numbers(form)
    elif first[0] == "v" and first[1:].isdigit():
        formats.append((first[1:], *others))
    elif word.isascii() and not symbol_name(first):
        formats += [
            ("".join(form),),  # get_user is getUser, and B-204 is B204
            tuple(map(str.lower, _PART_OF_CAMEL_CASE.findall(word))),  # EventLoop is event_loop
            tuple(_LETTERS_OR_DIGITS.findall(" ".join(form))),  # 2.5mg is 2.5 mg
        ]
    return [other for other in dict.fromkeys(formats) if other != form]


def _numbers(form: Form) -> list[Form]:
    """1249.50 is also 1,249.50, 1.249,50 and 1 249,50: in words, 1 249 50. And the reverse."""
    first, *others = form
    if _GROUP < len(first) <= _MAX_DIGITS and first[0] != "0":
        return [(*tokens(f"{int(first):,}"), *others)]
    groups = [first]
    while others and len(others[0]) == _GROUP:
        groups.append(others.pop(0))
    if len(groups) == 1 or len(others) > 1:
        return []
    return [("".join(groups), *others)]


def parts_that_stand_alone(word: str) -> list[str]:
    """The file of `app.py:12`, and the version of `numpy==2.0.25` or `react@18.2.0`."""
    place, pin = _FILE_AND_LINE.fullmatch(word), _PACKAGE_AND_VERSION.fullmatch(word)
    return [match[1] for match in (place, pin) if match is not None]


# -- words that are also written with a hyphen ---


def separate_words(word: str) -> list[Form]:
    """A compound as two words, in singular and plural, if it is also written like that."""
    parts = hyphenated().get(word) or hyphenated().get(word.removesuffix("s"))
    if parts is None:
        return []
    first, last = parts
    return [(first, last), (first, f"{last}s")]


def joined_word(text: str) -> str:
    """A hyphenated word as one word, if it is also written like that; else empty."""
    word = text.lower().replace("-", "")
    return word if "-" in text and separate_words(word) else ""


@cache
def hyphenated() -> dict[str, list[str]]:
    names = ENGLISH.fields.words("hyphenated")
    return {name.replace("-", ""): name.split("-") for name in names}
