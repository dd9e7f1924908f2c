"""Snippets: a short part of a text around the words that match.

FTS5's own snippet() is not used, because it is quadratic in the matches of a row and cannot be
interrupted. Here the text is searched slice by slice until one contains a match. Of the text from
there on, as much as the ranker reads, the snippet shows the part with the most different words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

from recollect.language.queries.query_tree import Word
from recollect.language.symbols import position_with_codes, symbol_name, without_terminal_codes
from recollect.language.text import LETTERS, indexable, is_unspaced, non_ascii_characters
from recollect.language.words import stems
from recollect.settings import LIMITS

_CHARACTERS_BEFORE = 400  # before the first match
_EXCERPT_CHARACTERS = 4_000  # after the first match, from which an excerpt is chosen
_SLICE_OVERLAP = 1_000
_LONGEST_SPACE_SEARCH = 30
_SPACE = re.compile(r"\s+")
_WORD = re.compile("(?:[^\\W_][\u0300-\u036f]*)+")

Span = tuple[int, int]
"""A start and an end."""
Marks = tuple[Span, ...]
"""The start and end of each match in a snippet."""


def snippet(
    content: str, words: Sequence[Word], length: int = LIMITS.snippet_length
) -> tuple[str, Marks]:
    """About `length` characters around the best matches, and the positions of the matches.

    White space is collapsed, and codes of terminals are left out. `…` marks omitted text.
    """
    _, text, marks = snippet_at(content, words, length)
    return text, marks


def snippet_at(content: str, words: Sequence[Word], length: int) -> tuple[int, str, Marks]:
    """Where a snippet begins in the content, the snippet, and the positions of its matches."""
    finder = word_finder(words)
    plain = without_terminal_codes(content)
    start, text, folded = part_with_match(plain, finder, LIMITS.ranked_characters)
    first = window_start(text, folded, finder.matches(folded), length)
    window = text[first : first + length]
    result = " ".join(window.split())
    if start + first > 0:
        result = "…" + result
    if start + first + len(window) < len(plain):
        result += "…"
    position = position_with_codes(content, start + first)
    return position, result, tuple(finder.matches(fold(result)))


def short_snippet(content: str, words: Sequence[Word], length: int) -> str:
    """A snippet of at most `length` characters, including `…`."""
    text, _ = snippet(content, words, max(1, length - 2))
    return text[:length]


def excerpt_at(content: str, words: Sequence[Word], size: int) -> tuple[int, str, Marks]:
    """Like `snippet_at`, with at most `size` words, a third of them before the first match.

    Two characters of a script without spaces count as a word. A snippet has at most
    `LIMITS.excerpt_characters`, whatever is between the words.
    """
    finder = word_finder(words)
    plain = without_terminal_codes(content)
    start, text, folded = part_with_match(plain, finder, _EXCERPT_CHARACTERS)
    begin, end = excerpt_window(text, finder.matches(folded), size, at_start=start == 0)
    result = " ".join(text[begin:end].split())
    if start + begin > 0:
        result = "…" + result
    if start + end < len(plain):
        result += "…"
    marks = finder.matches(fold(result))
    if any(word.prefix for word in words):
        marks = extend_to_word_ends(marks, result)
    return position_with_codes(content, start + begin), result, tuple(marks)


def first_match(content: str, words: Sequence[Word]) -> int | None:
    """The position of the first match; None if there is none."""
    match = slice_with_match(without_terminal_codes(content), word_finder(words))
    if match is None:
        return None
    return position_with_codes(content, match.position)


def best_match(content: str, words: Sequence[Word], length: int) -> int | None:
    """Where the most different words are closest together in a snippet of this length."""
    finder = word_finder(words)
    plain = without_terminal_codes(content)
    start, _, folded = part_with_match(plain, finder, LIMITS.ranked_characters)
    matches = finder.matches(folded)
    if not matches:
        return None
    first = _best_match(folded, matches, length)
    end = first + max(1, length * 3 // 4)
    closest = closest_words(folded, [span for span in matches if first <= span[0] < end])
    return position_with_codes(content, start + closest)


def closest_words(folded: str, matches: Sequence[Span]) -> int:
    """The start of the shortest part of the text that contains all different matches."""
    words = [folded[start:end] for start, end in matches]
    count = len(set(words))
    last_start: dict[str, int] = {}
    best_length, best_start = len(folded) + 1, matches[0][0]
    for word, (start, end) in zip(words, matches, strict=True):
        last_start[word] = start
        first = min(last_start.values())
        if len(last_start) == count and end - first < best_length:
            best_length, best_start = end - first, first
    return best_start


def extend_to_word_ends(marks: Sequence[Span], text: str) -> list[Span]:
    ends = [match.end() for match in _WORD.finditer(text)]
    return [(start, next((e for e in ends if e >= end), end)) for start, end in marks]


def excerpt_window(text: str, matches: Sequence[Span], size: int, *, at_start: bool) -> Span:
    """Where an excerpt of `size` words begins and ends.

    With `at_start` the text is the beginning of a message.
    """
    limit = LIMITS.excerpt_characters
    tokens = list(excerpt_tokens(text))
    if not tokens:
        return 0, min(len(text), limit)
    best, first = best_token(tokens, matches, size)
    last = min(first + size, len(tokens)) - 1
    while tokens[best][0] - tokens[first][0] > limit // 3:
        first += 1
    while last > best and tokens[last][1] - tokens[first][0] > limit:
        last -= 1
    begin, end = tokens[first][0], tokens[last][1]
    if first == 0 and at_start and end <= limit:
        begin = 0
    if last == len(tokens) - 1:
        end = len(text)
    return begin, min(end, begin + limit)


def excerpt_tokens(text: str) -> Iterator[Span]:
    """The words of a text. Runs of characters without spaces are cut into pairs."""
    for match in _WORD.finditer(text):
        start, end = match.span()
        if not any(map(is_unspaced, non_ascii_characters(match[0]))):
            yield start, end
            continue
        for position in range(start, end, 2):
            yield position, min(position + 2, end)


def best_token(tokens: Sequence[Span], matches: Sequence[Span], size: int) -> tuple[int, int]:
    """The token with the most matches at and after it, and the first token of an excerpt."""
    starts = [start for start, _ in tokens]
    positions = sorted({bisect_right(starts, start) - 1 for start, _ in matches})
    if not positions:
        return 0, 0
    before = size // 3
    room = size - before

    def quality(position: int) -> tuple[int, int]:
        end = bisect_left(positions, position + room)
        return end - bisect_left(positions, position), -position

    best = max(0, max(positions, key=quality))
    return best, max(0, min(best - before, len(tokens) - size))


# -- positioning ---------------------------------------------------------------


class _Match(NamedTuple):
    """The first match in a text."""

    position: int
    slice_start: int
    """Where the slice that contains it starts."""
    folded_slice: str


def slice_with_match(content: str, finder: WordFinder) -> _Match | None:
    size = LIMITS.snippet_slice
    end = min(len(content), LIMITS.indexed_characters)
    for start in range(0, end, size - _SLICE_OVERLAP):
        folded = fold(content[start : start + size])
        position = finder.first(folded)
        if position is not None:
            return _Match(start + position, start, folded)
    return None


def part_with_match(content: str, finder: WordFinder, size: int) -> tuple[int, str, str]:
    """Where the text around the first match starts in the content, that text, and it folded.

    `size`: the characters of the text after the match.
    """
    match = slice_with_match(content, finder)
    if match is None:
        text = content[: LIMITS.snippet_slice]
        return 0, text, ""
    start = max(0, match.position - _CHARACTERS_BEFORE)
    text = content[start : match.position + size]
    offset = start - match.slice_start
    folded = match.folded_slice[max(offset, 0) : offset + len(text)]
    if len(folded) < len(text):  # a part of the text is in another slice
        folded = fold(text)
    return start, text, folded


def window_start(text: str, folded: str, matches: Sequence[Span], length: int) -> int:
    """Where a snippet must start to contain the best matches, with a quarter of it before them."""
    if not matches:
        return 0
    match = _best_match(folded, matches, length)
    return next_word(text, max(0, match - length // 4), match)


def _best_match(folded: str, matches: Sequence[Span], length: int) -> int:
    """The start of the match from which a snippet of this length has the most different words.

    A phrase or an identifier is as many words as it has. Of several, the one with the most
    matches, then the first one.
    """
    if len(matches) == 1:
        return matches[0][0]
    room = length * 3 // 4
    words = [folded[start:end] for start, end in matches]
    distinct = sorted(set(words))
    stem_of = dict(zip(distinct, stems(distinct), strict=True))
    size_of = {stem_of[word]: max(1, len(_WORD.findall(word))) for word in distinct}
    counts: dict[str, int] = {}
    """How often each stem is in the snippet."""
    different = 0
    best, best_quality = 0, (0, 0)
    end = 0
    for first, (start, _) in enumerate(matches):
        while end < len(matches) and (end == first or matches[end][1] - start <= room):
            name = stem_of[words[end]]
            if name not in counts:
                different += size_of[name]
            counts[name] = counts.get(name, 0) + 1
            end += 1
        quality = different, end - first
        if quality > best_quality:
            best, best_quality = start, quality
        name = stem_of[words[first]]
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
            different -= size_of[name]
    return best


def next_word(text: str, position: int, match: int) -> int:
    """The start of the next word, if it is near and not after the match."""
    if position == 0:
        return 0
    space = _SPACE.search(text, position, min(position + _LONGEST_SPACE_SEARCH, match))
    if space is None:
        return position
    return space.end()


# -- finding words -------------------------------------------------------------

_MOST_MATCHES_OF_WORD = 64
_MOST_MATCHES = 1_000
_MAX_FOLDED_SINGLY = 8
_ACCENTS = "[\u0300-\u036f]"
_WORD_CHARACTER = re.compile(rf"[^\W_]|{_ACCENTS}")
_TOKEN = re.compile(r"[^\W_]+")
# Characters that stand for several letters. Each is folded into one character, so it stays itself.
_LIGATURES = {
    **{"ss": "ß", "ffi": "ﬃ", "ffl": "ﬄ", "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ"},
    **{pair: letter for letter, pair in LETTERS.items() if len(pair) > 1},
}
_LETTERS = re.compile("|".join(_LIGATURES) + "|.", re.DOTALL)
# In decomposed Unicode, these follow the first part of a character of a script without spaces.
_LATER_PARTS = {"\u3099", "\u309a", *map(chr, range(0x1160, 0x1200))}
_UNUSUAL = {*_LIGATURES.values(), *_LATER_PARTS, *map(chr, range(0x300, 0x370))}


class WordFinder:
    """Finds words in folded text: their tokens, separated by anything else."""

    def __init__(self, words: tuple[Word, ...]) -> None:
        self._words = words
        tokens = [_tokens(word) for word in words]
        # Single words of ASCII letters and digits are found faster without a pattern.
        self._is_plain = all(
            len(each) == 1 and each[0].isascii() and not symbol_name(each[0]) for each in tokens
        )
        if self._is_plain:
            self._plain = [(each[0], word.prefix) for each, word in zip(tokens, words, strict=True)]

    def first(self, text: str) -> int | None:
        """Where the first match starts; None if there is none."""
        if self._is_plain and not is_unusual(text):
            places = [place for word in self._plain for place in islice(_places(*word, text), 1)]
            return min(places, default=None)
        return next((start for start, _ in self._find(text)), None)

    def matches(self, text: str) -> list[Span]:
        """The first matches. A frequent word does not displace a rare one that comes later."""
        if self._is_plain and not is_unusual(text):
            ends: dict[int, int] = {}
            for word, is_prefix in self._plain:
                for start in islice(_places(word, is_prefix, text), _MOST_MATCHES_OF_WORD):
                    ends.setdefault(start, start + len(word))
            return sorted(ends.items())
        return list(islice(self._find(text), _MOST_MATCHES))

    def _find(self, text: str) -> Iterator[Span]:
        pattern = self._any_text_pattern if is_unusual(text) else self._pattern
        match = next_match(pattern, text)
        while match is not None:
            start = match.start()
            end = end_of_pairs(pattern, text, match.end())
            yield start, end
            match = next_match(pattern, text, max(end, start + 1))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return pattern_of(self._words, any_text=False)

    @cached_property
    def _any_text_pattern(self) -> re.Pattern[str]:
        """For texts that may have ligatures ("straße" is also strasse), or be decomposed Unicode.

        Few texts need it, and compiling the pattern takes milliseconds.
        """
        return pattern_of(self._words, any_text=True)


@lru_cache(maxsize=64)
def finder_of(words: tuple[Word, ...]) -> WordFinder:
    return WordFinder(words)


def word_finder(words: Sequence[Word]) -> WordFinder:
    return finder_of(tuple(words))


def _tokens(word: Word) -> list[str]:
    return _TOKEN.findall(fold(indexable(word.text)))


def is_unusual(text: str) -> bool:
    return not text.isascii() and not _UNUSUAL.isdisjoint(non_ascii_characters(text))


def _places(word: str, is_prefix: bool, text: str) -> Iterator[int]:
    """Where a word starts in a text, not inside of other words."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        starts_inside = text[start - 1 : start].isalnum()
        if not starts_inside and (is_prefix or not text[end : end + 1].isalnum()):
            yield start
        start = text.find(word, end)


