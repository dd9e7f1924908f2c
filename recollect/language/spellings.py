"""Other spellings and formats of a word: how else a message may write what a query says.

Other *spellings* are the same word, so they are always searched for as well: colour and color, PDF
and PDFs, soeur and sœur. Other *formats* are searched for if no message has the word as it was
typed: `EventLoop` and event_loop, 2.14.0 and v2.14.0, 1249 and 1,249, March 14 and 2023-03-14.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from recollect.language.languages import ENGLISH, Language
from recollect.language.text import tokens

Form = tuple[str, ...]
"""Consecutive words, as they are indexed; usually just one."""

# -- spellings ---

_LIGATURES = {"œ": "oe", "æ": "ae"}
_FRENCH_LIGATURE = re.compile("oe(?=u|il)")  # words of other languages have none, such as "goes"
_VARIABLE_ENDING = re.compile("(?P<vowel>[iy])(?P<letter>[sz])(?P<rest>e[sdr]?|ers|ing|ations?)")
_MIN_LETTERS_BEFORE = 3  # "rise" and "size" have one spelling
_CONSONANT = "[bcdfghjklmnpqrstvwxz]"
# Words without a vowel, or with one at the end. They may as well be other words, such as "spa".
_ACRONYM = re.compile(f"{_CONSONANT}{{2,5}}|{_CONSONANT}{{2,4}}[aiou]")


def other_spellings(word: str, language: Language) -> list[str]:
    """The other spellings of a word. One that does not exist does no harm: no message has it."""
    spellings = [other_ligature(word)]
    if language is ENGLISH:
        spellings += [british_or_american(word), singular_or_plural(word)]
    return list(filter(None, spellings))


def other_ligature(word: str) -> str:
    letters = word
    for ligature, pair in _LIGATURES.items():
        letters = letters.replace(ligature, pair)
    if letters != word:
        return letters
    return _FRENCH_LIGATURE.sub("œ", word) if "oe" in word and _FRENCH_LIGATURE.search(word) else ""


@lru_cache(maxsize=4_096)
def british_or_american(word: str) -> str:
    """The British spelling of an American word, or the reverse; empty if there is none."""
    others = spelling_pairs()
    for length in range(len(word), 2, -1):
        other = others.get(word[:length])
        if other is not None:
            return other + word[length:]
    for start in range(_MIN_LETTERS_BEFORE, len(word) - 2):
        ending = _VARIABLE_ENDING.fullmatch(word, start)
        if ending is not None:
            other = "z" if ending["letter"] == "s" else "s"
            return f"{word[:start]}{ending['vowel']}{other}{ending['rest']}"
    return ""


@cache
def spelling_pairs() -> dict[str, str]:
    pairs = ENGLISH.fields.groups("spellings")
    return dict(pairs) | {american: british for british, american in pairs}


def singular_or_plural(word: str) -> str:
    """The singular of a plural acronym, or the plural of a singular one; else empty.

    The English stemmer takes them for different words, because they have no vowel before the "s".
    """
    singular = word.removesuffix("s")
    if not _ACRONYM.fullmatch(singular) or f"{singular}s" in acronyms_in_s():
        return ""
    return singular if singular != word else f"{word}s"


@cache
def acronyms_in_s() -> frozenset[str]:
    return frozenset(ENGLISH.fields.words("acronyms_in_s"))


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


# -- formats ---

_INNER_CAPITAL = re.compile("[a-z][A-Z]")
_PART_OF_CAMEL_CASE = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_SNAKE_CASE = re.compile("[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")
_LETTERS_OR_DIGITS = re.compile("[a-z]+|[0-9]+")
_LETTER_WITH_NUMBER = re.compile("[A-Za-z]-?[0-9]+")
_FILE_AND_LINE = re.compile(r"\W*+(?P<file>[^:]*\w\.[A-Za-z]\w*):(?P<line>[0-9]+)(?::[0-9]+)?\W*")
_PACKAGE_AND_VERSION = re.compile(r"\W*+[\w./-]++(?:[=~<>!]=|@)(?P<version>v?[0-9]+(?:\.\w+)+)\W*")
_AMOUNT = re.compile(r"(?P<number>[0-9]+)(?P<unit>[a-z]{1,3})")
_GROUP = 3  # digits
_MAX_DIGITS = 15
_LONG_VOWEL = "ー"
_MIN_KATAKANA = 3


def other_formats(word: str) -> list[Form]:
    """The other formats of a word as it was typed."""
    form = tuple(tokens(word))
    if not form:
        return []
    forms = dict.fromkeys(other for make in FORMATS for other in make(word, form))
    return [other for other in forms if other and other != form]


def dates(word: str, form: Form) -> Sequence[Form]:
    from recollect.language.dates import formats_in  # reads the files of all languages

    return formats_in(word)


def _numbers(word: str, form: Form) -> Sequence[Form]:
    """1249.50 is also 1,249.50, 1.249,50 and 1 249,50: in words, 1 249 50."""
    first, *others = form
    if not all(part.isascii() and part.isdigit() for part in form) or len(first) > _MAX_DIGITS:
        return []
    if len(first) > _GROUP:
        size = len(first) % _GROUP or _GROUP
        starts = range(size, len(first), _GROUP)
        groups = [first[:size], *(first[start : start + _GROUP] for start in starts)]
        return [(*groups, *others)]
    groups = [first]
    while others and len(others[0]) == _GROUP:
        groups.append(others.pop(0))
    if len(groups) == 1 or len(others) > 1:
        return []
    return [("".join(groups), *others)]


def versions(word: str, form: Form) -> Sequence[Form]:
    """2.14.0 is also v2.14.0."""
    if len(form) < 2 or not form[1][0].isdigit():
        return []
    first, *others = form
    if first.isdigit() and len(first) <= _GROUP:
        return [(f"v{first}", *others)]
    if first[0] == "v" and first[1:].isdigit():
        return [(first[1:], *others)]
    return []


def amounts(word: str, form: Form) -> Sequence[Form]:
    """2.5mg is also 2.5 mg."""
    *numbers, last = form
    amount = _AMOUNT.fullmatch(last)
    if amount is None or not all(number.isdigit() for number in numbers):
        return []
    return [(*numbers, amount["number"], amount["unit"])]


def _names(word: str, form: Form) -> Sequence[Form]:
    """`EventLoop` is also event_loop, room B204 is B-204, and app.py:12 is "app.py", line 12."""
    place = _FILE_AND_LINE.fullmatch(word)
    if place is not None:
        return [(*tokens(place["file"]), "line", place["line"])]
    if _SNAKE_CASE.fullmatch(word):
        return [("".join(form),)]
    if len(form) == 1 and has_inner_capital(word):
        return [tuple(map(str.lower, _PART_OF_CAMEL_CASE.findall(word)))]
    if len(form) == 2 and _LETTER_WITH_NUMBER.fullmatch(word):
        return [("".join(form),)]
    if form[0].isascii() and form[0][0].isalpha():  # B204, python3.12
        return [(*_LETTERS_OR_DIGITS.findall(form[0]), *form[1:])]
    return []


def with_ligatures(word: str, form: Form) -> Sequence[Form]:
    """coeliaque is also cœliaque."""
    return [tuple(part.replace("oe", "œ").replace("ae", "æ") for part in form)]


def without_long_vowel(word: str, form: Form) -> Sequence[Form]:
    """サーバー (server) is also サーバ."""
    if is_katakana(form) and form[-1] == _LONG_VOWEL and len(form) > _MIN_KATAKANA:
        return [form[:-1]]
    return []


FORMATS: tuple[Callable[[str, Form], Sequence[Form]], ...] = (
    dates,
    _numbers,
    versions,
    amounts,
    _names,
    with_ligatures,
    without_long_vowel,
)
"""Each makes other formats of a word as it was typed, given its words as they are indexed."""


def is_katakana(form: Sequence[str]) -> bool:
    """Whether the characters of a form are a word in katakana."""
    letters = all("ァ" <= char <= "ヺ" or char == _LONG_VOWEL for char in form)
    return letters and len(form) >= _MIN_KATAKANA


def has_inner_capital(text: str) -> bool:
    """Whether a text contains a part of a name such as `PaymentService`."""
    return _INNER_CAPITAL.search(text) is not None


def parts_that_stand_alone(word: str) -> list[str]:
    """The file of `app.py:12`, and the version of `numpy==2.0.25` or `react@18.2.0`."""
    place, pin = _FILE_AND_LINE.fullmatch(word), _PACKAGE_AND_VERSION.fullmatch(word)
    return [match[1] for match in (place, pin) if match is not None]
