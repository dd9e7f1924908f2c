"""A passage as its words in one string, to search it without an index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from recollect.language.queries.matching import are_near
from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.text import tokens
from recollect.settings import LIMITS

_TITLE_END = "  "


def word_text(title: str, content: str) -> str:
    """The words of a passage with spaces between and around them.

    Two spaces separate the title, so that no phrase runs from it into the content.
    """
    words = tokens(content[: LIMITS.indexed_characters])
    return f" {' '.join(tokens(title))}{_TITLE_END}{' '.join(words)} "


def occurrences(word: Word, text: str) -> int:
    """How often a word or phrase occurs in the words of a passage."""
    phrase = _phrase(word)
    if not phrase:
        return 0
    return text.count(phrase)


def matcher(node: Node) -> Callable[[str], bool]:
    """A function that says whether the words of a passage match a query."""
    match node:
        case Word():
            phrase = _phrase(node)
            return lambda text: bool(phrase) and phrase in text
        case Near():
            return partial(_has_near, node)
        case Not(part):
            is_match = matcher(part)
            return lambda text: not is_match(text)
        case Or(parts):
            matchers = [matcher(part) for part in parts]
            return lambda text: any(is_match(text) for is_match in matchers)
        case And(parts):
            matchers = [matcher(part) for part in parts]
            return lambda text: all(is_match(text) for is_match in matchers)


def _phrase(word: Word) -> str:
    """What the words of a passage contain if they match a word or phrase; empty if none can."""
    words = tokens(word.text)
    if not words:
        return ""
    if word.prefix:
        return f" {' '.join(words)}"
    return f" {' '.join(words)} "


def _has_near(node: Near, text: str) -> bool:
    return any(
        are_near(column.split(), node.parts, node.distance) for column in text.split(_TITLE_END)
    )
