"""Where the words of a query occur in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Protocol

from recollect.language.queries.query_tree import Word
from recollect.language.symbol_names import symbol_name
from recollect.language.text import indexable, is_unspaced, non_ascii_characters

_MOST_MATCHES_OF_WORD = 64
_MOST_MATCHES = 1_000
_MAX_FOLDED_SINGLY = 8
_ACCENTS = "[\u0300-\u036f]"
_WORD_CHARACTER = re.compile(rf"[^\W_]|{_ACCENTS}")
_TOKEN = re.compile(r"[^\W_]+")
# Characters that stand for several letters. Each is folded into one character, so it stays itself.
_LIGATURES = {"ss": "ß", "ffi": "ﬃ", "ffl": "ﬄ", "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ"}
_LETTERS = re.compile("|".join(_LIGATURES) + "|.", re.DOTALL)
# In decomposed Unicode, these follow the first part of a character of a script without spaces.
_LATER_PARTS = {"\u3099", "\u309a", *map(chr, range(0x1160, 0x1200))}
_UNUSUAL = {*_LIGATURES.values(), *_LATER_PARTS, *map(chr, range(0x300, 0x370))}

Span = tuple[int, int]
"""A start and an end."""


class WordFinder(Protocol):
    """Finds words in folded text: their tokens, separated by anything else."""

    def first(self, text: str) -> int | None:
        """Where the first match starts; None if there is none."""

    def matches(self, text: str) -> list[Span]:
        """The first matches. A frequent word does not displace a rare one that comes later."""


def word_finder(words: Sequence[Word]) -> WordFinder:
    """The fastest finder for these words."""
    return _word_finder(tuple(words))


@lru_cache(maxsize=64)
def _word_finder(words: tuple[Word, ...]) -> WordFinder:
    plain_words = []
    for word in words:
        tokens = _tokens(word)
        if len(tokens) != 1 or not tokens[0].isascii() or symbol_name(tokens[0]):
            return _FinderForAnyText(_PatternFinder(words), words)
        plain_words.append((tokens[0], word.prefix))
    return _FinderForAnyText(_PlainFinder(plain_words), words)


def _tokens(word: Word) -> list[str]:
    return _TOKEN.findall(fold(indexable(word.text)))


class _PlainFinder:
    """For single words of ASCII letters and digits, which are found faster without a pattern."""

    def __init__(self, words: Sequence[tuple[str, bool]]) -> None:
        """Words and whether they are prefixes."""
        self._words = words

    def first(self, text: str) -> int | None:
        places = [place for word in self._words for place in islice(_places(*word, text), 1)]
        return min(places, default=None)

    def matches(self, text: str) -> list[Span]:
        ends: dict[int, int] = {}
        for word, is_prefix in self._words:
            for start in islice(_places(word, is_prefix, text), _MOST_MATCHES_OF_WORD):
                ends.setdefault(start, start + len(word))
        return sorted(ends.items())


def _places(word: str, is_prefix: bool, text: str) -> Iterator[int]:
    """Where a word starts in a text, not inside of other words."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        starts_inside = text[start - 1 : start].isalnum()
        if not starts_inside and (is_prefix or not text[end : end + 1].isalnum()):
            yield start
        start = text.find(word, end)


class _FinderForAnyText:
    """For texts that may have ligatures ("straße" is also strasse), or be decomposed Unicode."""

    def __init__(self, plain: WordFinder, words: Sequence[Word]) -> None:
        self._plain = plain
        self._words = words

    @cached_property
    def _pattern(self) -> WordFinder:
        # Few texts need it, and compiling the pattern takes milliseconds.
        return _PatternFinder(self._words, any_text=True)

    def first(self, text: str) -> int | None:
        return self._finder(text).first(text)

    def matches(self, text: str) -> list[Span]:
        return self._finder(text).matches(text)

    def _finder(self, text: str) -> WordFinder:
        if text.isascii() or _UNUSUAL.isdisjoint(non_ascii_characters(text)):
            return self._plain
        return self._pattern


