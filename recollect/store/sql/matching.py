"""Whether a text matches a query, judged by the text itself."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.query import (
    And,
    Near,
    Node,
    Not,
    Or,
    Word,
)
from recollect.language.text import tokens
from recollect.settings import LIMITS


def matches(node: Node, title: str, content: str) -> bool:
    """Whether a passage matches, judged by its text."""
    columns = [tokens(title), tokens(content[: LIMITS.indexed_characters])]
    return _matches(node, columns)


def _matches(node: Node, columns: Sequence[Sequence[str]]) -> bool:
    match node:
        case Word(text, prefix):
            wanted = tokens(text)
            return any(_places(column, wanted, prefix) for column in columns)
        case Near(parts, distance):
            return any(_are_near(column, parts, distance) for column in columns)
        case Not(part):
            return not _matches(part, columns)
        case And(parts):
            return all(_matches(p, columns) for p in parts)
        case Or(parts):
            return any(_matches(p, columns) for p in parts)


def _places(text: Sequence[str], wanted: Sequence[str], prefix: bool) -> list[int]:
    """Where words stand in a row."""
    if not wanted:
        return []
    *first, last = wanted

    def here(at: int) -> bool:
        end = text[at + len(first)]
        return text[at : at + len(first)] == first and (
            end.startswith(last) if prefix else end == last
        )

    return [at for at in range(len(text) - len(first)) if here(at)]


def _are_near(text: Sequence[str], parts: Sequence[Word], distance: int) -> bool:
    """As FTS5 defines it: of the last of them, each other begins no further away than the distance."""
    each = [
        (_places(text, words, part.prefix), len(words))
        for part in parts
        for words in [tokens(part.text)]
    ]
    lasts = sorted({at for places, _ in each for at in places})
    return any(
        all(any(last - length - distance <= at <= last for at in places) for places, length in each)
        for last in lasts
    )
