"""Decide whether a text matches a query, by the text itself instead of an index."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.text import tokens
from recollect.settings import LIMITS


def matches(node: Node, title: str, content: str) -> bool:
    """Whether a passage with this title and content matches a query."""
    columns = [tokens(title), tokens(content[: LIMITS.indexed_characters])]
    return _matches(node, columns)


def are_near(text: Sequence[str], parts: Sequence[Word], distance: int) -> bool:
    """As FTS5 defines NEAR: every part starts at most `distance` words before the last one."""
    matches: list[tuple[list[int], int]] = []
    for part in parts:
        words = tokens(part.text)
        matches.append((occurrences(text, words, part.prefix), len(words)))
    ends = sorted({start for starts, _ in matches for start in starts})
    return any(
        all(_has_number_between(starts, end - length - distance, end) for starts, length in matches)
        for end in ends
    )


def _matches(node: Node, columns: Sequence[Sequence[str]]) -> bool:
    match node:
        case Word(text, prefix):
            words = tokens(text)
            return any(occurrences(column, words, prefix) for column in columns)
        case Near(parts, distance):
            return any(are_near(column, parts, distance) for column in columns)
        case Not(part):
            return not _matches(part, columns)
        case And(parts):
            return all(_matches(part, columns) for part in parts)
        case Or(parts):
            return any(_matches(part, columns) for part in parts)


def occurrences(text: Sequence[str], words: Sequence[str], prefix: bool) -> list[int]:
    """The positions at which the words follow each other. The last one may be a prefix."""
    if not words:
        return []
    *first, last = words
    if not first and not prefix:  # most words; many times faster
        return [place for place, word in enumerate(text) if word == last]

    def is_here(start: int) -> bool:
        end = start + len(first)
        if text[start:end] != first:
            return False
        if prefix:
            return text[end].startswith(last)
        return text[end] == last

    return [start for start in range(len(text) - len(first)) if is_here(start)]


def _has_number_between(numbers: Sequence[int], first: int, last: int) -> bool:
    """Whether one of some numbers in ascending order is between two others, or equal to one."""
    place = bisect_left(numbers, first)
    return place < len(numbers) and numbers[place] <= last
