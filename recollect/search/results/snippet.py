"""Snippets: a short part of a text around the words that match.

FTS5's own snippet() is not used, because it is quadratic in the matches of a row and cannot be
interrupted. Here the text is searched slice by slice until one contains a match. Of the text from
there on, as much as the ranker reads, the snippet shows the part with the most different words.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.language.queries.query_tree import Word
from recollect.language.terminal_codes import position_with_codes, without_terminal_codes
from recollect.language.text import is_unspaced, non_ascii_characters
from recollect.language.words import stems
from recollect.search.results.word_finder import Span, WordFinder, fold, word_finder
from recollect.settings import LIMITS

_CHARACTERS_BEFORE = 400  # before the first match
_EXCERPT_CHARACTERS = 4_000  # after the first match, from which an excerpt is chosen
_SLICE_OVERLAP = 1_000
_LONGEST_SPACE_SEARCH = 30
_SPACE = re.compile(r"\s+")
_TOKEN = re.compile("(?:[^\\W_][\u0300-\u036f]*)+")

Marks = tuple[tuple[int, int], ...]
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
    start, text, folded = _part_with_match(plain, finder, LIMITS.ranked_characters)
    first = _window_start(text, folded, finder.matches(folded), length)
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
    start, text, folded = _part_with_match(plain, finder, _EXCERPT_CHARACTERS)
    begin, end = _excerpt_window(text, finder.matches(folded), size, at_start=start == 0)
    result = " ".join(text[begin:end].split())
    if start + begin > 0:
        result = "…" + result
    if start + end < len(plain):
        result += "…"
    marks = finder.matches(fold(result))
    if any(word.prefix for word in words):
        marks = _extend_to_word_ends(marks, result)
    return position_with_codes(content, start + begin), result, tuple(marks)


def first_match(content: str, words: Sequence[Word]) -> int | None:
    """The position of the first match; None if there is none."""
    match = _slice_with_match(without_terminal_codes(content), word_finder(words))
    if match is None:
        return None
    return position_with_codes(content, match.position)


def best_match(content: str, words: Sequence[Word], length: int) -> int | None:
    """Where the most different words are closest together in a snippet of this length."""
    finder = word_finder(words)
    plain = without_terminal_codes(content)
    start, _, folded = _part_with_match(plain, finder, LIMITS.ranked_characters)
    matches = finder.matches(folded)
    if not matches:
        return None
    first = _best_match(folded, matches, length)
    end = first + max(1, length * 3 // 4)
    closest = _closest_words(folded, [span for span in matches if first <= span[0] < end])
    return position_with_codes(content, start + closest)


def _closest_words(folded: str, matches: Sequence[Span]) -> int:
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


def _extend_to_word_ends(marks: Sequence[Span], text: str) -> list[Span]:
    ends = [match.end() for match in _TOKEN.finditer(text)]
    return [(start, next((e for e in ends if e >= end), end)) for start, end in marks]


def _excerpt_window(text: str, matches: Sequence[Span], size: int, *, at_start: bool) -> Span:
    """Where an excerpt of `size` words begins and ends.

    With `at_start` the text is the beginning of a message.
    """
    limit = LIMITS.excerpt_characters
    tokens = list(_excerpt_tokens(text))
    if not tokens:
        return 0, min(len(text), limit)
    best, first = _best_token(tokens, matches, size)
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


def _excerpt_tokens(text: str) -> Iterator[Span]:
    """The words of a text. Runs of characters without spaces are cut into pairs."""
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if not any(map(is_unspaced, non_ascii_characters(match[0]))):
            yield start, end
            continue
        for position in range(start, end, 2):
            yield position, min(position + 2, end)


def _best_token(tokens: Sequence[Span], matches: Sequence[Span], size: int) -> tuple[int, int]:
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


def _slice_with_match(content: str, finder: WordFinder) -> _Match | None:
    size = LIMITS.snippet_slice
    end = min(len(content), LIMITS.indexed_characters)
    for start in range(0, end, size - _SLICE_OVERLAP):
        folded = fold(content[start : start + size])
        position = finder.first(folded)
        if position is not None:
            return _Match(start + position, start, folded)
    return None


def _part_with_match(content: str, finder: WordFinder, size: int) -> tuple[int, str, str]:
    """Where the text around the first match starts in the content, that text, and it folded.

    `size`: the characters of the text after the match.
    """
    match = _slice_with_match(content, finder)
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


def _window_start(text: str, folded: str, matches: Sequence[Span], length: int) -> int:
    """Where a snippet must start to contain the best matches, with a quarter of it before them."""
    if not matches:
        return 0
    match = _best_match(folded, matches, length)
    return _next_word(text, max(0, match - length // 4), match)


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
    size_of = {stem_of[word]: max(1, len(_TOKEN.findall(word))) for word in distinct}
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


def _next_word(text: str, position: int, match: int) -> int:
    """The start of the next word, if it is near and not after the match."""
    if position == 0:
        return 0
    space = _SPACE.search(text, position, min(position + _LONGEST_SPACE_SEARCH, match))
    if space is None:
        return position
    return space.end()
