"""Snippets: a short part of a text around the words that match.

FTS5's own snippet() is not used, because it is quadratic in the matches of a row and cannot be
interrupted. Here the text is searched slice by slice until one contains a match, and the first
matches in that slice determine the position of the snippet.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from recollect.language.query_tree import Word
from recollect.language.text import indexable, is_unspaced, non_ascii_characters
from recollect.settings import LIMITS

_MOST_MATCHES = 64
_MAX_FOLDED_SINGLY = 8
_CHARACTERS_BEFORE = 400  # before the first match
_CHARACTERS_AFTER = 4_000  # after the first match
_SLICE_OVERLAP = 1_000
_LONGEST_SPACE_SEARCH = 30
_SPACE = re.compile(r"\s+")
_WORD_CHARACTER = re.compile(r"[^\W_]")
_TOKEN = re.compile(r"[^\W_]+")

Marks = tuple[tuple[int, int], ...]
"""The start and end of each match in a snippet."""
Span = tuple[int, int]


def snippet(
    content: str, words: Sequence[Word], length: int = LIMITS.snippet_length
) -> tuple[str, Marks]:
    """About `length` characters around the best matches, and the positions of the matches.

    White space is collapsed. `…` marks omitted text.
    """
    _, text, marks = snippet_at(content, words, length)
    return text, marks


def snippet_at(content: str, words: Sequence[Word], length: int) -> tuple[int, str, Marks]:
    """Where a snippet begins in the content, the snippet, and the positions of its matches."""
    pattern = _pattern(tuple(words))
    start, text = _slice_with_match(content, pattern)
    window_start = _window_start(_matches(pattern, text), length)
    first = _next_word(text, window_start)
    window = text[first : first + length]
    result = _SPACE.sub(" ", window).strip()
    if start + first > 0:
        result = "…" + result
    if start + first + len(window) < len(content):
        result += "…"
    return start + first, result, tuple(_matches(pattern, result))


def short_snippet(content: str, words: Sequence[Word], length: int) -> str:
    """A snippet of at most `length` characters, including `…`."""
    text, _ = snippet(content, words, max(1, length - 2))
    return text[:length]


def excerpt(content: str, words: Sequence[Word], size: int) -> tuple[str, Marks]:
    """A snippet of at most `size` words, a third of them before the first match.

    Two characters of a script without spaces count as a word. A snippet has at most
    `LIMITS.excerpt_characters`, whatever is between the words.
    """
    pattern = _pattern(tuple(words))
    start, text = _slice_with_match(content, pattern)
    begin, end = _excerpt_window(text, _matches(pattern, text), size, at_start=start == 0)
    result = _SPACE.sub(" ", text[begin:end]).strip()
    if start + begin > 0:
        result = "…" + result
    if start + end < len(content):
        result += "…"
    marks = _matches(pattern, result)
    if any(word.prefix for word in words):
        marks = _extend_to_word_ends(marks, result)
    return result, tuple(marks)


def first_match(content: str, words: Sequence[Word]) -> int | None:
    """The position of the first match; None if there is none."""
    return _first_match(content, _pattern(tuple(words)))


def best_match(content: str, words: Sequence[Word], length: int) -> int | None:
    """Where the most different words are closest together in a snippet of this length."""
    pattern = _pattern(tuple(words))
    start, text = _slice_with_match(content, pattern)
    matches = _matches(pattern, text)
    if not matches:
        return None
    first = _best_match(matches, length)
    end = first + max(1, length * 3 // 4)
    return start + _closest_words(text, [span for span in matches if first <= span[0] < end])


def _closest_words(text: str, matches: Sequence[Span]) -> int:
    """The start of the shortest part of the text that contains all different matches."""
    words = [_fold(text[start:end]) for start, end in matches]
    count = len(set(words))
    last_start: dict[str, int] = {}
    best_length, best_start = len(text) + 1, matches[0][0]
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
        return sum(position <= other < position + room for other in positions), -position

    best = max(0, max(positions, key=quality))
    return best, max(0, min(best - before, len(tokens) - size))


# -- matching ------------------------------------------------------------------


@lru_cache(maxsize=64)
def _pattern(words: tuple[Word, ...]) -> re.Pattern[str] | None:
    """A pattern for the words in folded text: their tokens, separated by anything else."""
    alternatives = []
    for word in words:
        tokens = _TOKEN.findall(_fold(indexable(word.text)))
        if not word.text:  # empty quotes
            continue
        if not tokens:
            alternatives.append(re.escape(_fold(word.text)))
            continue
        alternative = r"[\W_]*".join(map(re.escape, tokens))
        if tokens[-1].isascii() and not word.prefix:
            alternative += r"(?![^\W_])"
        alternatives.append(alternative)
    if not alternatives:
        return None
    return re.compile("|".join(alternatives))


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
    """Only for ASCII letters: scripts without spaces have no gaps between words."""
    if position == 0 or not (text[position].isascii() and text[position].isalnum()):
        return False
    return _WORD_CHARACTER.match(text, position - 1) is not None


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    """Exactly one character: lower case, in compatibility form, without accents."""
    if is_unspaced(character):  # the marks of kana and the parts of Hangul tell words apart
        return unicodedata.normalize("NFKC", character)[0]
    return (unicodedata.normalize("NFKD", character).casefold() or character)[0]


def _fold(text: str) -> str:
    """The text folded for matching. Its length stays the same."""
    if text.isascii():
        return text.lower()
    others = non_ascii_characters(text)
    if len(others) > _MAX_FOLDED_SINGLY:
        return "".join(map(_fold_character, text))
    # With few such characters, this is several times faster.
    for character in others:
        folded = _fold_character(character)
        if not _is_folded(folded):
            return "".join(map(_fold_character, text))
        text = text.replace(character, folded)
    return text.lower()


def _is_folded(character: str) -> bool:
    """Whether folding the character again changes nothing."""
    return _fold_character(character) == character == character.lower()


def _matches(pattern: re.Pattern[str] | None, text: str) -> list[Span]:
    if pattern is None:
        return []
    return list(islice(_all_matches(pattern, _fold(text)), _MOST_MATCHES))


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
        pair = pattern.match(text, end - 1)
        if pair is None or pair.end() <= end:
            break
        end = pair.end()
    return end


def _first_match(content: str, pattern: re.Pattern[str] | None) -> int | None:
    if pattern is None:
        return None
    size = LIMITS.snippet_slice
    end = min(len(content), LIMITS.indexed_characters)
    for start in range(0, end, size - _SLICE_OVERLAP):
        match = _next_match(pattern, _fold(content[start : start + size]))
        if match is not None:
            return start + match.start()
    return None


# -- positioning ---------------------------------------------------------------


def _slice_with_match(content: str, pattern: re.Pattern[str] | None) -> tuple[int, str]:
    """The text around the first match, and where it starts in the content."""
    position = _first_match(content, pattern)
    if position is None:
        return 0, content[: LIMITS.snippet_slice]
    start = max(0, position - _CHARACTERS_BEFORE)
    return start, content[start : position + _CHARACTERS_AFTER]


def _window_start(matches: Sequence[Span], length: int) -> int:
    """Where a snippet must start to contain the most matches, with a quarter of it before them."""
    if not matches:
        return 0
    return max(0, _best_match(matches, length) - length // 4)


def _best_match(matches: Sequence[Span], length: int) -> int:
    """The start of the match that is followed by the most others in a snippet of this length."""
    room = length * 3 // 4

    def quality(number: int) -> tuple[int, int]:
        start, _ = matches[number]
        return sum(end - start <= room for _, end in matches[number:]), -number

    best = max(range(len(matches)), key=quality)
    return matches[best][0]


def _next_word(text: str, position: int) -> int:
    """The start of the next word, if it is near."""
    if position == 0:
        return 0
    space = _SPACE.search(text, position, position + _LONGEST_SPACE_SEARCH)
    if space is None:
        return position
    return space.end()
