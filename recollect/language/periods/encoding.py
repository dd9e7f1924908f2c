"""Texts as the rules for periods see them: normalized, with codes for months, numbers and so on."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from functools import cache
from string import ascii_lowercase

from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH

MONTHS = tuple(names.split()[0] for names in ENGLISH.times.months)
WEEKDAYS = ENGLISH.times.weekdays
_AMBIGUOUS_MONTHS = ("may", "march")  # certainly months only with a capital letter
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
_YEAR_NUMBER = re.compile("(?:19[7-9]|20[0-9])[0-9]")
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
                self.text += _separator(previous_word, plain[previous_end:start], language)
            self._starts.append(len(self.text))
            previous_word = plain[start:end]
            previous_end = end
            self.text += _encode_word(previous_word, language)

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


def _encode_word(text: str, language: Language) -> str:
    """A word as the rules see it; see `EncodedText`."""
    if language.unspaced:
        return unicodedata.normalize("NFKC", text)
    word = plain_text(text).removesuffix("'s")
    code = _codes(language).get(word)
    if code is not None:
        if code[0] == "M" and language is ENGLISH:
            return _month_letter(text, word) + code[1:]
        return code
    if _YEAR_NUMBER.fullmatch(word):
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
    codes = {}
    for number, names in enumerate(times.months, start=1):
        for name in names.split():
            codes[plain_text(name)] = f"M{number}"
    for number, names in enumerate(times.weekdays):
        for name in names.split():
            codes[plain_text(name)] = f"W{number}"
    for name, season in times.seasons.items():
        codes[plain_text(name)] = f"S{SEASONS[season]}"
    for number, names in enumerate(times.numbers, start=1):
        for name in names.split():
            codes[plain_text(name)] = f"N{number}"
    for name, unit in times.units.items():
        codes[plain_text(name)] = f"U{unit}"
    return codes


def _month_letter(text: str, word: str) -> str:
    """How certain it is that an English word is a month."""
    is_capitalized = text[0].isupper() and text[1:].islower()
    if is_capitalized:
        return "M"
    if word in _AMBIGUOUS_MONTHS:
        return "P"
    if word in MONTHS:
        return "M"
    return "Q"


def _separator(previous_word: str, gap: str, language: Language) -> str:
    if language.unspaced:
        return ""
    gap = gap.strip()
    if not gap or (gap == "." and _has_full_stop(previous_word, language)):
        return " "
    if gap == "-":
        return " - "
    return " , "


def _has_full_stop(word: str, language: Language) -> bool:
    """Whether a full stop after this word does not end the sentence."""
    if word.isdigit():
        return "." in language.times.ordinals
    plain = plain_text(word)
    is_full_name = any(plain == plain_text(names.split()[0]) for names in language.times.months)
    return _codes(language).get(plain, "").startswith("M") and not is_full_name