def pattern_of(words: Sequence[Word], *, any_text: bool) -> re.Pattern[str]:
    """A pattern for any words. Where several match, a phrase is marked, not its first word."""
    longest_first = sorted(words, key=lambda word: -len(_tokens(word)))
    # An empty pair of quotes is a word without text.
    alternatives = [_alternative(word, any_text) for word in longest_first if word.text]
    return re.compile("|".join(alternatives) or r"(?!)")


def _alternative(word: Word, any_text: bool) -> str:
    tokens = _tokens(word)
    if not tokens:
        return re.escape(fold(word.text))
    alternative = r"[\W_]*".join(token_pattern(token, any_text) for token in tokens)
    if tokens[-1].isascii() and not word.prefix and not symbol_name(tokens[-1]):
        alternative += r"(?![^\W_])"
    return alternative


def token_pattern(token: str, any_text: bool) -> str:
    pattern = _LETTERS.sub(in_any_form, token) if any_text else re.escape(token)
    name = symbol_name(token)
    if name:  # the text has C++, perhaps with a number, or cplusplus
        return rf"(?:{re.escape(name)}(?![^\W\d_]|[+#])|{pattern}(?![^\W_]))"
    return pattern


def in_any_form(match: re.Match[str]) -> str:
    """A pattern of a letter, or of some that may be a ligature, perhaps decomposed."""
    letters = match[0]
    forms = {letters, unicodedata.normalize("NFD", letters), _LIGATURES.get(letters, letters)}
    patterns = [f"{_ACCENTS}*+".join(map(re.escape, form)) for form in sorted(forms)]
    return f"(?:{'|'.join(patterns)}){_ACCENTS}*+"


