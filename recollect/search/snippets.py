"""Snippets: a short part of a text around the words that match.

FTS5's own snippet() is not used, because it is quadratic in the matches of a row and cannot be
interrupted. Here the text is searched slice by slice until one contains a match. Of the text from
there on, as much as the ranker reads, the snippet shows the part with the most different words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from recollect.language.queries.query_tree import Word
from recollect.language.symbols import position_with_codes, symbol_name, without_terminal_codes
from recollect.language.text import indexable_as_written, is_unspaced, non_ascii_characters, tokens
from recollect.language.words import stems
from recollect.settings import LIMITS

_CHARACTERS_BEFORE = 400  # before the first match
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
    plain = without_terminal_codes(content)
    finder = word_finder(tuple(words))
    matches = finder.around_first(plain, LIMITS.ranked_characters)
    first = 0
    if matches:  # with a quarter of the snippet before the best matches, at the start of a word
        match = best_start(plain, matches, length)
        first = max(0, match - length // 4)
        if first:
            space = _SPACE.search(plain, first, min(first + _LONGEST_SPACE_SEARCH, match))
            first = first if space is None else space.end()
    return finder.cut(content, plain, first, first + length)


def short_snippet(content: str, words: Sequence[Word], length: int) -> str:
    """A snippet of at most `length` characters, including `…`."""
    text, _ = snippet(content, words, max(1, length - 2))
    return text[:length]


def excerpt_at(content: str, words: Sequence[Word], size: int) -> tuple[int, str, Marks]:
    """Like `snippet_at`, with at most `size` words, a third of them before the best matches.

    Two characters of a script without spaces count as a word. A snippet has at most
    `LIMITS.excerpt_characters`, whatever is between the words.
    """
    limit = LIMITS.excerpt_characters
    plain = without_terminal_codes(content)
    finder = word_finder(tuple(words))
    matches = finder.around_first(plain, _EXCERPT_CHARACTERS)
    match = best_start(plain, matches, limit // 2) if matches else 0
    start = max(0, match - limit)
    spans = list(words_of(plain, start, match + 2 * limit))
    if not spans:
        return finder.cut(content, plain, match, match + limit)
    best = max(0, bisect_right(spans, (match, len(plain))) - 1)
    first = max(0, min(best - size // 3, len(spans) - size))
    while spans[best][0] - spans[first][0] > limit // 3:
        first += 1
    begin, last = spans[first][0], min(first + size, len(spans)) - 1
    while last > best and spans[last][1] - begin > limit:
        last -= 1
    is_at_start = first == 0 and start == 0 and spans[last][1] <= limit
    begin = 0 if is_at_start else begin
    end = len(plain) if spans[last][1] == spans[-1][1] else spans[last][1]
    position, text, marks = finder.cut(content, plain, begin, min(end, begin + limit))
    if any(word.prefix for word in words):
        ends = [word.end() for word in _WORD.finditer(text)]
        marks = tuple((s, next((each for each in ends if each >= e), e)) for s, e in marks)
    return position, text, marks


_EXCERPT_CHARACTERS = 4_000  # after the first match, from which an excerpt is chosen


def words_of(text: str, start: int, end: int) -> Iterator[Span]:
    """The words of a text. Runs of characters without spaces are cut into pairs."""
    for match in _WORD.finditer(text, start, end):
        first, last = match.span()
        step = 2 if any(map(is_unspaced, non_ascii_characters(match[0]))) else last - first
        for place in range(first, last, step):
            yield place, min(place + step, last)


def first_match(content: str, words: Sequence[Word]) -> int | None:
    """The position of the first match; None if there is none."""
    match = word_finder(tuple(words)).first(without_terminal_codes(content))
    return None if match is None else position_with_codes(content, match)


def best_match(content: str, words: Sequence[Word], length: int) -> int | None:
    """Where the most different words are closest together in a snippet of this length."""
    plain = without_terminal_codes(content)
    matches = word_finder(tuple(words)).around_first(plain, LIMITS.ranked_characters)
    if not matches:
        return None
    first = best_start(plain, matches, length)
    end = first + max(1, length * 3 // 4)
    texts = [(plain[s:e].lower(), s, e) for s, e in matches if first <= s < end]
    count = len({text for text, _, _ in texts})
    last_starts: dict[str, int] = {}
    best = len(plain) + 1, first
    for text, match_start, match_end in texts:
        last_starts[text] = match_start
        start = min(last_starts.values())
        if len(last_starts) == count:
            best = min(best, (match_end - start, start))
    return position_with_codes(content, best[1])


def best_start(text: str, matches: Sequence[Span], length: int) -> int:
    """The start of the match from which a snippet of this length has the most different words.

    A phrase or an identifier is as many words as it has. Of several, the one with the most
    matches, then the first one.
    """
    if len(matches) == 1:
        return matches[0][0]
    room = length * 3 // 4
    words = [text[start:end].lower() for start, end in matches]
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


# -- finding words -------------------------------------------------------------

_MOST_MATCHES = 1_000
_WORD_CHARACTER = re.compile(r"[^\W_]")


class WordFinder:
    """Finds words in a text as the index does: their tokens, separated by anything else."""

    def __init__(self, words: Sequence[Word]) -> None:
        # Where several match, a phrase is marked, not its first word.
        longest_first = sorted(words, key=lambda word: -len(tokens(word.text)))
        # An empty pair of quotes is a word without text.
        patterns = [word_pattern(word) for word in longest_first if word.text]
        self._pattern = re.compile("|".join(patterns) or r"(?!)")

    def first(self, text: str) -> int | None:
        """Where the first match starts; None if there is none."""
        size = LIMITS.snippet_slice
        end = min(len(text), LIMITS.indexed_characters)
        for start in range(0, end, size - _SLICE_OVERLAP):
            for match, _ in self._find(text[start : start + size]):
                return start + match
        return None

    def around_first(self, text: str, size: int) -> list[Span]:
        """The matches in the first `size` characters that follow the first match."""
        first = self.first(text)
        if first is None:
            return []
        start = max(0, first - _CHARACTERS_BEFORE)
        found = islice(self._find(text[start : first + size]), _MOST_MATCHES)
        return [(start + match, start + end) for match, end in found]

    def cut(self, content: str, plain: str, start: int, end: int) -> tuple[int, str, Marks]:
        """A part of a text in one line, where it begins in the content, and its matches."""
        text = " ".join(plain[start:end].split())
        if start > 0:
            text = f"…{text}"
        if end < len(plain):
            text += "…"
        return position_with_codes(content, start), text, tuple(self._find(text))

    def _find(self, text: str) -> Iterator[Span]:
        folded, places = fold(text)
        start = 0
        while match := self._pattern.search(folded, start):
            start, end = match.start(), match.end()
            # Scripts without spaces have no gaps between words. The pattern has no lookbehind: with
            # one, the regex engine could not skip to the first letter of a match.
            is_letter = folded[start].isascii() and folded[start].isalnum()
            if is_letter and start and _WORD_CHARACTER.match(folded, start - 1):
                start += 1
                continue
            # A word without spaces is searched as overlapping pairs and marked as a whole.
            while end and is_unspaced(folded[end - 1]):
                pair = self._pattern.match(folded, end - 1)
                if pair is None or pair.end() <= end:
                    break
                end = pair.end()
            yield places[start], max(places[end], places[start] + 1)
            start = max(end, start + 1)


@lru_cache(maxsize=64)
def word_finder(words: tuple[Word, ...]) -> WordFinder:
    return WordFinder(words)


def word_pattern(word: Word) -> str:
    parts = tokens(word.text)
    if not parts:
        return re.escape(fold(word.text)[0])
    patterns = []
    for part in parts:
        name = symbol_name(part)  # the text has C++, perhaps with a number, or cplusplus
        pattern = re.escape(part)
        if name:
            pattern = rf"(?:{re.escape(name)}(?![^\W\d_]|[+#])|{pattern}(?![^\W_]))"
        patterns.append(pattern)
    is_whole = parts[-1].isascii() and not word.prefix and not symbol_name(parts[-1])
    return r"[\W_]*".join(patterns) + (r"(?![^\W_])" if is_whole else "")


# -- folding ---


class _Folding(dict[int, str]):
    """Each character as the index has it: without accents, and ligatures as their letters."""

    def __missing__(self, code: int) -> str:
        folded = indexable_as_written(chr(code)).strip() or chr(code)
        # In decomposed Unicode, accents and parts of Hangul follow the first part of a character.
        is_later_part = unicodedata.combining(chr(code)) or 0x1160 <= code < 0x1200
        self[code] = "" if is_later_part else folded
        return self[code]


_FOLDING = _Folding()
_MARKS = "\u0300-\u036f\u3099\u309a\u1160-\u11ff"
_CLUSTER = re.compile(f"[^{_MARKS}]?[{_MARKS}]+|.", re.DOTALL)


def fold(text: str) -> tuple[str, Sequence[int]]:
    """A text as the index has it, and where in the text each of its characters is."""
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    if all(len(_FOLDING[ord(character)]) == 1 for character in set(text)):
        return text.translate(_FOLDING), range(len(text) + 1)
    parts, places = [], []
    for match in _CLUSTER.finditer(text):
        part = unicodedata.normalize("NFC", match[0]).translate(_FOLDING)
        parts.append(part)
        places += [match.start()] * len(part)
    return "".join(parts), [*places, len(text)]
