"""Queries and texts in PostgreSQL's own forms: tsquery and tsvector.

Words are cut here, as everywhere in Recollect, so the server's language
settings have no say. A tsvector keeps a word's first 255 places, none past
16,383, and at most a megabyte in all; where a text has more, a phrase is looked
for in the text itself, and so is NEAR, which PostgreSQL does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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

LONGEST = 128  # letters of a word that are kept
_LAST_PLACE = 16_383
_PLACES = 255
_SIZE = 900_000  # bytes
_NOTHING = "'\x1f'"  # no text has this word


class Indexed(NamedTuple):
    """What is kept of a text."""

    words: str
    """As a tsvector is written."""
    length: int
    sure: bool
    """Every word is there with all its places."""
    whole: bool
    """Every word is there."""
    distinct: set[str]


def indexed(title: str, content: str) -> Indexed:
    head = tokens(title)
    body = tokens(content[: LIMITS.indexed_characters])
    whole = len(content) <= LIMITS.indexed_characters
    # A place between title and text stays free, so that no phrase reaches from one into the other.
    start = len(head) + 2 if head else 1
    if (
        len(head) + len(body) <= _PLACES
    ):  # then there is room for every place; most messages come here
        places: dict[str, str] = {}
        for words, first, label in ((head, 1, "A"), (body, start, "")):
            for place, word in enumerate(words, first):
                word = word[:LONGEST]
                before = places.get(word)
                places[word] = f"{place}{label}" if before is None else f"{before},{place}{label}"
        written = " ".join([f"'{word}':{at}" for word, at in places.items()])
        return Indexed(written, len(head) + len(body), whole, whole, set(places))
    return _indexed_long(head, body, start, whole)


def _indexed_long(head: Sequence[str], body: Sequence[str], start: int, whole: bool) -> Indexed:
    places: dict[str, list[str]] = {}
    size = 0
    sure = whole
    for words, first, label in ((head, 1, "A"), (body, start, "")):
        for place, word in enumerate(words, first):
            word = word[:LONGEST]
            listed = places.get(word)
            if listed is None:
                size += len(word.encode()) + 6
                if size > _SIZE:
                    sure = whole = False
                    break
                listed = places[word] = []
            if place > _LAST_PLACE or len(listed) >= _PLACES:
                sure = False
            else:
                size += 2
                listed.append(f"{place}{label}")
    written = " ".join(
        f"'{word}':{','.join(at)}" if at else f"'{word}'" for word, at in places.items()
    )
    return Indexed(written, len(head) + len(body), sure, whole, set(places))


# -- queries -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compiled:
    query: str
    """The tsquery: exact, or where it is not, true of everything that matches."""
    exact: bool
    phrases: bool
    """It asks for words in a row, which only texts that are `sure` can answer."""
    wider: str
    """Without places: true of everything that matches, in any text."""


def compiled(node: Node) -> Compiled:
    exact = _is_exact(node)
    return Compiled(
        _tsquery(node, places=True) or _NOTHING
        if exact
        else _tsquery(node, places=False) or _NOTHING,
        exact,
        _has_phrase(node),
        _tsquery(node, places=False) or _NOTHING,
    )


def _is_exact(node: Node) -> bool:
    match node:
        case Word(text):
            return all(len(word) < LONGEST for word in tokens(text))
        case Near():
            return False
        case Not(part):
            return _is_exact(part)
        case And(parts) | Or(parts):
            return all(map(_is_exact, parts))


def _has_phrase(node: Node) -> bool:
    match node:
        case Word(text):
            return len(tokens(text)) > 1
        case Not(part):
            return _has_phrase(part)
        case And(parts) | Or(parts):
            return any(map(_has_phrase, parts))


def _tsquery(node: Node, places: bool) -> str | None:
    """None where it says nothing that the index can tell."""
    match node:
        case Word(text, prefix):
            return _phrase(tokens(text), prefix, places)
        case Not(part):
            sure = places or (_is_exact(part) and not _has_phrase(part))
            inner = _tsquery(part, places) if sure else None
            return None if inner is None else f"!({inner})"
        case And(parts):
            queries = [q for q in (_tsquery(p, places) for p in parts) if q is not None]
            return f"({' & '.join(queries)})" if queries else None
        case Or(parts):
            each = [_tsquery(p, places) for p in parts]
            return None if None in each else f"({' | '.join(q for q in each if q)})"


def _phrase(words: Sequence[str], prefix: bool, places: bool) -> str:
    if not words:
        return _NOTHING
    lexemes = [f"'{word[:LONGEST]}'" + (":*" if len(word) > LONGEST else "") for word in words]
    if prefix and not lexemes[-1].endswith("*"):
        lexemes[-1] += ":*"
    return lexemes[0] if len(lexemes) == 1 else f"({(' <-> ' if places else ' & ').join(lexemes)})"