def next_match(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    """The next match that does not start inside a word.

    The pattern has no lookbehind: with one, the regex engine could not skip to the first letter of
    a match, and would be ten times slower.
    """
    match = pattern.search(text, start)
    while match is not None and starts_inside_word(text, match.start()):
        match = pattern.search(text, match.start() + 1)
    return match


def starts_inside_word(text: str, position: int) -> bool:
    """Whether a position is inside a word. Never for characters that are not ASCII.

    Scripts without spaces have no gaps between words.
    """
    if position == 0 or not (text[position].isascii() and text[position].isalnum()):
        return False
    return _WORD_CHARACTER.match(text, position - 1) is not None


def end_of_pairs(pattern: re.Pattern[str], text: str, end: int) -> int:
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


# -- folding ---


def fold(text: str) -> str:
    """The text folded for matching. Each character is folded by itself, into one character."""
    if text.isascii():
        return text.lower()
    others = [c for c in non_ascii_characters(text) if not is_folded(c)]
    if len(others) > _MAX_FOLDED_SINGLY:
        return "".join(map(fold_character, text))
    # With few such characters, this is several times faster.
    for character in others:
        folded = fold_character(character)
        if not is_folded(folded):
            return "".join(map(fold_character, text))
        text = text.replace(character, folded)
    return text.lower()


@lru_cache(maxsize=4096)
def fold_character(character: str) -> str:
    """Exactly one character: lower case, in compatibility form, without accents."""
    if character in _LIGATURES.values():
        return character
    if character == "ẞ":
        return "ß"
    if is_unspaced(character):  # the marks of kana and the parts of Hangul tell words apart
        return unicodedata.normalize("NFKC", character)[0]
    folded = (unicodedata.normalize("NFKD", character).casefold() or character)[0]
    if folded in _LIGATURES.values():
        return folded
    return LETTERS.get(folded, folded)


@lru_cache(maxsize=4096)
def is_folded(character: str) -> bool:
    """Whether folding the character again changes nothing."""
    return fold_character(character) == character == character.lower()
