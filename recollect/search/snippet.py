"""A look at a passage around what matched, built on bounded slices of its text.

FTS5's own snippet() is not used: it is quadratic in the hits of a row and
cannot be interrupted. Here the text is read in slices until one holds a match,
and the first matches of that slice decide where the window lies.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from recollect.language.query import Word
from recollect.language.text import indexable
from recollect.settings import LIMITS

_HITS = 64
_BEFORE = 400  # characters before the first match, and
_LOOKED_AT = 4_000  # after it, among which the window is chosen
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]")
_TOKEN = re.compile(r"[^\W_]+")

Marks = tuple[tuple[int, int], ...]


def snippet(
    content: str, wanted: Sequence[Word], length: int = LIMITS.snippet_length
) -> tuple[str, Marks]:
    """At most about `length` characters around the best matches, and where they are marked.

    White space is folded; `…` stands where text was left out.
    """
    pattern = _pattern(tuple(wanted))
    start, text = _slice_with_match(content, pattern)
    hits = _hits(pattern, text)
    first = _window(hits, length)
    cut = _word_start(text, first)
    window = text[cut : cut + length]
    more_before = start + cut > 0
    more_after = start + cut + len(window) < len(content)
    shown = _SPACE.sub(" ", window).strip()
    shown = ("…" if more_before else "") + shown + ("…" if more_after else "")
    return shown, tuple(_hits(pattern, shown))


def short_snippet(content: str, wanted: Sequence[Word], length: int) -> str:
    """A snippet that keeps to its length, `…` included."""
    shown, _ = snippet(content, wanted, max(1, length - 2))
    return shown[:length]


def first_match(content: str, wanted: Sequence[Word]) -> int | None:
    """Where the first of the words stands; None where there is none of them."""
    return _found_at(content, _pattern(tuple(wanted)))


def excerpt(content: str, wanted: Sequence[Word], words: int) -> tuple[str, Marks]:
    """The same by words instead of characters: at most so many around the matches, with a third of the room before."""
    pattern = _pattern(tuple(wanted))
    start, text = _slice_with_match(content, pattern)
    tokens = [(found.start(), found.end()) for found in _TOKEN.finditer(text)]
    if not tokens:
        return (text[:_BEFORE], ()) if len(text) <= _BEFORE else (text[:_BEFORE] + "…", ())
    hits = _hits(pattern, text)
    first = _first_token(tokens, hits, words)
    last = min(first + words, len(tokens)) - 1
    begin = 0 if first == 0 and start == 0 else tokens[first][0]
    end = len(text) if last == len(tokens) - 1 else tokens[last][1]
    whole = last == len(tokens) - 1 and start + len(text) >= len(content)
    shown = _SPACE.sub(" ", text[begin:end][:_LOOKED_AT]).strip()
    shown = ("…" if start + begin > 0 else "") + shown + ("" if whole else "…")
    ends = (
        [found.end() for found in _TOKEN.finditer(shown)] if any(w.prefix for w in wanted) else []
    )
    return shown, tuple(
        (a, next((end for end in ends if end >= b), b)) for a, b in _hits(pattern, shown)
    )


def _first_token(
    tokens: Sequence[tuple[int, int]], hits: Sequence[tuple[int, int]], words: int
) -> int:
    """Where a window of so many tokens holds the most hits, the first of them a third into it."""
    starts = [start for start, _ in tokens]
    places = sorted({bisect_right(starts, at) - 1 for at, _ in hits})
    if not places:
        return 0
    room = words - words // 3
    best = max(places, key=lambda p: (sum(p <= q < p + room for q in places), -p))
    return max(0, min(best - words // 3, len(tokens) - words))


@lru_cache(maxsize=64)
def _pattern(wanted: tuple[Word, ...]) -> re.Pattern[str] | None:
    """The words as they appear in folded text: their tokens, with anything but words between them."""
    alternatives = []
    for word in wanted:
        tokens = re.findall(r"[^\W_]+", _bare(indexable(word.text)))
        if not tokens:
            alternatives.append(re.escape(_bare(word.text)))
            continue
        after = r"(?![^\W_])" if tokens[-1].isascii() and not word.prefix else ""
        alternatives.append(r"[\W_]*".join(map(re.escape, tokens)) + after)
    return re.compile("|".join(alternatives)) if alternatives else None


def _search(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    """The next match that does not begin inside a word. The pattern itself does not look behind,
    for then it could not skip ahead to a first letter, and would be ten times slower."""
    while found := pattern.search(text, start):
        at = found.start()
        if not (at and text[at].isalnum() and text[at].isascii() and _WORD.match(text, at - 1)):
            return found
        start = at + 1
    return None


@lru_cache(maxsize=4096)
def _bare_character(character: str) -> str:
    """One character for one character: lower case, compatibility form, without accents."""
    return (unicodedata.normalize("NFKD", character).casefold() or character)[0]


def _bare(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_bare_character, text))


def _hits(pattern: re.Pattern[str] | None, text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    bare, start = _bare(text), 0
    while pattern is not None and len(found) < _HITS and (match := _search(pattern, bare, start)):
        found.append(match.span())
        start = max(match.end(), match.start() + 1)
    return found


def _slice_with_match(content: str, pattern: re.Pattern[str] | None) -> tuple[int, str]:
    at = _found_at(content, pattern)
    if at is None:
        return 0, content[: LIMITS.snippet_slice]
    start = max(0, at - _BEFORE)
    return start, content[start : at + _LOOKED_AT]


def _found_at(content: str, pattern: re.Pattern[str] | None) -> int | None:
    size = LIMITS.snippet_slice
    if pattern is not None:
        for start in range(0, min(len(content), LIMITS.indexed_characters), size - 1_000):
            if first := _search(pattern, _bare(content[start : start + size])):
                return start + first.start()
    return None


def _window(hits: list[tuple[int, int]], length: int) -> int:
    """Where to begin so that the most hits are inside, with a little before the first of them."""
    if not hits:
        return 0
    room = length * 3 // 4
    best = max(
        range(len(hits)), key=lambda i: (sum(1 for h in hits[i:] if h[1] - hits[i][0] <= room), -i)
    )
    return max(0, hits[best][0] - length // 4)


def _word_start(text: str, at: int) -> int:
    """Move forward to the next word, but not far."""
    if at == 0:
        return 0
    space = _SPACE.search(text, at, at + 30)
    return space.end() if space else at
