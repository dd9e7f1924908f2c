"""The query tree: the nodes of a parsed query, functions that walk it, whether a text matches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect.language.text import has_token, tokens
from recollect.settings import LIMITS


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a phrase to search for."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All parts must match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Near(And):
    """Words with at most `distance` other words between the first and the last.

    It is a stricter And: code that handles it as an And still finds every match.
    """

    parts: tuple[Word, ...]
    distance: int


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part must match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part must not match."""

    part: Node


Node = Word | And | Or | Not


def typed_word(text: str) -> Word:
    """The word that a text stands for. With a `*` at its end it is a prefix."""
    stem = text.rstrip("*")
    if stem != text and has_token(stem):
        return Word(stem, prefix=True)
    return Word(text)


def excludes_words(node: Node) -> bool:
    """Whether a query says what messages must not contain."""
    match node:
        case Not():
            return True
        case And() | Or():
            return any(map(excludes_words, node.parts))
    return False


def words(node: Node) -> list[Word]:
    """The words that a match can contain: all words that are not negated."""
    match node:
        case Word():
            return [node]
        case Not():
            return []
        case And(parts) | Or(parts):
            return [word for part in parts for word in words(part)]


def all_words(node: Node) -> Iterator[Word]:
    """All words, including negated ones."""
    match node:
        case Word():
            yield node
        case Not(part):
            yield from all_words(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from all_words(part)


def alternatives(node: Node) -> Sequence[Node]:
    """The parts of an OR; otherwise the node itself."""
    if isinstance(node, Or):
        return node.parts
    return (node,)


def all_of(parts: Sequence[Node]) -> Node:
    """A node that matches if all parts do; the part itself if there is only one."""
    if len(parts) == 1:
        return parts[0]
    return And(tuple(parts))


# -- whether a text matches, by the text itself instead of an index ---


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
        all(has_number_between(starts, end - length - distance, end) for starts, length in matches)
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


def has_number_between(numbers: Sequence[int], first: int, last: int) -> bool:
    """Whether one of some numbers in ascending order is between two others, or equal to one."""
    place = bisect_left(numbers, first)
    return place < len(numbers) and numbers[place] <= last
