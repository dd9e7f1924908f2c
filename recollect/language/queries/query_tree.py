"""The query tree: the nodes of a parsed query, and functions that walk it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect.language.text import has_token


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