class _PatternFinder:
    """For any words. Where several match, a phrase is marked, not its first word."""

    def __init__(self, words: Sequence[Word], *, any_text: bool = False) -> None:
        longest_first = sorted(words, key=lambda word: -len(_tokens(word)))
        # An empty pair of quotes is a word without text.
        alternatives = [_alternative(word, any_text) for word in longest_first if word.text]
        self._pattern: re.Pattern[str] | None = None
        if alternatives:
            self._pattern = re.compile("|".join(alternatives))

    def first(self, text: str) -> int | None:
        if self._pattern is None:
            return None
        match = _next_match(self._pattern, text)
        if match is None:
            return None
        return match.start()

    def matches(self, text: str) -> list[Span]:
        if self._pattern is None:
            return []
        return list(islice(_all_matches(self._pattern, text), _MOST_MATCHES))


def _alternative(word: Word, any_text: bool) -> str:
    tokens = _tokens(word)
    if not tokens:
        return re.escape(fold(word.text))
    alternative = r"[\W_]*".join(_token_pattern(token, any_text) for token in tokens)
    if tokens[-1].isascii() and not word.prefix and not symbol_name(tokens[-1]):
        alternative += r"(?![^\W_])"
    return alternative


def _token_pattern(token: str, any_text: bool) -> str:
    pattern = _LETTERS.sub(_in_any_form, token) if any_text else re.escape(token)
    name = symbol_name(token)
    if name:  # the text has C++, perhaps with a number, or cplusplus
        return rf"(?:{re.escape(name)}(?![^\W\d_]|[+#])|{pattern}(?![^\W_]))"
    return pattern


def _in_any_form(match: re.Match[str]) -> str:
    """A pattern of a letter, or of some that may be a ligature, perhaps decomposed."""
    letters = match[0]
    forms = {letters, unicodedata.normalize("NFD", letters), _LIGATURES.get(letters, letters)}
    patterns = [f"{_ACCENTS}*+".join(map(re.escape, form)) for form in sorted(forms)]
    return f"(?:{'|'.join(patterns)}){_ACCENTS}*+"


def _next_match(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    """The next match that does not start inside a word.

    The pattern has no lookbehind: with one, the regex engine could not skip to the first letter of
    a match, and would be ten times slower.
    """
    match = pattern.search(text, start)
    while match is not None and _starts_inside_word(text, match.start()):
        match = pattern.search(text, match.start() + 1)
    return match


def _starts_inside_word(text: str, position: int) -> bool:
    """Whether a position is inside a word. Never for characters that are not ASCII.

    Scripts without spaces have no gaps between words.
    """
    if position == 0 or not (text[position].isascii() and text[position].isalnum()):
        return False
    return _WORD_CHARACTER.match(text, position - 1) is not None


def _all_matches(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    match = _next_match(pattern, text)
    while match is not None:
        start = match.start()
        end = _end_of_pairs(pattern, text, match.end())
        yield start, end
        match = _next_match(pattern, text, max(end, start + 1))


def _end_of_pairs(pattern: re.Pattern[str], text: str, end: int) -> int:
    """Where a match ends, with the pairs of characters that begin with its last character.

    A word in a script without spaces is searched as overlapping pairs and marked as a whole.
    """
    while end and is_unspaced(text[end - 1]):
        start = end - 1
        while start and text[start] in _LATER_PARTS:
            start -= 1
        pair = pattern.match(text, start)
        if pair is None or pair.end() <= end:
            break
        end = pair.end()
    return end


# -- folding -------------------------------------------------------------------


def fold(text: str) -> str:
    """The text folded for matching. Each character is folded by itself, into one character."""
    if text.isascii():
        return text.lower()
    others = [c for c in non_ascii_characters(text) if not _is_folded(c)]
    if len(others) > _MAX_FOLDED_SINGLY:
        return "".join(map(_fold_character, text))
    # With few such characters, this is several times faster.
    for character in others:
        folded = _fold_character(character)
        if not _is_folded(folded):
            return "".join(map(_fold_character, text))
        text = text.replace(character, folded)
    return text.lower()


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    """Exactly one character: lower case, in compatibility form, without accents."""
    if character in _LIGATURES.values():
        return character
    if character == "ẞ":
        return "ß"
    if is_unspaced(character):  # the marks of kana and the parts of Hangul tell words apart
        return unicodedata.normalize("NFKC", character)[0]
    return (unicodedata.normalize("NFKD", character).casefold() or character)[0]


@lru_cache(maxsize=4096)
def _is_folded(character: str) -> bool:
    """Whether folding the character again changes nothing."""
    return _fold_character(character) == character == character.lower()
